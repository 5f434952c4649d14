"""What a file that is written in Flink's grammar says that means another thing in Flink (docs/flink.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import Diagnostic, Span, counted
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.logical import Aggregate, OverWindow, walk
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.sql.dialect.lexer import lex
from sqlstream_planner.sql.dialect.positions import own_range
from sqlstream_planner.sql.problems import TypeProblem

#: Words that stand in Flink's queries and in no others.
_WORDS = (("DESCRIPTOR", "("), ("FOR", "SYSTEM_TIME"), ("STATEMENT", "SET"), ("PROCTIME", "("))
_FRACTIONS = frozenset({Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL})
_MEANS = frozenset({"avg", "mean"})


_QUOTIENT = (
    "a quotient of integers has a fraction: 7 / 2 is 3.5, in Flink 3",
    "write a // b for the whole part",
)
_ROUNDED = (
    "a cast to an integer rounds: CAST(2.5 AS INT) is 3, in Flink 2",
    "write CAST(TRUNC(x) AS INT) to cut the fraction off",
)
_MEAN = (
    "an average of integers has a fraction: AVG of 1 and 2 is 1.5, in Flink 1",
    "write CAST(TRUNC(AVG(x)) AS INT) for the whole part",
)


def differs_from_flink(planned: Planned) -> Diagnostic | None:
    """A note at the first expression that Flink computes otherwise; None if there is none, or no grammar of Flink's."""
    if not _is_of_flink(planned.rendered.text):
        return None
    found = dict(sorted(_differences(planned), key=lambda each: (each[0].file, each[0].line, each[0].column)))
    if not found:
        return None
    (at, (message, help_)), *others = found.items()
    more = (
        (f"{counted(len(others), 'more place')} of the file {'does' if len(others) == 1 else 'do'} too",)
        if others
        else ()
    )
    notes = ("the file has Flink's grammar; docs/flink.md says what differs", *more)
    return Diagnostic("SQL109", message, at, notes, help_, severity="note")


def _is_of_flink(text: str) -> bool:
    tokens = lex(text).tokens
    words = [t.text.upper() for t in tokens]
    return any(text[t.start] == "`" for t in tokens) or any(pair in _WORDS for pair in pairwise(words))


def _differences(planned: Planned) -> Iterator[tuple[Span, tuple[str, str]]]:
    for node in walk(planned.algebra):
        types = {f.id: (f.type, f.nullable) for i in node.inputs for f in i.fields}
        for expression in node.expressions():
            for part in expression.find_all(exp.Div, exp.Cast):
                place, what = own_range(part), _of_expression(part, types)
                if place is not None and what is not None:
                    yield planned.rendered.span(*place), what
        for call in node.calls if isinstance(node, Aggregate | OverWindow) else ():
            if call.name in _MEANS and call.argument_types[0].is_integer and call.at is not None:
                yield call.at, _MEAN


def _of_expression(part: exp.Expr, types: Mapping[str, tuple[SqlType, bool]]) -> tuple[str, str] | None:
    """The note on a quotient or a cast, None if it means the same in Flink or its types are not known here."""
    try:
        if isinstance(part, exp.Div):
            sides = [infer(side, types, aggregates=True).type for side in (part.this, part.expression)]
            return _QUOTIENT if all(side.is_integer for side in sides) else None
        if type(part) is exp.Cast and infer(part, types, aggregates=True).type.is_integer:
            inner = infer(part.this, types, aggregates=True).type
            return _ROUNDED if inner.kind in _FRACTIONS else None
    except TypeProblem:
        return None
    return None
