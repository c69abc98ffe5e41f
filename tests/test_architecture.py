"""The house: imports point one way, optional packages stay outside, modules say what is public."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import thresher

ROOT = Path(thresher.__file__).parent
# Each room may import from the rows above its own; rooms of one row do not know each other. Every room has a row.
ROWS = [
    {"control_groups", "errors"},
    {"checks", "figures", "loops", "memory", "notebook", "output", "parallel"},
    {"devices", "export", "losses"},
    {"model", "files"},
    {"interfaces"},
    {"algebra", "theory", "datasets"},
    {"shards", "tables"},
    {"gpu"},
    {"engines"},
    {"training"},
    {"estimators"},
    {"report"},
    {"thresher"},
    {"cli"},
]
OUTSIDE = [
    "sklearn",
    "torch",
    "triton",
    "ray",
    "matplotlib",
    "click",
    "rich",
    "jinja2",
    "pandas",
    "pyarrow",
    "narwhals",
]
ONE_FILE = {"matplotlib": "figures", "jinja2": "report.page", "pandas": "training.history",
            "pyarrow": "tables.parquet", "narwhals": "tables.frame", "ray": "engines.ray_cluster"}  # fmt: skip
NO_ROOMS = {"utils", "util", "helpers", "helper", "misc", "core", "common"}


def module_name(path):
    parts = ("thresher", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}


def every_module(check):
    """Make one test of a check of one module: it names all modules that fail."""

    @functools.wraps(check)
    def test():
        faults = []
        for name in FILES:
            try:
                check(name)
            except AssertionError as error:
                faults.append(f"{name}: {error}")
        assert not faults, "\n".join(faults)

    del test.__wrapped__  # pytest would take the name of the module for a fixture
    return test


def for_types_only(tree):
    """The imports below ``if TYPE_CHECKING``."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {node for block in blocks for node in ast.walk(block)}


def imported_modules(name, *, typing=True):
    """All modules that a module imports, those inside functions included; those for types alone if asked."""
    package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
    left_out = set() if typing else for_types_only(TREES[name])
    for node in ast.walk(TREES[name]):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            yield from (name if name in FILES else base for name in names)


def room(name):
    """The part of the house a module stands in; the package itself is one of its own."""
    return name.split(".")[1] if "." in name else "thresher"


def row(name):
    return next(place for place, rooms in enumerate(ROWS) if room(name) in rooms)


@every_module
def test_imports_point_one_way(name):
    inside = [other for other in imported_modules(name) if other.split(".")[0] == "thresher"]
    for other in inside:
        assert row(other) < row(name) or room(other) == room(name), f"{name} imports {other}"


@every_module
def test_the_command_and_reports_know_estimators_by_their_package(name):
    """What they need has a public name there, so that files of estimators can move without them."""
    inside = [one for one in imported_modules(name) if one.startswith("thresher.estimators.")]
    assert room(name) in ("estimators", "thresher") or not inside, f"{name} imports {inside}"


def test_every_room_has_one_row():
    assert sorted(one for rooms in ROWS for one in rooms) == sorted({room(name) for name in FILES})


def test_no_module_imports_itself_by_a_detour():
    graph = {name: {other for other in imported_modules(name) if other in FILES} for name in FILES}
    TopologicalSorter(graph).prepare()  # raises on a cycle


@every_module
def test_compiled_code_stays_in_its_room(name):
    uses = {other.split(".")[0] for other in imported_modules(name)}
    assert "numba" not in uses or room(name) == "loops"
    if room(name) == "loops":
        known = {"thresher", "numba", "llvmlite", "numpy", "math", "collections", "typing", "__future__"}
        if name == "thresher.loops.compiling":  # says what it does
            known |= {"gc", "signal", "sys", "threading", "time"}
        if name == "thresher.loops.cache":  # keeps what was compiled
            known |= {
                "contextlib",
                "functools",
                "hashlib",
                "os",
                "pathlib",
                "pickle",
                "platform",
                "shutil",
                "sys",
                "tempfile",
                "time",
            }
        known |= {"pathlib"} if name == "thresher.loops" else set()
        assert uses <= known


@every_module
def test_loops_import_nothing_of_the_package_but_each_other(name):
    """Their sources are what compiled code on disk is known by: a change of any other file must not change it."""
    other = {one for one in imported_modules(name) if one.startswith("thresher")}
    assert room(name) != "loops" or all(one == "thresher.loops" or one.startswith("thresher.loops.") for one in other)


@every_module
def test_optional_packages_are_imported_by_one_file_each(name):
    for other in {other.split(".")[0] for other in imported_modules(name, typing=False)} & set(ONE_FILE):
        assert name == f"thresher.{ONE_FILE[other]}", f"{name} imports {other}"


@every_module
def test_torch_is_imported_where_a_gpu_or_an_export_was_asked_for(name):
    of_a_gpu = name.startswith("thresher.gpu") or name == "thresher.export.torch_module"
    modules = set(imported_modules(name, typing=False))
    assert of_a_gpu or not {other.split(".")[0] for other in modules} & {"torch", "triton"}
    at_the_top = {node.module for node in TREES[name].body if isinstance(node, ast.ImportFrom)}
    assert of_a_gpu or not any((one or "").startswith("thresher.gpu") for one in at_the_top), f"{name} needs torch"


def test_what_is_imported_is_installed_with_the_package_or_with_an_extra():
    known = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    lists = [known["dependencies"], *known["optional-dependencies"].values()]
    declared = {re.match(r"[\w-]+", one)[0].lower() for wanted in lists for one in wanted}
    declared |= {"sklearn", "llvmlite", "markupsafe"}  # their names in code; parts of Numba and Jinja2
    used = {other.split(".")[0].lower() for name in FILES for other in imported_modules(name)}
    assert used - set(sys.stdlib_module_names) - {"thresher"} <= declared
    assert "rich" not in used  # four packages, for bars and tables


def test_ray_is_imported_once_a_cluster_was_asked_for():
    at_the_top = {name: {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
                  for name, tree in TREES.items()}  # fmt: skip
    assert not [name for name, modules in at_the_top.items() if "thresher.engines.ray_cluster" in modules]


def brought_by(statement, names):
    """Those of the packages that a fresh interpreter has imported after a statement."""
    code = f"import sys; {statement}; print(*[name for name in {names} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_import_brings_no_optional_package():
    rarely = ["scipy.fft", "scipy.sparse.linalg", "scipy.stats", "scipy.optimize"]  # by a training
    assert brought_by("from thresher import train, Problem", [*OUTSIDE, *rarely]) == []


def test_import_alone_brings_nothing_heavy():
    assert brought_by("import thresher; dir(thresher)", [*OUTSIDE, "numpy", "scipy", "numba"]) == []


def test_help_brings_what_parses_commands_alone():
    names = [name for name in (*OUTSIDE, "numpy", "scipy", "numba") if name != "click"]
    asked = "from click.testing import CliRunner; from thresher.cli import commands; "
    asked += "told = CliRunner().invoke(commands, ['--help']); assert 'Train a network on a table.' in told.output"
    assert brought_by(asked, names) == []


def test_public_names_are_found_once_asked_for():
    public = [*thresher.__all__, "export", "losses", "report", "tables"]
    assert dir(thresher) == sorted(public)  # and nothing that the module imports for itself
    code = f"import thresher; {'; '.join(f'thresher.{name}' for name in public)}; from thresher import *"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        thresher.nothing  # noqa: B018


@every_module
def test_public_modules_say_what_is_public(name):
    if any(part.startswith("_") for part in name.split(".")):
        return
    tree = TREES[name]
    assert ast.get_docstring(tree), "a module begins with a sentence"
    if len(tree.body) == 1:
        return  # nothing but the sentence
    listed = [node.value for node in tree.body if isinstance(node, ast.Assign) and assigned(node) == {"__all__"}]
    assert len(listed) == 1
    public = ast.literal_eval(listed[0])
    assert len(set(public)) == len(public)
    assert set(public) <= set().union(*map(assigned, tree.body))


def assigned(node):
    """The names that a statement at the top of a module makes."""
    if isinstance(node, ast.If):
        return set().union(*map(assigned, node.body))
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.If):  # imports for types, of names that are made when asked for
        return set().union(*map(assigned, node.body))
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def test_no_rooms_for_odds_and_ends():
    assert not [name for name in FILES if NO_ROOMS & set(name.split("."))]


def test_files_of_tests_have_names_of_their_own():
    """Pytest refuses two of the same name in different folders, but not until both are run at once."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
