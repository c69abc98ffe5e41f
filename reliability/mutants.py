"""Change the code of shards, algebra, loops and estimators in one place at a time, and see whether the tests notice.

    python -m reliability.mutants --minutes 30 [--more] [--seed 0] [--rooms shards estimators/data]

Mutants are drawn at random from all places where an operator, a comparison, a condition or a number can be changed.
One pass over the tests tells how long each takes and which lines it reaches; those that fail on the unchanged package
are left out, and named. Each mutant is then written into a copy of the package and shown to the tests that reach its
lines, until one fails: quick ones and those that noticed first. A mutant of a loop, whose lines no pass can see, is
shown to one test in plain Python and then to all. A test that takes five times as long as before has noticed. What none
notices is kept; reliability/survivors.json says why it may.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from reliability.changes import SOURCE, Mutant, mutants

SURVIVORS = Path("reliability/survivors.json")
ROOMS = ("shards", "algebra", "loops", "estimators")  # with the folders in them
NETWORKS = "algebra engines internals model shards theory training reliability/test_soak.py"
LONGEST = 8.0  # seconds of a test that mutants are shown to
# Before anything is compiled:
PLAIN = "tests/internals/test_uncompiled.py::test_no_loop_leaves_its_arrays_and_every_audit_passes"
# Tests that are not among the default ones, and that mutants are shown to as well.
MORE = (PLAIN, "tests/reliability/test_soak.py", "tests/estimators/test_character.py::test_small_fits")
LOOPS_EVERY = 20  # mutants: those of loops cost most, since they must be compiled
# Imported once; processes for mutants are copies of this one. Nothing of the package may be among them.
HEAVY = """numba scipy.fft scipy.optimize scipy.sparse.linalg scipy.stats scipy.special sklearn.datasets
sklearn.model_selection sklearn.utils.estimator_checks hypothesis.stateful pandas rich.progress safetensors.numpy"""
MOST_MEMORY = 12 << 30  # address space of the tests of one mutant


class Told:
    """What pytest tells: how long tests take and, of the unchanged package, which lines they reach."""

    def __init__(self, measured: Any = None) -> None:
        self._measured = measured
        self.seconds, self.failed = Counter[str](), set[str]()

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate, Phase.target]  # a failure is enough: nobody reads a smaller one
        settings.register_profile("unshrunk", settings.get_profile("few"), phases=phases)
        settings.load_profile("unshrunk")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid.startswith(MORE) or not item.get_closest_marker("thorough")]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._measured:
            self._measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:  # or it was skipped
            self.failed.add(report.nodeid)


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

    def __init__(self, folder: Path, tests: list[str]) -> None:
        self._folder, self._package, self._compiled = folder, folder / "src", folder / "compiled"
        self._paths, self._kills = tests, Counter[str]()
        self._compiled.mkdir()
        shutil.copytree(SOURCE, self._package, ignore=shutil.ignore_patterns("*.pyc"))
        for room in (one for one in ROOMS if one != "loops"):
            for path in (self._package / "thresher" / room).rglob("*.py"):
                path.write_text(ast.unparse(ast.parse(path.read_text())))  # as mutants are written
        sys.path.insert(0, str(self._package))
        sys.dont_write_bytecode = True  # which is told from another's by whole seconds
        paths = [str(self._package), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        os.environ["NUMBA_CACHE_DIR"] = str(self._compiled)

    def learn(self) -> None:
        """Run all tests on the unchanged package; remember what each reaches and costs; leave out those that fail."""
        told = self._folder / "told"

        def work() -> int:
            import coverage

            measured = coverage.Coverage(
                include=[f"{self._package}/*"], data_file=None, config_file=False, concurrency=["thread"]
            )
            measured.start()
            watched = Told(measured)
            status = self._pytest(self._paths, watched)
            measured.stop()
            data = measured.get_data()
            reach = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
            found = {"seconds": watched.seconds, "failed": sorted(watched.failed), "reach": reach}
            told.write_text(json.dumps(found))
            return status

        if (status := apart(work)) not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            sys.exit(f"Tests could not be run on the unchanged package, status {status}:\n{self._output()[-4000:]}")
        learned = json.loads(told.read_text())
        seconds, failed = learned["seconds"], set(learned["failed"])
        self.seconds = {test: spent for test, spent in seconds.items() if test not in failed and spent <= LONGEST}
        self._reach: dict[str, dict[str, list[str]]] = learned["reach"]
        print(f"{len(self.seconds):,} of {len(seconds):,} tests, {sum(self.seconds.values()):.0f} s. The others take "
              f"more than {LONGEST:g} s, are skipped, or fail on the unchanged package:")  # fmt: skip
        print(*[line for line in self._output().splitlines() if line.startswith("FAILED")], sep="\n", flush=True)
        self._unchanged = set(self._compiled.iterdir())

    def tests(self, mutant: Mutant) -> set[str]:
        """Return the tests that reach the mutant: all, if it is a kernel or if its line is run on import."""
        reach = self._reach.get(str(self._package / mutant.path.relative_to(SOURCE)), {})
        found = {test for line in mutant.lines for test in reach.get(str(line), [])}
        return set(self.seconds) if "" in found or in_loops(mutant) else found & set(self.seconds)

    def noticed(self, mutant: Mutant) -> str | None:
        """Return the test that notices the mutant, None if none does."""
        target = self._package / mutant.path.relative_to(SOURCE)
        unchanged = target.read_text()
        target.write_text(mutant.text)
        slow = in_loops(mutant)
        try:
            tests = self.tests(mutant)
            ready = sorted(tests, key=lambda test: self.seconds[test] / (1 + self._kills[test]))
            plain = [PLAIN] if slow and PLAIN in tests else []
            first = [test for test in ready if test.startswith(MORE) and test not in plain]  # they notice most
            others = [test for test in ready if test not in plain + first]
            for tier in filter(None, (plain, first, others)):
                compiling = 80 if slow and tier is not plain else 0
                if test := self._fails({test: compiling + 5 + 5 * self.seconds[test] for test in tier}):
                    self._kills[test] += 1
                    return test
            return None
        finally:
            target.write_text(unchanged)
            for folder in set(self._compiled.iterdir()) - self._unchanged:  # code of the mutant
                shutil.rmtree(folder)

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
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short", "-m", "not slow and not gpu"]
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


def room_of(place: str) -> str:
    """Return the folder of a mutant from its place."""
    return place.partition(" ")[0].rpartition("/")[0]


def in_loops(mutant: Mutant) -> bool:
    """Return whether it is in compiled code."""
    return mutant.room.split("/")[0] == "loops"


def files_of(rooms: Sequence[str]) -> list[Path]:
    """Return the files of some rooms, which may be files themselves."""
    found = []
    for room in rooms:
        path = SOURCE / "thresher" / room
        if room.split("/")[0] not in ROOMS or not path.exists():
            sys.exit(f"--rooms are folders or files in {', '.join(ROOMS)} of {SOURCE}/thresher; got {room}.")
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def tests_of(rooms: Sequence[str]) -> list[str]:
    """Return the files and folders of tests for some rooms."""
    tests = ["tests/estimators"] if any(room.startswith("estimators") for room in rooms) else []
    if not all(room.startswith("estimators") for room in rooms):
        tests += [f"tests/{name}" for name in NETWORKS.split()]
    return tests


def order(everything: list[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants in a random order in which one of so many is of a kernel."""
    random.Random(seed).shuffle(everything)
    rooms = defaultdict[bool, list[Mutant]](list)
    for mutant in everything:
        rooms[in_loops(mutant)].append(mutant)
    others, loops, mixed = rooms[False], rooms[True], list[Mutant]()
    while loops or others:
        mixed += others[: LOOPS_EVERY - 1] + loops[:1]
        others, loops = others[LOOPS_EVERY - 1 :], loops[1:]
    return mixed


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation tests of shards, algebra, loops and estimators.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--more", action="store_true", help="go on with the record; try the unexplained again, first")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="folders or files of the package")
    parser.add_argument("--only", default="", help="try the mutants whose place or change contains this")
    parser.add_argument("--output", type=Path, default=Path("results/reliability.json"))
    arguments = parser.parse_args()
    everything = order([mutant for path in files_of(arguments.rooms) for mutant in mutants(path)], arguments.seed)
    record = json.loads(arguments.output.read_text()) if arguments.more and arguments.output.is_file() else {}
    before = record.get("mutants", {"tried": [], "possible": {}})
    known = {(one["place"], one["what"]): one["noticed"] for one in before["tried"]}
    possible = dict(Counter(one.room for one in everything))
    elsewhere = [one for one in before["tried"] if room_of(one["place"]) not in possible]
    explained = {(one["place"], one["what"]) for one in json.loads(SURVIVORS.read_text())}
    waiting = [
        mutant
        for mutant in everything
        if arguments.only in f"{mutant.place} {mutant.what}"
        if not known.get(mutant.name) and not (mutant.name in known and mutant.name in explained)
    ]
    waiting.sort(key=lambda mutant: mutant.name not in known)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), tests_of(arguments.rooms))
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
            figures = {"possible": before["possible"] | possible, "tried": elsewhere + tried, "seed": arguments.seed}
            if status := apart(lambda figures=figures: keep(figures, arguments.output)):
                sys.exit(status)
            if minutes > arguments.minutes:
                break
    survivors = [mutant for mutant in everything if mutant.name in known and not known[mutant.name]]
    count = sum(mutant.name in known for mutant in everything)
    print(f"{count - len(survivors)} of {count} were noticed ({1 - len(survivors) / max(count, 1):.1%}). Not noticed:")
    for mutant in sorted(survivors, key=lambda mutant: (str(mutant.path), mutant.line)):
        print(f"  {mutant.path}:{mutant.line} {mutant.what}{' (explained)' * (mutant.name in explained)}")


def keep(figures: dict[str, Any], output: Path) -> int:
    """Write the figures into the record. This imports the package, so it is done apart."""
    from reliability import record

    record.keep("mutants", figures, output=output)
    return 0


if __name__ == "__main__":
    main()
