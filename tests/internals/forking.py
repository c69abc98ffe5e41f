"""Processes that meet in one cache of compiled code: forks of one that has imported Numba and compiled nothing."""

import json
import os
import pickle
import signal
import sys
import tempfile
import traceback
from functools import partial
from select import select

__all__ = ["gate_writes", "run_in_turns", "serve", "start", "wait_for"]


def serve():
    """Run each code that comes, a line of JSON, in a fork of this process, and answer with what it calls ``result``."""
    import numba

    numba.njit(lambda number: number)(1.0)  # what Numba does before its first function is then done for all
    for line in sys.stdin:
        print(json.dumps(wait_for(start(partial(_run, **json.loads(line))))), flush=True)


def _run(code, place, kept):
    import numba

    sys.path.insert(0, place)
    numba.config.CACHE_DIR = kept
    names = {}
    with tempfile.TemporaryFile("w+") as said:
        os.dup2(said.fileno(), 2)
        exec(code, names)
        said.seek(0)
        return {"result": names["result"], "said": said.read()}


def start(task):
    """Fork, and return the process with the pipe that its result comes through."""
    mine, its = os.pipe()
    child = os.fork()
    if child:
        os.close(its)
        return child, mine
    try:
        result = task()
    except BaseException:
        result = traceback.format_exc()
    with open(its, "wb") as pipe:
        pickle.dump(result, pipe)
    os._exit(0)


def wait_for(started):
    """Return the result of a process; None if it was killed."""
    child, pipe = started
    with open(pipe, "rb") as file:
        content = file.read()
    _, status = os.waitpid(child, 0)
    assert content or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)
    return pickle.loads(content) if content else None


def gate_writes(cache, go, done):
    """Let a process write its file, and rename it, only when it is told to, and tell when that is done."""
    rename = os.replace

    def make(*path_and_mode):
        os.read(go, 1)
        return open(*path_and_mode)

    def replace(*paths):
        os.write(done, b".")
        os.read(go, 1)
        rename(*paths)
        os.write(done, b".")

    cache.open, cache.os.replace = make, replace


def run_in_turns(cache, tasks, order):
    """Run tasks in processes that make a step of their writes each when ``order`` says so; return their results."""
    gates = [(os.pipe(), os.pipe()) for _ in tasks]

    def gated(task, go, done):
        def run():
            gate_writes(cache, go[0], done[1])
            return task()

        return run

    started = [start(gated(task, go, done)) for task, (go, done) in zip(tasks, gates, strict=True)]
    for turn in order:
        os.write(gates[turn][0][1], b".")
        if not select([gates[turn][1][0]], [], [], 60)[0]:
            for child, _ in started:
                os.kill(child, signal.SIGKILL)
            raise AssertionError("a process does not write what it should")
        os.read(gates[turn][1][0], 1)
    return [wait_for(one) for one in started]
