"""What a training on a cluster sent, received and waited for, as the cells of a table."""

from __future__ import annotations

from thresher.memory import format_bytes
from thresher.runs.record import Record

__all__ = ["TRAFFIC_HEAD", "traffic_rows"]

TRAFFIC_HEAD = ("iteration", "sent", "received", "workers computed, s", "waited besides, s", "started again")


def traffic_rows(run: Record) -> list[list[str]]:
    """Return a row of cells for each iteration, summed over outputs; none for a training in one process."""
    records = [record for one in run.trainings for record in one.history]
    if not any(record.traffic for record in records):
        return []
    rows = []
    for iteration in range(max(record.iteration for record in records) + 1):
        spent = [record.traffic for record in records if record.iteration == iteration]
        total = {
            name: sum(one.get(name, 0.0) for one in spent)
            for name in ("sent", "received", "compute", "wait", "restarts")
        }
        rows.append(
            [
                str(iteration or "start"),
                format_bytes(total["sent"]),
                format_bytes(total["received"]),
                f"{total['compute']:.3f}",
                f"{total['wait']:.3f}",
                f"{total['restarts']:.0f}",
            ]
        )
    return rows
