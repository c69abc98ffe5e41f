"""The command line: ``python -m benchmarks.many_rows --data-dir DIR``."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console

from benchmarks import many_rows, results
from benchmarks.bench import in_child
from benchmarks.many_rows.cases import CASES
from benchmarks.many_rows.page import PAGE, sheets, write_page
from benchmarks.tabular.store import Row, Store
from benchmarks.tabular.times import timed_together
from thresher import InvalidInput, NotAvailable
from thresher.parallel import core_count

OUT = Path("results/many_rows.json")
_PLAIN_WIDTH = 180  # of tables that go to a file or a pipe


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_rows", description=many_rows.__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder that holds uci-regression/, mnist/ and fashion-mnist/")
    parser.add_argument(
        "--case", nargs="*", choices=list(CASES), default=list(CASES), help="default: all; none after it: the page only"
    )
    parser.add_argument("--splits", type=int, help="of kin8nm and protein; default: 1 and 5")
    parser.add_argument("--threads", type=int, default=core_count(), help="for every model; default: all cores")
    parser.add_argument("--at-once", type=int, default=1, help="fits at a time, each on cores of its own; default: 1")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one process; default: 3600")
    parser.add_argument("--again", action="store_true", help="run cases that are stored as well")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; writes no page")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default: {PAGE}")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and write the page; 0, 1 if a fit failed, 2 for bad use, 130 if interrupted."""
    asked = parse(arguments)
    try:
        return run(asked, Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH))
    except (InvalidInput, NotAvailable) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"Interrupted; what was finished is in {asked.out}. The same command goes on from there.")
        return 130


def run(asked: argparse.Namespace, console: Console) -> int:
    for name in ("threads", "limit", "splits", "at_once"):
        if getattr(asked, name) is not None and getattr(asked, name) <= 0:
            raise InvalidInput(f"--{name.replace('_', '-')} must be above 0; got {getattr(asked, name)}.")
    folders = {name: _folder(name, asked.data_dir) for name in asked.case}
    suite, todo = "quick" if asked.quick else "many rows", list[tuple[Row, Path]]()
    cores = _cores(asked)
    with Store(asked.out, threads=asked.threads) as store, ThreadPoolExecutor(asked.at_once) as pool:
        for name, folder in folders.items():
            for part in reversed(_parts(name, asked)):  # the longest first
                about = [
                    {"kind": "fit", "suite": suite, "model": model.name, "set": name, "split": part}
                    | {"recipe": model.recipe, "threads": asked.threads}
                    for model in CASES[name].models
                ]
                if asked.again or not timed_together(about, store):
                    todo += [(row, folder) for row in about]
        ended = [pool.submit(_fit, row, folder, cores, asked, store, console) for row, folder in todo]
        failed = sum(one.result() == "failed" for one in ended)
        rows = [row for row in store.rows() if row["suite"] == suite]
    for sheet in sheets(rows)[asked.quick :]:  # few rows say nothing about the goals, which come first
        console.print(sheet.rich())
    if not asked.quick:
        write_page(asked.page, results.read(asked.out) if rows else {"runs": {}, "rows": []})
    console.print(f"{len(store)} new rows, {failed} failed. Written to {asked.out}.", highlight=False)
    return 1 if failed else 0


def _cores(asked: argparse.Namespace) -> SimpleQueue[list[int]]:
    """Return the cores of each fit that runs at a time; all of them if there is one."""
    have = sorted(os.sched_getaffinity(0))
    if asked.at_once > 1 and asked.at_once * asked.threads > len(have):
        raise InvalidInput(
            f"--at-once {asked.at_once} fits of {asked.threads} threads need more than {len(have)} cores."
        )
    found = SimpleQueue[list[int]]()
    for first in range(asked.at_once):
        found.put(have if asked.at_once == 1 else have[first * asked.threads : (first + 1) * asked.threads])
    return found


def _fit(
    row: Row, folder: Path, cores: SimpleQueue[list[int]], asked: argparse.Namespace, store: Store, console: Console
) -> str:
    """Measure one fit in a process of its own, keep its row, and return how it ended."""
    mine = cores.get()
    os.sched_setaffinity(0, mine)  # of this thread, and of the process that it starts
    try:
        return _fit_alone(row, folder, asked, store, console)
    finally:
        cores.put(mine)


def _fit_alone(row: Row, folder: Path, asked: argparse.Namespace, store: Store, console: Console) -> str:
    what = f"{row['model']} on {row['set']}, {row['split']}"
    task = {"case": row["set"], "part": row["split"], "model": row["model"], "folder": str(folder)}
    task |= {"threads": asked.threads, "quick": asked.quick}
    count = str(asked.threads)
    console.print(f"{what} ...", highlight=False, markup=False)
    found, _ = in_child(
        "benchmarks.many_rows.fit",
        task,
        allowed=asked.limit,
        variables={**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count},
    )
    store.add({**row, **found, "at_once": asked.at_once})
    store.write()
    told = f"{found['seconds']:.3g} s" if found["status"] == "done" else found["reason"]
    console.print(f"{what}: {told}", highlight=False, markup=False)
    return found["status"]


def _parts(name: str, asked: argparse.Namespace) -> tuple[int, ...]:
    case = CASES[name]
    if asked.quick:
        return case.quick
    return tuple(range(asked.splits)) if asked.splits and name in ("kin8nm", "protein") else case.parts


def _folder(name: str, data_dir: Path | None) -> Path:
    """Return where the data of a case is; anywhere if it is generated."""
    folder = CASES[name].folder
    if folder is None:
        return Path()
    if data_dir is None or not (data_dir / folder).is_dir():
        raise InvalidInput(f"case {name} needs a folder {folder}/; give the folder that holds it by --data-dir.")
    return (data_dir / folder).resolve()


if __name__ == "__main__":
    sys.exit(main())
