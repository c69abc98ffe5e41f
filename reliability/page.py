"""Write docs/reliability.md: what is promised, how each promise is tested, and the figures of the last runs.

    python -m reliability.page

Reads results/reliability.json, so that no figure is typed by hand. Sections of which it has none stay as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.page import machine

from reliability.mutants import SURVIVORS, room_of
from reliability.record import RECORD

AROUND = 40  # characters of a changed line that are shown beside the change
PAGE = Path("docs/reliability.md")

PROMISES = """# Reliability

What is promised, and how each promise is tested. Commands wrote the figures on this page; none was typed by hand:

    python -m reliability.kills --count 50     # SIGKILL at random moments, damaged files; about ten minutes
    python -m reliability.soak --minutes 25    # random problems, every iteration audited
    python -m reliability.fuzz --seconds 120   # coverage-guided fuzzing of all readers; needs atheris
    make coverage                              # lines that the default tests run; as long as these take
    python -m reliability.uncompiled           # line coverage with compilation off; needs coverage
    python -m reliability.mutants --minutes 60 # mutation tests of shards, algebra, loops, estimators; --more goes on
    make test-oldest                           # the tests with the oldest versions that pyproject.toml allows
    make test-wheel                            # wheel and sdist, built and installed into an empty environment
    python -m reliability.page                 # this page

| promise | how it is tested |
| --- | --- |
| A run that is killed and resumed gives a result bit-identical to an uninterrupted one, on any number of threads | `reliability.kills`; `tests/training/test_checkpoint.py`, `tests/reliability/test_kills.py` |
| A checkpoint file is always whole, the old one or the new one; a damaged one is refused by name, and the previous one is suggested | the same; every cut and every fifth bit in `tests/test_files.py` |
| If the disk fills up, neither the training nor the last checkpoint is lost; a folder that cannot be written to is refused before training starts | the same |
| A network can be rebuilt from its steps, bit for bit | `tests/training/test_replay.py` |
| No flip is missed: certified search finds what a full scan finds | `reliability.soak`, `thresher audit`; `tests/reliability/test_soak.py`, `tests/shards/test_certified.py` |
| Training ends with a status that says what happened and what to change | `tests/training/test_edges.py` |
| A bad file raises one of our errors: no crash, nothing executed, no file written elsewhere, no more memory than a few times the file; a recipe is refused if its network would not fit in memory | `reliability.fuzz`; `tests/test_files.py`, `tests/tables/test_tables_fuzz.py`, `tests/estimators/test_tampered.py` |
| Ctrl-C ends a command with exit code 130 and no traceback; the checkpoint is whole | `tests/test_resources.py`, `tests/training/test_checkpoint.py` |
| Work that needs too much memory is refused before it starts, also under `ulimit -v` and control groups | `tests/test_resources.py` |
| `predict` may be called from many threads; the number of BLAS threads is restored | `tests/test_resources.py` |
| The same settings give the same bits in any process, with any hash seed and any number of threads | `tests/test_resources.py`, `tests/engines/test_parallel.py` |
| On a cluster, workers, machines and the driver may be killed at any moment: the history is the same to the bit | `tests/cluster`, `tests/engines/test_worker.py` |
| It works with the oldest allowed versions, and when installed from wheel or sdist | `make test-oldest`, `make test-wheel` |

## What a checkpoint holds

A checkpoint holds the settings that determine the result, a hash of inputs and targets, and for each iteration the solution of the
linear system (n numbers), the fraction of it that was taken and the resulting residual. Everything else is computed again: a
resumed run starts like any other and reads solutions from the file as long as there are any, so it repeats the start scan and the
moves but no solve. It compares each residual with the one in the file. `tol`, `max_iterations`, `threads` and callbacks may
differ from those of the first run; any other difference is refused by name. Your own solver objects are compared by their
`repr` and must not carry state from one solve to the next.

Files are in the safetensors format: plain numbers and JSON, with the SHA-256 of the whole file in the header. They are
written to `NAME.unfinished`, flushed to disk, and renamed; the previous file stays as `NAME.previous`.

## What is not promised

- Bit-identical means: with the same versions of NumPy, SciPy and their BLAS on the same kind of processor. Elsewhere a checkpoint
  is accepted if each iteration leads to the same residual within 1e-6 of the first, and refused otherwise.
- Pairs on the threshold to within float64 rounding may be counted either way: after many steps a coefficient is a difference
  of larger numbers, and its last bit depends on when it was last written. An audit calls such pairs ties and reports their number.
- Where the Gram matrix is singular, damped solves may give steps whose parts cancel, with coefficients of 1e12 and more.
  Outputs are then exact to the rounding of such numbers, and audits allow for that. Dense shards sum in working precision: their audits
  allow outputs twice the root of the summed squares of what each neuron may lose (`of_outputs` in `loops/rounding.py`), about six times what was seen.
"""


def kills(figures: dict[str, Any]) -> str:
    stages = ", ".join(f"{name} {count}" for name, count in figures["stages"].items())
    lines = [
        "## Kills\n",
        f"{figures['kills']} processes killed with SIGKILL ({stages}); {figures['resumed']} trainings resumed, some killed more "
        f"than once; **{figures['identical']} of {figures['resumed']} came out identical to the bit**; "
        f"{len(figures['different'])} left other files or other results.\n",
        machine(figures),
        "| damage | tried | as promised |",
        "| --- | ---: | ---: |",
    ]
    lines += [f"| {row['what']} | {row['tried']} | {row['good']} |" for row in figures["damage"]]
    return "\n".join(lines) + "\n"


def soak(runs: list[dict[str, Any]]) -> str:
    def total(name: str) -> int:
        return sum(run[name] for run in runs)

    worst = {dtype: max(run["worst_error"][dtype] for run in runs) for dtype in ("float32", "float64")}
    statuses = {name: sum(run["statuses"].get(name, 0) for run in runs) for run in runs for name in run["statuses"]}
    ends = ", ".join(f"{count} {name}" for name, count in statuses.items())
    failures = [failure for run in runs for failure in run["failures"]]
    lines = [
        "## Soak\n",
        f"{total('problems'):,} random problems (seed{'s' * (len(runs) > 1)} {', '.join(str(run['seed']) for run in runs)}), "
        f"audited after every iteration: **{total('pairs'):.3g} pairs compared with a full scan, {total('missed')} flips missed**, "
        f"{total('ties')} ties. Largest error of an output, relative to the largest output, 1, or what cancels: "
        f"{worst['float32']:.1e} in float32, {worst['float64']:.1e} in float64. Ends: {ends}.\n",
        machine(runs[-1]),
        "Problems: 1 to 256 inputs of dimension 1 to 64, up to 2²³ pairs; shifts 0 to 3; spread, clustered and heavy-tailed inputs, "
        "duplicates and opposites; targets from 1e-6 to 1e6, constant, zero and heavy-tailed; both precisions, twins, both first "
        "steps, three solvers. Failures that earlier runs found are in `tests/reliability/test_soak.py`.\n",
    ]
    lines += [f"- FAILED: `--seed {one['seed']} --only {one['number']}`: {one['what']}" for one in failures]
    return "\n".join(lines) + "\n"


def fuzz(figures: dict[str, Any]) -> str:
    lines = [
        "## Fuzzing\n",
        f"{figures['seconds']} seconds per reader, guided by coverage (atheris). `files` and the tables get bytes, `checkpoint` gets "
        "JSON; `model` and `run` get good files, models in both forms, with up to three false numbers, words or arrays, "
        "and a valid checksum; whatever still loads is asked for predictions. Whatever claims more than 256 MiB must be "
        "refused. A fault is anything but one of our errors.\n",
        machine(figures),
    ]
    lines += ["| reader | inputs tried | peak memory (MiB) | faults |", "| --- | ---: | ---: | ---: |"]
    for name, row in figures["targets"].items():
        lines.append(f"| {name} | {row['inputs']:,} | {row['peak_mib']} | {row['faults']} |")
    return "\n".join(lines) + "\n"


def covered(figures: dict[str, Any]) -> str:
    missing = {name: len(lines) for name, lines in figures["missing"].items()}
    most = sorted(missing, key=lambda name: -missing[name])[:8]
    return "\n".join(
        [
            "## Lines covered\n",
            f"`make coverage`: the default tests, those of `make test`, run **{figures['covered'] / figures['lines']:.1%}** of "
            f"{figures['lines']:,} lines. Not among these are the {figures['compiled']:,} lines of compiled functions, which Python does not "
            "run (see the next section), and what runs on a GPU alone.\n",
            machine(figures),
            f"Most lines are missing in {', '.join(f'`{name}` ({missing[name]})' for name in most)}. Of clusters the default tests "
            "have a look alone; `make test-all` has the rest.\n",
        ]
    )


def coverage(figures: dict[str, Any]) -> str:
    ends = ", ".join(f"{count:,} {name}" for name, count in figures["tests"].items())
    missing = {name: len(lines) for name, lines in figures["missing"].items()}
    most = sorted(missing, key=lambda name: -missing[name])[:8]
    rest = sum(missing.values()) - sum(missing[name] for name in most)
    lines = [
        "## Lines reached\n",
        f"**{figures['reached'] / figures['lines']:.1%}** of {figures['lines']:,} lines are reached by tests with compilation "
        f"off. Tests: {ends}. A test is cut off once it reaches nothing new, since loops are hundreds of times slower without "
        "compilation; so this shows what tests reach, and `make test` whether they pass.\n",
        machine(figures),
        f"Not reached, in the files of that commit: {', '.join(f'`{name}` {missing[name]}' for name in most)}, and {rest} in {len(missing) - len(most)} "
        "other files. These cannot be reached in this way: `export/torch_module.py` where torch is not installed, the two "
        "files that use processor instructions available only in compiled code (`loops/certified/start_scan.py`, "
        "`loops/pairs/counting.py`), and code that runs in separate processes.\n",
    ]
    return "\n".join(lines)


def mutants(figures: dict[str, Any]) -> str:
    reasons = {(one["place"], one["what"]): one["why"] for one in json.loads(SURVIVORS.read_text())}
    tried = figures["tried"]
    counts = Counter(room_of(one["place"]) for one in tried)
    rooms = ", ".join(f"{counts[room]} of {possible:,} in `{room}`" for room, possible in figures["possible"].items())
    survivors = [one for one in tried if not one["noticed"]]
    unexplained = [one for one in survivors if (one["place"], one["what"]) not in reasons]
    lines = [
        "## Mutants\n",
        f"Single changes to an operator, a comparison, a condition or a number, drawn at random: {rooms}. Each is run against the "
        "tests that reach its line; one in a compiled loop, against all tests of networks. "
        f"**{len(tried) - len(survivors)} of {len(tried)}** were noticed by a test; of the {len(survivors)} others "
        f"{len(survivors) - len(unexplained)} are explained, in `reliability/survivors.json` of that commit, and "
        f"{len(unexplained)} are not.\n",
        machine(figures),
    ]
    if unexplained:
        lines += [
            "Files and lines are those of that commit.\n",
            "| not explained | before | after |",
            "| --- | --- | --- |",
        ]
    for one in sorted(unexplained, key=lambda one: (one["place"].partition(" ")[0], one["line"])):
        before, after = (f"`{part}`".replace("|", "\\|") for part in _around_the_change(*one["what"].split("  ->  ")))
        lines.append(f"| {one['place']}, line {one['line']} | {before} | {after} |")
    return "\n".join(lines) + "\n"


def _around_the_change(before: str, after: str) -> tuple[str, str]:
    """Return two long lines without what they have in common at both ends, but for some characters."""
    same = _in_common(before, after)
    end = _in_common(before[same:][::-1], after[same:][::-1])
    first, last = (size - AROUND if size > AROUND + 9 else 0 for size in (same, end))
    cut = [
        f"{'... ' if first else ''}{one[first : len(one) - last]}{' ...' if last else ''}" for one in (before, after)
    ]
    return cut[0], cut[1]


def _in_common(one: str, other: str) -> int:
    """Return with how many equal characters two texts begin."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def oldest(figures: dict[str, Any]) -> str:
    passed = figures["tests"] - figures["failures"] - figures["errors"] - figures["skipped"]
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    return (
        f"## Oldest versions\n\n`make test-oldest`: **{passed:,} of {figures['tests']:,} tests passed**, {figures['skipped']} were "
        f"skipped, {figures['failures'] + figures['errors']} failed, with {versions}.\n\n{machine(figures)}"
    )


def wheel(figures: dict[str, Any]) -> str:
    came = figures["made"][0]["packages"]
    lines = [
        "## Wheel and sdist\n",
        "`make test-wheel`: each was installed into an empty environment and run there. "
        f"With it came {len(came)} packages, none of which was built there: {', '.join(came)}.\n",
    ]
    lines += [
        f"- `{one['name']}`, {one['bytes']:,} bytes, {one['python']}: {one['version']}. {one['audit']}"
        for one in figures["made"]
    ]
    return "\n".join(lines) + f"\n\n{machine(figures)}"


# The sections in their order: title, entry of the record, and what writes it.
SECTIONS: list[tuple[str, str, Callable[[Any], str]]] = [
    ("Kills", "kills", kills),
    ("Soak", "soak", soak),
    ("Fuzzing", "fuzz", fuzz),
    ("Lines covered", "covered", covered),
    ("Lines reached", "coverage", coverage),
    ("Mutants", "mutants", mutants),
    ("Oldest versions", "oldest", oldest),
    ("Wheel and sdist", "wheel", wheel),
]


def page(record: dict[str, Any], before: str) -> str:
    """Return the page. Sections of which the record has no figures stay as they were."""
    known = {part.splitlines()[0]: f"## {part.rstrip()}\n" for part in before.split("\n## ")[1:]}
    if runs := [figures for name, figures in record.items() if name.startswith("soak")]:
        record = {**record, "soak": runs}
    written = [write(record[name]) if name in record else known.get(title) for title, name, write in SECTIONS]
    return "\n".join([PROMISES, *filter(None, written)])


def main() -> None:
    PAGE.write_text(page(results.read(RECORD), PAGE.read_text() if PAGE.is_file() else ""))
    print(f"Written to {PAGE}.")


if __name__ == "__main__":
    main()
