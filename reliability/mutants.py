"""Change the code of shards, algebra and loops in one place at a time, and see whether the tests notice.

    python -m reliability.mutants --minutes 30 [--more] [--seed 0] [--rooms search algebra]

Mutants are drawn at random from all places where an operator, a comparison, a condition or a number can be changed.
One pass over the tests tells how long each takes and which lines it reaches. Each mutant is then written into a copy of
the package and shown to the tests that reach its lines, until one fails: quick ones and those that noticed first.
A mutant of a kernel, whose lines no pass can see, is shown to one test in plain Python and then to all. A test that
takes five times as long as before has noticed. What none notices is kept; reliability/survivors.json says why it may.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reliability.changes import SOURCE, Mutant, mutants

SURVIVORS = Path("reliability/survivors.json")
ROOMS = ("shards", "algebra", "loops")
TESTS = "certified watchlists search solvers sketches inner limit training theory edges replay soak audit generator"
# Before anything is compiled:
PLAIN = "tests/internals/test_uncompiled.py::test_no_loop_leaves_its_arrays_and_every_audit_passes"
LOOPS_EVERY = 20  # mutants: those of loops cost most, since they must be compiled
# Imported once; processes for mutants are copies of this one. Nothing of the package may be among them.
HEAVY = "numba scipy.fft scipy.stats scipy.special sklearn.utils hypothesis.stateful rich.progress safetensors.numpy"
MOST_MEMORY = 12 << 30  # address space of the tests of one mutant


class Told:
    """What pytest tells: how long tests take and, of the unchanged package, which lines they reach."""

    def __init__(self, measured: Any = None) -> None:
        self._measured = measured
        self.seconds = Counter[str]()

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate, Phase.target]  # a failure is enough: nobody reads a smaller one
        settings.register_profile("unshrunk", settings.get_profile("same"), phases=phases)
        settings.load_profile("unshrunk")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._measured:
            self._measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration


class Chosen(Told):
    """Runs some tests only, in their order, and ends the process at one that takes too many seconds of a processor."""

    def __init__(self, tests: dict[str, float], said: Path) -> None:
        super().__init__()
        self._tests, self._said = tests, said  # test -> most seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._tests]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._said.write_text(nodeid)
        signal.setitimer(signal.ITIMER_PROF, self._tests[nodeid])  # nobody handles it: the process ends


class Trial:
    """A copy of the package, with compiled code, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._package, self._clean = folder, folder / "src", folder / "clean"
        self._kills = Counter[str]()
        shutil.copytree(SOURCE, self._package, ignore=shutil.ignore_patterns("*.pyc"))  # with what Numba compiled
        for room in ("shards", "algebra"):
            for path in (self._package / "thresher" / room).rglob("*.py"):
                path.write_text(ast.unparse(ast.parse(path.read_text())))  # as mutants are written
        self._loops = self._package / "thresher" / "loops"
        texts = {path.relative_to(self._loops): path.read_text() for path in self._loops.rglob("*.py")}
        self._users = {
            path: {other for other, text in texts.items() if f"loops.{'.'.join(path.with_suffix('').parts)} " in text}
            for path in texts
        }
        sys.path.insert(0, str(self._package))
        sys.dont_write_bytecode = True  # which is told from another's by whole seconds
        paths = [str(self._package), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)

    def learn(self) -> None:
        """Run all tests on the unchanged package; they must pass. What each reaches and costs is remembered."""
        told = self._folder / "told"

        def work() -> int:
            import coverage

            measured = coverage.Coverage(
                include=[f"{self._package}/*"], data_file=None, config_file=False, concurrency=["thread"]
            )
            measured.start()
            watched = Told(measured)
            status = self._pytest(
                [*(str(next(Path("tests").rglob(f"test_{name}.py"))) for name in TESTS.split()), PLAIN], watched
            )
            measured.stop()
            data = measured.get_data()
            reach = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
            told.write_text(json.dumps({"seconds": watched.seconds, "reach": reach}))
            return status

        if status := apart(work):
            sys.exit(f"Tests fail on the unchanged package, with status {status}:\n{self._output()[-4000:]}")
        learned = json.loads(told.read_text())
        self.seconds: dict[str, float] = learned["seconds"]
        self._reach: dict[str, dict[str, list[str]]] = learned["reach"]
        shutil.copytree(self._loops, self._clean)

    def tests(self, mutant: Mutant) -> set[str]:
        """Return the tests that reach the mutant: all, if it is a kernel or if its line is run on import."""
        reach = self._reach[str(self._package / mutant.path.relative_to(SOURCE))]
        found = {test for line in mutant.lines for test in reach.get(str(line), [])}
        return set(self.seconds) if "" in found or mutant.room == "loops" else found

    def noticed(self, mutant: Mutant) -> str | None:
        """Return the test that notices the mutant, None if none does."""
        target = self._package / mutant.path.relative_to(SOURCE)
        unchanged = target.read_text()
        target.write_text(mutant.text)
        slow = mutant.room == "loops"
        if slow:  # Numba does not see that a helper in another file has changed
            for path in self._all_users(target.relative_to(self._loops)):
                for compiled in (self._loops / path.parent / "__pycache__").glob(f"{path.stem}.*.nb*"):
                    compiled.unlink()
        try:
            tests = self.tests(mutant)
            first = [PLAIN] if slow else []
            others = sorted(tests - set(first), key=lambda test: self.seconds[test] / (1 + self._kills[test]))
            for tier, compiling in ((first, 0), (others, 80 if slow else 0)):
                if tier and (test := self._fails({test: compiling + 5 + 5 * self.seconds[test] for test in tier})):
                    self._kills[test] += 1
                    return test
            return None
        finally:
            target.write_text(unchanged)
            if slow:
                shutil.rmtree(self._loops)
                shutil.copytree(self._clean, self._loops)

    def _all_users(self, path: Path) -> set[Path]:
        """Return a file of loops, and those that use it, directly or not."""
        found, waiting = {path}, [path]
        while waiting:
            new = self._users[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    def _fails(self, tests: dict[str, float]) -> str | None:
        """Return the first of the tests that fails on the package as it is now."""
        said = self._folder / "said"
        said.write_text("when the tests are collected")

        def work() -> int:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (most := int(20 + sum(tests.values())), most))  # children as well
            return self._pytest(["-x", *sorted({test.partition("::")[0] for test in tests})], Chosen(tests, said))

        status = apart(work)
        if status >= pytest.ExitCode.INTERNAL_ERROR:
            sys.exit(f"Tests could not be run, status {status}:\n{self._output()[-4000:]}")
        return said.read_text() if status else None

    def _pytest(self, arguments: list[str], told: Told) -> int:
        with (self._folder / "output").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was imported before
        return pytest.main([*options, *arguments], plugins=[told])

    def _output(self) -> str:
        return (self._folder / "output").read_text()


def apart(work: Callable[[], int]) -> int:
    """Do some work in a copy of this process; return its status, negative if a signal ended it."""
    sys.stdout.flush()
    if process := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    status = 70
    try:
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def order(everything: list[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants in a random order in which one of so many is of a kernel."""
    random.Random(seed).shuffle(everything)
    rooms = defaultdict[bool, list[Mutant]](list)
    for mutant in everything:
        rooms[mutant.room == "loops"].append(mutant)
    others, loops, mixed = rooms[False], rooms[True], list[Mutant]()
    while loops or others:
        mixed += others[: LOOPS_EVERY - 1] + loops[:1]
        others, loops = others[LOOPS_EVERY - 1 :], loops[1:]
    return mixed


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation tests of shards, algebra and loops.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--more", action="store_true", help="go on with the record; try the unexplained again, first")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--only", default="", help="try the mutants whose place or change contains this")
    parser.add_argument("--output", type=Path, default=Path("results/reliability.json"))
    arguments = parser.parse_args()
    paths = [(room, path) for room in ROOMS for path in sorted((SOURCE / "thresher" / room).rglob("*.py"))]
    everything = order([mutant for room, path in paths for mutant in mutants(room, path)], arguments.seed)
    known = {}
    if arguments.more and arguments.output.is_file():
        record = json.loads(arguments.output.read_text()).get("mutants", {})
        known = {(one["place"], one["what"]): one["noticed"] for one in record.get("tried", [])}
    explained = {(one["place"], one["what"]) for one in json.loads(SURVIVORS.read_text())}
    waiting = [
        mutant
        for mutant in everything
        if mutant.room in arguments.rooms and arguments.only in f"{mutant.place} {mutant.what}"
        if not known.get(mutant.name) and not (mutant.name in known and mutant.name in explained)
    ]
    waiting.sort(key=lambda mutant: mutant.name not in known)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        for name in HEAVY.split():
            importlib.import_module(name)
        print("Running the tests on the unchanged package ...", flush=True)
        trial.learn()
        began = time.monotonic()
        for number, mutant in enumerate(waiting, 1):
            known[mutant.name] = test = trial.noticed(mutant)
            minutes = (time.monotonic() - began) / 60
            said = f"noticed by {test}" if test else "SURVIVED"
            print(f"{minutes:.1f} min, {number} of {len(waiting)}: {mutant.place}:{mutant.line} {mutant.what}: {said}")
            tried = [
                {"place": one.place, "line": one.line, "what": one.what, "noticed": known[one.name]}
                for one in everything
                if one.name in known
            ]
            possible = dict(Counter(one.room for one in everything))
            figures = {"possible": possible, "tried": tried, "seed": arguments.seed}
            if status := apart(lambda figures=figures: keep(figures, arguments.output)):
                sys.exit(status)
            if minutes > arguments.minutes:
                break


def keep(figures: dict[str, Any], output: Path) -> int:
    """Write the figures into the record. This imports the package, so it is done apart."""
    from reliability import record

    record.keep("mutants", figures, output=output)
    return 0


if __name__ == "__main__":
    main()
