"""The columns of the auction's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlstream_operators.plan.types import BIGINT, INTEGER, TIMESTAMP, VARCHAR, Kind, SqlType, struct
from sqlstream_planner.diagnostics import Diagnostic, Span, suggestion

#: What an event has; TIMESTAMP has milliseconds here (Flink: TIMESTAMP(3)).
COLUMNS: tuple[tuple[str, SqlType], ...] = (
    ("event_type", INTEGER),
    (
        "person",
        struct(
            ("id", BIGINT),
            ("name", VARCHAR),
            ("emailAddress", VARCHAR),
            ("creditCard", VARCHAR),
            ("city", VARCHAR),
            ("state", VARCHAR),
            ("dateTime", TIMESTAMP),
            ("extra", VARCHAR),
        ),
    ),
    (
        "auction",
        struct(
            ("id", BIGINT),
            ("itemName", VARCHAR),
            ("description", VARCHAR),
            ("initialBid", BIGINT),
            ("reserve", BIGINT),
            ("dateTime", TIMESTAMP),
            ("expires", TIMESTAMP),
            ("seller", BIGINT),
            ("category", BIGINT),
            ("extra", VARCHAR),
        ),
    ),
    (
        "bid",
        struct(
            ("auction", BIGINT),
            ("bidder", BIGINT),
            ("price", BIGINT),
            ("channel", VARCHAR),
            ("url", VARCHAR),
            ("dateTime", TIMESTAMP),
            ("extra", VARCHAR),
        ),
    ),
    ("dateTime", TIMESTAMP),
)


def unknown_columns(columns: Iterable[tuple[str, SqlType, Span | None]]) -> Iterator[Diagnostic]:
    """What is declared, with its place, and events don't have: a column, or a field of one (OPT004)."""
    known = {name.lower(): type_ for name, type_ in COLUMNS}
    for name, type_, span in columns:
        found = known.get(name.lower())
        if found is None:
            yield _no_column(name, [n for n, _ in COLUMNS], span)
        elif type_.kind is Kind.STRUCT:
            names = [n for n, _ in found.fields]
            for field, _ in type_.fields:
                if field not in names:
                    yield _no_column(f"{name}.{field}", [f"{name}.{n}" for n in names], span)


def _no_column(name: str, known: Sequence[str], span: Span | None) -> Diagnostic:
    return Diagnostic(
        "OPT004",
        f"nexmark has no column `{name}`",
        span,
        notes=(f"it has {', '.join(known)}",),
        help=suggestion(name, known),
    )
