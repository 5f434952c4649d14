"""A difference as text: which rows are missing, extra and changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.golden.compare import Difference
from sqlstream.golden.rows import Row
from sqlstream_operators.plan.spec import Schema
from sqlstream_planner.text.visible import visible

#: How many characters of a value are shown, and how many before the first that differs.
_WIDEST, _BEFORE = 40, 10


def difference_lines(
    difference: Difference,
    schema: Schema,
    *,
    limit: int,
    missing: str = "missing: DuckDB has it, the pipeline does not",
    extra: str = "extra: the pipeline has it, DuckDB does not",
    changed: str = "changed: DuckDB's value → the pipeline's",
) -> list[str]:
    """Lines for a terminal, at most `limit` rows of each kind; `-` missing, `+` extra, `~` changed."""
    lines = []
    names = [column.name for column in schema]
    numeric = [column.type.is_numeric for column in schema]
    for mark, title, rows in (
        ("-", missing, [list(map(_shown, row)) for row in difference.missing]),
        ("+", extra, [list(map(_shown, row)) for row in difference.extra]),
        ("~", changed, [_changed(old, new) for old, new in difference.changed]),
    ):
        if rows:
            lines.append(f"{len(rows):,} {title}")
            lines += _table(mark, names, rows[:limit], numeric)
            if len(rows) > limit:
                lines.append(f"    … and {len(rows) - limit:,} more")
    return lines


def counts(difference: Difference) -> str:
    """How many rows of each kind.

    >>> counts(Difference([("a",)], [], []))
    '1 missing'
    """
    found = (
        (len(difference.missing), "missing"),
        (len(difference.extra), "extra"),
        (len(difference.changed), "changed"),
    )
    return ", ".join(f"{count:,} {word}" for count, word in found if count)


def _changed(old: Row, new: Row) -> list[str]:
    return [_shown(a) if a == b else _pair(a, b) for a, b in zip(old, new, strict=True)]


def _pair(old: str | None, new: str | None) -> str:
    """Two values that differ; of long ones that begin alike, what is around the difference.

    >>> _pair("a", "a "), _pair("x" * 50 + "a", "x" * 50 + "b")
    ('a → "a "', '…xxxxxxxxxxa → …xxxxxxxxxxb')
    """
    first, second = _shown(old), _shown(new)
    if first == second and old is not None and new is not None:
        old, new = _quoted(old), _quoted(new)
        alike = next(
            (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
        )
        at = max(0, alike - _BEFORE)
        first, second = (text[at : at + _WIDEST] + "…" * (len(text) > at + _WIDEST) for text in (old, new))
        first, second = ("…" * bool(at) + text for text in (first, second))
    return f"{first} → {second}"


def _shown(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    text = _quoted(cell)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _quoted(cell: str) -> str:
    """A value as it stands in a table: in quotes where a reader could not see where it ends, or could take it for NULL.

    >>> [_quoted(cell) for cell in ("a b", "a ", "", "NULL")]
    ['a b', '"a "', '""', '"NULL"']
    """
    text = visible(cell)
    return f'"{text}"' if cell != cell.strip() or cell in ("", "NULL") else text


def _table(
    mark: str, names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> list[str]:
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(names)]

    def line(lead: str, cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return f"  {lead} {'  '.join(padded)}".rstrip()

    return [line(" ", names), *(line(mark, row) for row in rows)]
