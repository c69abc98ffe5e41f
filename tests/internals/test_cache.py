"""Compiled code on disk: whatever other processes, versions and accidents do, it is that of this function and types."""

import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_name
from numba.core.codegen import JITCPUCodegen

import thresher
from thresher.loops import cache

PACKAGE = Path(thresher.__file__).parent

# Functions whose code for contiguous arrays is wrong for strided ones, and a helper in a file of its own.
HELPER = """
from numba import njit

@njit
def factor():
    return 1.0
"""
ONE = "\nresult = one()"
LOOPS = """
from pathlib import Path

import numba
from thresher.loops.cache import CodeFolder, keep_code

from toy.helper import factor

FOLDER = CodeFolder(Path(__file__).parent)

def second(a):
    return factor() * a[1]

def last(a):
    return factor() * a[-1]

def total(a):
    found = 0.0
    for k in range(len(a)):
        found += a[k]
    return factor() * found

FUNCTIONS = {f.__name__: keep_code(numba.njit(f), FOLDER) for f in (second, last, total)}
"""
DRIVER = """
import itertools
import numba, numpy as np
KEPT = numba.config.CACHE_DIR
from toy.loops import FOLDER, FUNCTIONS

def call(name, dtype, step):
    return float(FUNCTIONS[name](np.arange(1, 9, dtype=dtype)[::step]))

def hits():
    return sum(sum(f.stats.cache_hits.values()) for f in FUNCTIONS.values())

CASES = list(itertools.product(FUNCTIONS, ("f4", "f8"), (1, 2)))
WHAT = {"second": lambda a: a[1], "last": lambda a: a[-1], "total": np.sum}
RIGHT = {case: WHAT[case[0]](np.arange(1, 9, dtype=float)[::case[2]]) for case in CASES}

def one(step=1):
    return [call("second", "f8", step), hits()]

def check(cases):
    return [bool(call(*case) == RIGHT[case]) for case in cases], hits()
"""


def make_toy(folder, factor="1.0"):
    toy = folder / "toy"
    toy.mkdir(parents=True, exist_ok=True)
    (toy / "__init__.py").touch()
    (toy / "helper.py").write_text(HELPER.replace("1.0", factor))
    (toy / "loops.py").write_text(LOOPS)
    for path in toy.iterdir():
        os.utime(path, (1e9, 1e9))
    return folder


class Forks:
    """Runs code in forks of a process that has imported Numba: to import it anew would take most of the time."""

    def __init__(self):
        code = "import numba, forking, thresher.loops.cache; forking.serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], env=surroundings(Path(__file__).parent), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, code, *, place, kept):
        """Return what code leaves as ``result``, where the toy package is found in ``place``; it must say nothing."""
        print(json.dumps({"code": code, "place": str(place), "kept": str(kept)}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, dict), answer
        assert answer["said"] == ""
        return answer["result"]


@pytest.fixture(scope="module")
def run():
    forks = Forks()
    yield forks
    forks.process.stdin.close()
    assert forks.process.wait(60) == 0
    forks.process.stdout.close()


def surroundings(place, **more):
    paths = os.pathsep.join([str(place), str(PACKAGE.parent)])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1", **more}


def run_alone(code, *, place, **more):
    """Do the same in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json; print(json.dumps(result))"], env=surroundings(place, **more),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture
def toy(tmp_path):
    return make_toy(tmp_path / "one")


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "kept"


def entries(kept):
    return set(kept.glob("thresher-*/*"))


# Processes that meet


ANY_ORDER = """
import itertools
from forking import run_in_turns, start, wait_for
from thresher.loops import cache

result = []
for one, other in [(("second", "f8", 1), ("second", "f8", 2)), (("last", "f8", 2), ("last", "f8", 2))]:
    for number, order in enumerate(sorted(set(itertools.permutations([0, 0, 1, 1])))):
        numba.config.CACHE_DIR = f"{KEPT}/{one[0]}{number}"
        found = run_in_turns(cache, [lambda: check([one]), lambda: check([other])], order)
        result.append((found, wait_for(start(lambda: check([one, other])))))
"""


def test_writes_in_any_order(run, toy, kept):
    """Two processes compile one function for other types, or for the same; their four writes come in every order."""
    results = run(DRIVER + ANY_ORDER, place=toy, kept=kept)
    assert [found for found, _ in results] == [[[[True], 0], [[True], 0]]] * 12  # right, and compiled by each
    assert [later for _, later in results] == [[[True, True], 2]] * 6 + [[[True, True], 1]] * 6  # right, and loaded


MANY = """
from forking import start, wait_for

result = []
for number in range(20):
    numba.config.CACHE_DIR = f"{KEPT}/{number}"
    mine = [[CASES[(k + j + number) % len(CASES)] for j in (0, 3)] for k in range(8)]
    found = [wait_for(one)[0] for one in [start(lambda cases=cases: check(cases)) for cases in mine]]
    used = sorted({case for cases in mine for case in cases})
    result.append((found, wait_for(start(lambda: check(used))), len(used)))
"""


@pytest.mark.thorough
def test_many_processes_from_an_empty_cache(run, toy, kept):
    for found, (right, loaded), number in run(DRIVER + MANY, place=toy, kept=kept):
        assert found == [[True, True]] * 8
        assert right == [True] * number
        assert loaded == number


KILLED = """
import os, signal
from forking import start, wait_for
from thresher.loops import cache

def stop(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

class Half:
    def __init__(self, path, mode):
        self.file = open(path, mode, buffering=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        self.file.write(content[:100])
        stop()

def killed(moment):
    if moment == "before the file":
        cache.open = stop
    elif moment == "with half a file":
        cache.open = Half
    else:
        cache.os.replace = stop
    return one()

result = []
for moment in ("before the file", "with half a file", "before its name"):
    numba.config.CACHE_DIR = f"{KEPT}/{moment}"
    result.append([wait_for(start(task)) for task in (lambda: killed(moment), one, one)])
"""


def test_a_process_killed_while_it_writes_harms_nobody(run, toy, kept):
    assert run(DRIVER + KILLED, place=toy, kept=kept) == [[None, [2.0, 0], [2.0, 1]]] * 3


TRAININGS = """
import hashlib
import numpy as np
from thresher import train
from thresher.datasets import random_problem

problem = random_problem(inputs=100, dimension=20)
WAYS = [
    {"start": "random"}, {"index": "dense"}, {"index": "tournament"}, {"start": "hadamard", "twins": True},
    {"dtype": "float64"}, {"method": "paper"}, {"start": "poisson", "twins": True, "shift": 2.5}, {"solver": "pivots"},
]
def train_by(way):
    predicted = train(problem, width=2000, max_iterations=3, threads=1, **WAYS[way]).network.predict(problem.inputs)
    return hashlib.sha256(np.asarray(predicted).tobytes()).hexdigest()
"""


@pytest.mark.slow
def test_eight_trainings_from_an_empty_cache(tmp_path):
    """Started together, each in another way, they give what one process gives, and so does whoever comes later."""

    def together(kept):
        environment = surroundings(PACKAGE.parent, NUMBA_CACHE_DIR=str(kept))
        commands = [[sys.executable, "-c", f"{TRAININGS}\nprint(train_by({way}))"] for way in range(8)]
        running = [subprocess.Popen(c, env=environment, stdout=subprocess.PIPE, text=True) for c in commands]
        return [one.communicate()[0].strip() for one in running]

    alone = run_alone(
        TRAININGS + "result = [train_by(way) for way in range(8)]",
        place=PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "alone"),
    )  # fmt: skip
    assert together(tmp_path / "many") == alone
    assert together(tmp_path / "many") == alone


MADE = """
from pathlib import Path

import numba
from thresher.loops.cache import CodeFolder, keep_code

def make(factor):
    @numba.njit
    def made(n):
        return 1.0 if n < 2 else made(n - 1) * factor + made(n - 2)

    return made

twice, thrice = make(2.0), make(3.0)
FOLDER = CodeFolder(Path(__file__).parent)
FUNCTIONS = [
    keep_code(numba.njit(lambda n: twice(n)), FOLDER),
    keep_code(numba.njit(lambda n: thrice(n)), FOLDER),
]
"""
BOTH = """
from toy.made import FUNCTIONS
result = [FUNCTIONS[k](3) for k in ORDER]
"""


def test_functions_that_functions_make_are_told_apart(run, toy, kept):
    """Each was compiled by another process, as the first that it made; then one process loads both."""
    (toy / "toy" / "made.py").write_text(MADE)
    for order, expected in (([0], [7.0]), ([1], [13.0]), ([0, 1], [7.0, 13.0]), ([1, 0], [13.0, 7.0])):
        assert run(f"ORDER = {order}\n{BOTH}", place=toy, kept=kept) == expected
    assert len(entries(kept)) == 2


# Versions


def test_a_changed_helper_is_noticed_and_versions_live_side_by_side(run, toy, tmp_path, kept):
    """Sizes and time stamps of all files are the same."""
    other = make_toy(tmp_path / "two", factor="3.0")
    found = [run(DRIVER + ONE, place=place, kept=kept) for place in (toy, other, toy, other)]
    assert found == [[2.0, 0], [6.0, 0], [2.0, 1], [6.0, 1]]
    assert len(list(kept.iterdir())) == len(entries(kept)) == 2


ROWS = """
import numpy as np, thresher
from thresher.model.start import random_normals
result = [thresher.__file__, random_normals(0, 0, np.arange(2), 3).tolist()]
"""


@pytest.mark.thorough
def test_an_upgrade_that_changes_one_helper_changes_what_calls_it(tmp_path, kept):
    """As pip may leave it: all files with the sizes and time stamps that they had."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "thresher", ignore=shutil.ignore_patterns("__pycache__"))
    file, before = run_alone(ROWS, place=site, NUMBA_CACHE_DIR=str(kept))
    assert Path(file).parent == site / "thresher"
    changed = site / "thresher" / "loops" / "numbers" / "__init__.py"
    stamp, text = changed.stat(), changed.read_text()
    assert text.count("value = value * x") == 1
    changed.write_text(text.replace("value = value * x", "value = value * 2"))
    os.utime(changed, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert changed.stat().st_size == stamp.st_size
    _, after = run_alone(ROWS, place=site, NUMBA_CACHE_DIR=str(kept))
    assert np.abs(np.array(after) - before).max() > 0.1


CHANGES = """
from pathlib import Path
import toy.helper

path = Path(toy.helper.__file__)
path.write_text(path.read_text().replace("1.0", "3.0"))
"""


def test_sources_that_change_while_a_process_runs_are_not_taken_for_its_own(run, toy, kept):
    assert run(DRIVER + CHANGES + ONE, place=toy, kept=kept) == [2.0, 0]
    assert entries(kept) == set()  # code of the old sources has no place among that of the new
    assert run(DRIVER + ONE, place=toy, kept=kept) == [6.0, 0]


@pytest.mark.thorough
def test_settings_of_numba_that_change_code_have_folders_of_their_own(toy, kept):
    names = ("generic", get_host_cpu_name())  # its own too: loops are of other instructions if it is named
    others = ({}, {"NUMBA_OPT": "1"}, {"NUMBA_CPU_FEATURES": "+sse2"}, *({"NUMBA_CPU_NAME": name} for name in names))
    for more in others:
        assert run_alone(DRIVER + ONE, place=toy, NUMBA_CACHE_DIR=str(kept), **more) == [2.0, 0]
    assert len(list(kept.iterdir())) == len(others)


@pytest.mark.parametrize(
    ("whose", "what"),
    [(numba, "__version__"), (llvmlite, "__version__"), (np, "__version__"), (sys, "version"),
     (platform, "machine"), (JITCPUCodegen, "magic_tuple")],
)  # fmt: skip
def test_other_versions_and_processors_have_folders_of_their_own(folder, tmp_path, monkeypatch, whose, what):
    before = folder.path
    monkeypatch.setattr(whose, what, (lambda *_: "other") if callable(getattr(whose, what)) else "other")
    assert cache.CodeFolder(tmp_path).path.parent == before.parent
    assert cache.CodeFolder(tmp_path).path != before


LATER = """
first = call("second", "f8", 1)
numba.config.BOUNDSCHECK = 1
result = [first, call("last", "f8", 1)]
"""


def test_settings_that_change_while_a_process_runs_are_heeded(run, toy, kept):
    assert run(DRIVER + LATER, place=toy, kept=kept) == [2.0, 8.0]
    assert len(list(kept.iterdir())) == 2


def test_code_whose_sources_are_not_known_is_not_kept(run, toy, kept, tmp_path):
    """An archive has no files to read, and a function of somebody else's is not in those that are."""
    archive = shutil.make_archive(tmp_path / "one", "zip", toy)
    assert run(DRIVER + ONE, place=archive, kept=kept) == [2.0, 0]
    others = "FUNCTIONS['second'] = keep_code(numba.njit(lambda a: 5.0), FOLDER)"
    assert run(f"{DRIVER}from toy.loops import keep_code\n{others}{ONE}", place=toy, kept=kept) == [5.0, 0]
    assert entries(kept) == set()


# Files


@pytest.fixture
def entry(run, toy, kept):
    assert run(DRIVER + ONE, place=toy, kept=kept) == [2.0, 0]
    (path,) = entries(kept)
    return path


def whole(content):
    return cache.hashlib.sha256(content).digest() + content


DAMAGES = {
    "empty": lambda content: b"", "truncated": lambda content: content[: len(content) // 2],
    "no pickle": lambda content: whole(b"?"),
    "other pickle": lambda content: whole(cache.pickle.dumps(("types", b"code"))),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entries_are_made_again(run, toy, kept, entry, damage):
    entry.write_bytes(DAMAGES[damage](entry.read_bytes()))
    assert run(DRIVER + ONE, place=toy, kept=kept) == [2.0, 0]
    assert run(DRIVER + ONE, place=toy, kept=kept) == [2.0, 1]


def test_code_for_other_types_under_this_name_is_not_taken(run, toy, kept, entry):
    strided = DRIVER + "\nresult = one(step=2)"
    assert run(strided, place=toy, kept=kept) == [3.0, 0]
    (other,) = entries(kept) - {entry}
    other.write_bytes(entry.read_bytes())
    assert run(strided, place=toy, kept=kept) == [3.0, 0]
    assert run(strided, place=toy, kept=kept) == [3.0, 1]


def test_folders_that_nobody_used_for_thirty_days_go_and_no_others(run, toy, kept):
    kept.mkdir()
    old, used, file = (f"thresher-{letter * 32}" for letter in "abc")
    days = {old: 31, used: 29, file: 31, "others": 31, "thresher-of-somebody": 31}
    for name, age in days.items():
        make = Path.touch if name == file else Path.mkdir
        make(kept / name)
        os.utime(kept / name, (time.time() - age * 86400,) * 2)
    link = f"thresher-{'d' * 32}"
    (kept / link).symlink_to(kept / "others")
    (kept / "others" / "code").touch()
    os.utime(kept / "others", (0, 0))
    assert run(DRIVER + ONE, place=toy, kept=kept) == [2.0, 0]
    (made,) = {path.parent for path in entries(kept)} - {kept / link}
    assert {path.name for path in kept.iterdir()} == {made.name, link, *days} - {old}
    os.utime(made, (0, 0))
    assert run(DRIVER + ONE, place=toy, kept=kept) == [2.0, 1]
    assert time.time() - made.stat().st_mtime < 60  # it was used


def test_others_may_read_what_the_users_mask_lets_them(run, toy, kept):
    for mask in (0o022, 0o027):
        assert run(f"import os; os.umask({mask})\n{DRIVER}{ONE}", place=toy, kept=kept / str(mask)) == [2.0, 0]
        (path,) = entries(kept / str(mask))
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask


# Where nothing can be kept


REASONS = {
    "Read-only file system": OSError(errno.EROFS, "Read-only file system"), "disk is full": OSError("disk is full"),
    "no folder is known for it, or no sources": None,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "loops.py").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("THRESHER_QUIET", raising=False)
    return cache.CodeFolder(tmp_path)


@pytest.mark.parametrize("reason", REASONS)
def test_where_nothing_can_be_kept_that_is_said_once(folder, tmp_path, monkeypatch, capsys, reason):
    def fail(*_):
        raise REASONS[reason]

    monkeypatch.setattr(cache, "open", fail, raising=False)
    folder = folder if REASONS[reason] else cache.CodeFolder(tmp_path / "nothing")
    folder.write("a", b"1")
    folder.write("b", b"2")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert reason in said
    assert "Set NUMBA_CACHE_DIR to a folder that can be written." in said
    assert folder.read("a") is None


def test_what_is_not_as_it_was_written_is_not_read(folder):
    folder.write("a", b"12")
    written = (folder.path / "a").read_bytes()
    assert folder.read("a") == b"12"
    for damaged in (b"", written[:-1], written[:-1] + b"3", b"?" + written[1:]):
        (folder.path / "a").write_bytes(damaged)
        assert folder.read("a") is None


def test_windows_renames_nothing_to_a_file_that_is_read(folder, monkeypatch, capsys):
    """Then it is there, and stays; a folder that cannot be written is another matter."""
    rename = os.replace

    def refuse(temporary, path):
        if path.exists() or path.name == "b":
            raise PermissionError("Access is denied")
        rename(temporary, path)

    monkeypatch.setattr(cache.os, "replace", refuse)
    folder.write("a", b"1")
    folder.write("a", b"2")
    assert capsys.readouterr().err == ""
    folder.write("b", b"1")
    assert "Access is denied" in capsys.readouterr().err
    assert (folder.read("a"), [path.name for path in folder.path.iterdir()]) == (b"1", ["a"])


FULL = """
import os, resource
os.environ["THRESHER_QUIET"] = "1"
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""


@pytest.mark.parametrize("disk", ["read only", "full"])
def test_a_disk_that_takes_nothing(run, toy, kept, disk):
    """Whoever is root may write to what is read-only: a file stands where a folder should be."""
    if disk == "read only":
        kept.write_text("")
    for _ in range(2):
        assert run(FULL + DRIVER + ONE, place=toy, kept=kept) == [2.0, 0]
    assert disk == "read only" or entries(kept) == set()  # nothing half-written stays


HOME = """
import os
from numba.misc import appdirs
os.environ["XDG_CACHE_HOME"] = numba.config.CACHE_DIR
os.environ["THRESHER_QUIET"] = "1"
numba.config.CACHE_DIR = ""
result = [str(FOLDER.path), *one()]
"""


def test_without_a_setting_the_folder_is_the_users(run, toy, kept):
    path, *found = run(DRIVER + HOME, place=toy, kept=kept)
    assert Path(path).parent == kept / "thresher"
    assert found == [2.0, 0]
    path, *found = run(DRIVER + HOME, place=toy, kept="not/absolute")
    assert (path, found) == ("None", [2.0, 0])


def test_functions_of_a_function_are_refused():
    number = 2

    def inner():
        return number

    with pytest.raises(TypeError, match="inner takes values from a function around it"):
        cache.keep_code(numba.njit(inner), cache.CodeFolder(Path(__file__).parent))


# Versions of a function


EVERYTHING = """
import warnings
import numpy as np
from thresher import ThresherClassifier, ThresherRegressor, train
from thresher.algebra import SKETCHES, Sketched, SketchQR
from thresher.datasets import random_problem

warnings.simplefilter("ignore")
problem, wide = random_problem(inputs=20, dimension=10), random_problem(inputs=256, dimension=32)
ways = [
    {"index": "scan"}, {"index": "tournament"}, {"index": "dense"}, {"method": "paper"}, {"solver": "pivots"},
    {"index": "dense", "shift": 2.0, "solver": "pivots"}, {"start": "hadamard"}, {"activation": "hat"}, {"audit": True},
    {"start": "poisson", "shift": 0.8, "width": 2000}, {"start": "hadamard", "shift": 2.0, "width": 2000},
    *({"solver": Sketched(preconditioner=SketchQR(sketch=one))} for one in SKETCHES),
]
for way in ways:
    for dtype in ("float32", "float64"):
        for twins in {way.get("start") == "poisson", True}:
            options = {"width": 200, "max_iterations": 2, "dtype": dtype, "twins": twins, **way}
            network = train(problem, **options).network
            network.predict(problem.inputs), network.predict(problem.inputs[:1])
            if not {"start", "activation"} & set(way):
                network.compact().predict(problem.inputs)
for dtype in ("float32", "float64"):
    for start in ("random", "hadamard"):
        train(wide, width=2**14, dtype=dtype, start=start, twins=False).network.predict(wide.inputs)
X = np.random.default_rng(0).normal(size=(200, 5))
for parts in ("all", "pairs"):
    ThresherClassifier(random_state=0, parts=parts).fit(X, X[:, 0] > 0).predict_proba(X[:5])
    model = ThresherRegressor(random_state=0, parts=parts).fit(X, X[:, 0] + np.sin(X[:, 1]))
    model.predict(X[:5])
model.effects(X[:5])
result = None
"""

PRECISION = "numbers of float32 and of float64"
LEFT_OUT = "precision; thresholds of each input and Hadamard rows are left out where there are none"
MORE_THAN_ONE = {
    **dict.fromkeys((
        "certified.watchlists._extract_rows", "certified.watchlists.commit", "certified.watchlists.write_wake_ups",
        "numbers.hadamard.fill_hadamard_row", "outputs._add_rows", "outputs.measure_rows", "outputs.move_rows",
        "pairs.bits.add_outputs", "pairs.bits.add_pushes", "pairs.by_neuron.collect_above",
        "pairs.by_neuron.collect_within", "pairs.counting.cheaper_by_bits", "trees.build", "trees.climb", "trees.query",
    ), PRECISION),
    **dict.fromkeys((
        "certified.start_scan._scan_rows", "certified.visits._visit_due", "certified.watchlists._rebuild_rows",
    ), LEFT_OUT),
}  # fmt: skip


@pytest.mark.thorough
def test_functions_are_compiled_once_but_for_a_reason(tmp_path):
    """Arrays are contiguous, and of one type where their precision is not the user's to choose."""
    run_alone(EVERYTHING, place=PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path))
    versions = {}
    for path in entries(tmp_path):
        types, _ = cache.pickle.loads(path.read_bytes()[32:])
        versions.setdefault(path.name.rpartition("-")[0].removeprefix("thresher.loops."), []).append(
            " ".join(map(str, types))
        )
    assert len(versions) > 55
    strided = {name for name, types in versions.items() if any(re.search(r"\dd, [AF]\b", one) for one in types)}
    assert strided == set()
    assert {name for name, types in versions.items() if len(types) > 1} == set(MORE_THAN_ONE)
    for name, reason in MORE_THAN_ONE.items():
        same = {re.sub("float(32|64)", "float", one) for one in versions[name]}
        assert (len(same) == 1) == (reason == PRECISION), name
