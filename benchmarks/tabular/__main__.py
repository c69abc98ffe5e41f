"""The command line: ``python -m benchmarks.tabular --data-dir DIR``, or ``--suite tables`` without a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.tabular.accuracy import FAILED, Effort, run_suite
from benchmarks.tabular.cases import CASES, case_set
from benchmarks.tabular.models import TIMED, Model
from benchmarks.tabular.protocol import PUBLISHED, SUITES
from benchmarks.tabular.sets import CLASSIFICATION, load_set, set_names
from benchmarks.tabular.store import SCORE, Store
from benchmarks.tabular.tables import CAVEATS, tables
from benchmarks.tabular.times import run_times
from thresher import InvalidInput, NotAvailable
from thresher.parallel import core_count

ABOUT = "Thresher's estimators and their rivals on tabular data; what is finished is not computed again."
OUTPUT = Path("results/tabular.json")
_PLAIN_WIDTH = 180  # of tables that go to a file or a pipe


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular", description=ABOUT)
    parser.add_argument(
        "--data-dir", type=Path, help="folder that holds uci-classification/ and so on; tables are made and need none"
    )
    parser.add_argument(
        "--suite",
        choices=[*SUITES, "times"],
        nargs="+",
        default=PUBLISHED,
        help=f"default: {' and '.join(PUBLISHED)}; times wants a machine on which nothing else runs",
    )
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME", help="default: all that are installed")
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="default: all in the folder, all cases")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"default: {OUTPUT}")
    parser.add_argument("--threads", type=int, default=core_count(), help="for every model; default: all cores")
    parser.add_argument("--again", action="store_true", help="compute rows that are there already as well")
    parser.add_argument("--retry", action="store_true", help="compute rows that failed as well")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and print all tables; 0, 1 if a row asked for failed, 2 for bad use, 130 if interrupted."""
    asked = parse(arguments)
    console = Console()
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    try:
        return run(asked, console)
    except (InvalidInput, NotAvailable) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"Interrupted; what was finished is in {asked.output}. The same command goes on from there.")
        return 130


def run(asked: argparse.Namespace, console: Console) -> int:
    if asked.threads < 1:
        raise InvalidInput(f"--threads must be at least 1; got {asked.threads}.")
    todo = plan(asked, console)
    failed = 0
    with Store(asked.output, threads=asked.threads) as store, threadpool_limits(asked.threads):
        for name, models, sets in todo:
            folder = folder_of(name, asked.data_dir)
            data = [load_set(folder, one) if folder else case_set(one) for one in sets]
            if name == "times":
                run_times(models, data, store=store, threads=asked.threads, again=asked.again, console=console)
                continue
            effort = Effort(asked.threads, again=asked.again, retry=asked.retry)
            rows = run_suite(SUITES[name], models, data, store=store, effort=effort, console=console)
            failed += sum(row["kind"] == SCORE and row["status"] == FAILED for row in rows)
    for name in asked.suite:
        for sheet in tables(name, store.rows()):
            console.print(sheet.rich())
        for caveat in CAVEATS[name]:
            console.print(f"- {caveat}", highlight=False, markup=False)
    console.print(f"{len(store)} new rows, {failed} failed. Written to {asked.output}.", highlight=False)
    return 1 if failed else 0


def plan(asked: argparse.Namespace, console: Console) -> list[tuple[str, list[Model], list[str]]]:
    """Return (suite, models, sets) for each suite asked for; a name must be known to one of them at least."""
    models = {name: TIMED if name == "times" else SUITES[name].models for name in asked.suite}
    folders = {name: folder_of(name, asked.data_dir) for name in asked.suite}
    sets = {name: set_names(folder) if folder else list(CASES) for name, folder in folders.items()}
    _check("model", asked.models, {model.name for known in models.values() for model in known})
    _check("set", asked.sets, {one for known in sets.values() for one in known})
    found = []
    for name in asked.suite:
        chosen = [model for model in models[name] if model.name in asked.models or not asked.models]
        here = [model for model in chosen if _available(model, named=bool(asked.models), console=console)]
        found.append((name, here, [one for one in sets[name] if one in asked.sets or not asked.sets]))
    return found


def folder_of(suite: str, data_dir: Path | None) -> Path | None:
    """Return where the sets of a suite are; None if they are made."""
    folder = CLASSIFICATION if suite == "times" else SUITES[suite].folder
    if folder is None:
        return None
    if data_dir is None:
        raise InvalidInput(
            f"suite {suite} reads published sets; give the folder that holds {folder}/ by --data-dir, or run --suite "
            "tables, which needs none."
        )
    return data_dir / folder


def _check(what: str, names: list[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidInput(f"{what} must be one of {', '.join(sorted(known))}; got {name!r}.")


def _available(model: Model, *, named: bool, console: Console) -> bool:
    """A model that was named must be there; one that was not is left out with a line that says so."""
    try:
        model.load()
    except NotAvailable as error:
        if named:
            raise
        console.print(f"Left out: {error}", highlight=False, markup=False)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
