"""Epochs for lists and plots: never more than a page of them, and never more points than a plot has pixels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from sqlstream.storage.epoch_history import KEPT_EPOCHS, EpochRecord, EpochSummary, History, whole_lag

PAGE, MOST_POINTS = 100, 400


def page(history: History, before: int | None, limit: int = PAGE) -> dict[str, Any]:
    """Epochs before one, newest first; `next` is what to give as `before` for more, None at the end."""
    found = list(islice(history.latest(before), limit + 1))
    more = len(found) > limit
    return {
        "epochs": [listed(record) for record in found[:limit]],
        "next": found[limit - 1].epoch if more else None,
    }


def listed(record: EpochRecord) -> dict[str, Any]:
    """An epoch without its tasks."""
    return {
        "epoch": record.epoch,
        "at_us": record.at_us,
        "run": record.run,
        "seconds": round(record.total_seconds, 4),
        "steps": dict(record.seconds),
        "rows_read": sum(record.read.values()),
        "rows_written": sum(record.written.values()),
        "dead_letters": sum(record.letters.values()),
        "lag": whole_lag(record.lag),
        "state_rows": record.state_rows,
        "state_bytes": record.state_bytes,
        "edits": record.edits,
        "replayed": record.replayed,
    }


def detail(record: EpochRecord) -> dict[str, Any]:
    """All that is known of an epoch; of its time, what the tasks spent it on."""
    spent: dict[str, int] = {}
    for task in record.tasks:
        for name, us in task.us.items():
            spent[name] = spent.get(name, 0) + us
    return {
        **listed(record),
        "read": dict(record.read),
        "written": dict(record.written),
        "letters": dict(record.letters),
        "lags": dict(record.lag),
        "watermarks": dict(record.watermarks),
        "made": dict(record.made),
        "task_count": record.task_count,
        "task_us": dict(sorted(spent.items(), key=lambda item: -item[1])),
        "tasks": [
            {
                "task": task.task,
                "rows": task.rows,
                "bytes": task.bytes,
                "shipped": task.shipped,
                "us": dict(task.us),
                "total_us": task.total_us,
            }
            for task in record.tasks
        ],
    }


def series(history: History, epochs: int, points: int = MOST_POINTS) -> dict[str, list[Any]]:
    """The last epochs as columns for plots, oldest first; of several in one point the slowest is shown, sums are summed."""
    found = history.summaries(min(epochs, KEPT_EPOCHS))
    size = -(-len(found) // points) or 1
    made = [_point(found[at : at + size]) for at in range(0, len(found), size)]
    return {name: [point[name] for point in made] for name in (made[0] if made else ())}


def _point(sums: Sequence[EpochSummary]) -> dict[str, Any]:
    slowest = max(sums, key=lambda one: one.seconds)
    seconds = max((sums[-1].at_us - sums[0].at_us) / 1e6 + sums[0].seconds, 1e-3)
    read = sum(one.read for one in sums)
    return {
        "epoch": slowest.epoch,
        "at_us": sums[-1].at_us,
        "seconds": round(slowest.seconds, 4),
        "job": round(slowest.job, 4),
        "rows_read": read,
        "rows_per_s": round(read / seconds, 1),
        "rows_written": sum(one.written for one in sums),
        "dead_letters": sum(one.letters for one in sums),
        "lag": max((one.lag for one in sums if one.lag is not None), default=None),
        "state_rows": sums[-1].state_rows,
        "state_bytes": sums[-1].state_bytes,
        "edits": any(one.edits for one in sums),
        "run": sums[-1].run,
    }
