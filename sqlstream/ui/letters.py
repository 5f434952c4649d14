"""Dead letters for a page: the newest rows, and how many there are of each reason among the last so many."""

from __future__ import annotations

from typing import Any

from sqlstream.state.dead_letters import read_dead_letters, reason_in_general
from sqlstream.ui.pipelines import Pipeline

#: Rows of a page, rows whose reasons are counted, reasons that are shown, and characters of a row.
PAGE, COUNTED, MOST_REASONS, MOST_TEXT = 100, 20_000, 50, 2000


def letters(pipeline: Pipeline, offset: int) -> dict[str, Any]:
    """A page of dead-letter rows, newest epochs first, and the most frequent reasons of the newest rows.

    `total` is how many there were since the state directory began, `counted` of how many the reasons are (None: of all).
    """
    found = list(read_dead_letters(pipeline.store, limit=PAGE + 1, offset=offset, newest=True))
    manifest = pipeline.last()
    reasons, counted = _reasons(pipeline)
    return {
        "total": 0 if manifest is None else manifest.tally.total,
        "more": len(found) > PAGE,
        "counted": counted,
        "reasons": reasons,
        "letters": [
            {
                "epoch": row.epoch,
                "kind": row.kind,
                "source": row.source or row.operator,
                "place": row.place[:MOST_TEXT],
                "reason": row.reason[:MOST_TEXT],
                "row": row.text[:MOST_TEXT],
            }
            for row in found[:PAGE]
        ],
    }


def _reasons(pipeline: Pipeline) -> tuple[list[dict[str, Any]], int | None]:
    groups: dict[tuple[str, str, str], list[int]] = {}
    number = 0
    for row in read_dead_letters(pipeline.store, limit=COUNTED, newest=True):
        number += 1
        key = (row.source or row.operator, row.kind, reason_in_general(row.reason)[:MOST_TEXT])
        group = groups.setdefault(key, [0, row.epoch, row.epoch])
        group[0] += 1
        group[1], group[2] = min(group[1], row.epoch), max(group[2], row.epoch)
    most = sorted(groups.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_REASONS]
    listed = [
        {"source": source, "kind": kind, "reason": reason, "rows": rows, "first": first, "last": last}
        for (source, kind, reason), (rows, first, last) in most
    ]
    return listed, number if number == COUNTED else None
