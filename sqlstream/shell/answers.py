"""What a statement gives: rows, a text, or both nothing, with what must be known of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.state.results import Result
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned


@dataclass(frozen=True, slots=True)
class Answer:
    """What is printed of a statement.

    `result` are rows (with `as_json`, one column of JSON objects), `text` is written as it is, `plan` is that of a query, as
    `explain` shows it. `notes` say how far the rows
    can be relied on, and `timed` whether how long it took is of interest.
    """

    result: Result | None = None
    text: str = ""
    plan: Planned | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    timed: bool = False


def listing(columns: Sequence[str], rows: Iterable[Sequence[str | None]], *, as_json: bool) -> Answer:
    """Rows that the shell makes itself."""
    found = [tuple(row) for row in rows]
    if not as_json:
        return Answer(Result(tuple(columns), iter(found)))
    objects = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in found)
    return Answer(Result(("row",), ((text,) for text in objects)))
