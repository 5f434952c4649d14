"""What `sqlstream dead-letters` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlstream.runtime.loop.progress import instant
from sqlstream.state.dead_letters import DeadLetterGroup, DeadLetterRow
from sqlstream.state.replaying import Replayed
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.text.visible import visible

_HEAD = ("pipeline", "source", "kind", "operator", "rows", "epochs", "withdrawn", "replayed")
_NUMBERS = (4, 6, 7)
_REASONS = 5


def count_lines(found: Sequence[tuple[str, Sequence[DeadLetterGroup]]]) -> Iterator[str]:
    """A table with a line per source, kind and operator of each pipeline; below it the reasons, most frequent first."""
    groups = [(name, group) for name, groups in found for group in groups]
    if not groups:
        yield "there are no dead-letter rows"
        return
    table = [_HEAD, *(_cells(name, group) for name, group in groups)]
    widths = [max(len(row[i]) for row in table) for i in range(len(_HEAD))]
    for row in table:
        cells = (
            cell.rjust(width) if i in _NUMBERS else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
    for name, group in groups:
        if not group.rows:
            continue
        yield ""
        yield f"{name}: {' '.join(filter(None, (group.source or group.operator, group.kind)))}"
        shown = group.reasons.most_common(_REASONS)
        others = group.rows - sum(rows for _, rows in shown)
        width = max(len(f"{rows:,}") for rows in (*(rows for _, rows in shown), others))
        for reason, rows in shown:
            yield f"  {rows:>{width},}  {visible(reason)}"
        if others:
            yield f"  {others:>{width},}  other reasons"


def _cells(name: str, group: DeadLetterGroup) -> tuple[str, ...]:
    first, last = group.first_epoch, group.last_epoch
    epochs = "" if first is None else f"{first}" if first == last else f"{first} to {last}"
    rows, withdrawn, replayed = (f"{count:,}" for count in (group.rows, group.withdrawn, group.replayed))
    return name, visible(group.source), group.kind, group.operator, rows, epochs, withdrawn, replayed


def row_lines(name: str, row: DeadLetterRow) -> Iterator[str]:
    """A row: what it is and where it comes from, why, and the row as it is written."""
    of = f"{row.source}, {row.operator}" if row.source and row.operator else row.source or row.operator
    gone = "" if row.withdrawn_in is None else f", withdrawn in epoch {row.withdrawn_in}"
    if row.mended is not None:
        gone += f", replayed {instant(row.mended.mended_us)} UTC"
    place = f"  {visible(row.place)}" if row.place else ""
    yield f"{name} epoch {row.epoch}: {row.kind} row of {visible(of)}{place}{gone}  [{row.id}]"
    yield f"  = {visible(row.reason)}"
    if "expression" in row.fields:
        yield f"  = in {visible(str(row.fields['expression']))}"
    if row.fields.get("key") is not None:
        yield f"  key {visible(str(row.fields['key']))}"
    yield f"  | {visible(row.text)}"


def replayed_lines(done: Replayed) -> Iterator[str]:
    """What became of the rows that were given to `replay`."""
    if done.kept:
        yield f"{counted(len(done.kept), 'mended row')} will be read once, by the next run or the one that watches the files"
    if done.before:
        yield f"{counted(done.before, 'row')} replayed before: not replayed again"
    if done.unchanged:
        yield f"{counted(done.unchanged, 'row')} as before: not replayed"
    if not (done.kept or done.before or done.unchanged):
        yield "there are no rows to replay"
