"""A call as a question to the type oracle: its arguments as columns of their types, its constants as they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from sqlstream_operators.plan.types import UNKNOWN, Kind, SqlType, quote_identifier, quote_literal
from sqlstream_planner.expressions.casts import TypedExpr, stand_in
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.expressions.infer.inference import Inference
from sqlstream_planner.expressions.oracle import Question, Refused, Rows, column, current
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.dialect import own_sql

#: A constant of more nodes is an argument of its type; nothing that DuckDB must know before a row is so long.
_LARGEST = 200
#: To DuckDB they are other types than TIMESTAMP, as is TIMESTAMP(3); to us casts to them cut or round.
_TIMES_OF_OTHER_TYPES = (exp.DType.TIMESTAMP_S, exp.DType.TIMESTAMP_MS)


def ask(
    inference: Inference,
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
    *,
    texts: bool = True,
    names: Sequence[str | None] = (),
) -> SqlType | Refused:
    """The type of a call as DuckDB says; UNKNOWN if an argument's type is not known.

    Without `texts` they are columns, whatever they say. `names` are those of arguments that have one.
    """
    is_operator = not function.name[:1].isalpha()
    texts = texts and not (is_operator and all(t.type.kind is Kind.VARCHAR for t in typed))
    question = _Question(inference, texts, is_operator=is_operator)
    arguments = [question.argument(t, n) for t, n in zip(typed, nodes, strict=True)]
    if None in arguments:
        return UNKNOWN
    name = function.name
    called = name if name.isidentifier() else quote_identifier(name)
    over = " OVER (ORDER BY 1)" if function.kind is FunctionKind.WINDOW else ""
    given = zip_longest(arguments, names)
    written = (f"{quote_identifier(n)} := {a}" if n is not None else str(a) for a, n in given)
    text = f"{called}({', '.join(written)}){over}"
    rows = Rows.NULLS if question.has_text else Rows.NONE
    return current().type_of(Question(text, tuple(question.columns), rows))


class _Question:
    """Collects the columns that the arguments of one call become.

    To operators it means nothing which of several values of one type a constant is, so one question serves all.
    """

    def __init__(self, inference: Inference, texts: bool, *, is_operator: bool) -> None:
        self.columns: list[SqlType] = []
        self.has_text = False
        self._inference = inference
        self._texts = texts
        self._is_operator = is_operator

    def argument(self, typed: TypedExpr, node: exp.Expr) -> str | None:
        """The SQL of an argument, None if it has none."""
        plain = node.unnest()
        if typed.type.kind is Kind.VARCHAR and not self._texts:
            return self._column(typed.type)
        if isinstance(typed.literal, str):
            self.has_text = True
            return quote_literal(typed.literal)
        if isinstance(typed.literal, int):
            return str(stand_in(typed.literal) if self._is_operator else typed.literal)
        if isinstance(plain, exp.Null):
            return "NULL"
        if isinstance(plain, exp.Lambda):
            return self._inlined(plain)
        if (
            self._is_operator
            and isinstance(plain, exp.Cast | exp.Interval | exp.Literal)
            and typed.type.is_known
        ):
            return self._column(typed.type)
        if _is_small_constant(plain):
            return _sql(plain)
        if not typed.type.is_known:
            return self._inlined(plain)
        return self._column(typed.type)

    def _column(self, type_: SqlType) -> str:
        self.columns.append(type_)
        return column(len(self.columns) - 1)

    def _inlined(self, node: exp.Expr) -> str | None:
        """An argument whose type no column can have, or that is a lambda: as it is, over columns of their types."""
        if self._inference.on_error is not None:
            return None  # what is wrong with it was reported
        own = {p.name.lower() for each in node.find_all(exp.Lambda) for p in each.expressions}
        inlined = exp.Paren(this=without_marks(node).copy())
        for part in list(inlined.find_all(exp.Column, exp.Identifier)):
            if not self._is_from_outside(part, own):
                continue
            type_ = self._inference.type_of(part).type
            if type_.kind is Kind.UNKNOWN:
                return None
            made = exp.column(f"${len(self.columns)}", quoted=True)
            self.columns.append(type_)
            part.replace(made)
        return _sql(inlined.this)

    def _is_from_outside(self, part: exp.Expr, own: set[str]) -> bool:
        """Whether a name is a column, or a parameter of a lambda around the call."""
        if isinstance(part, exp.Column):
            return True  # no parameter is one
        name = part.name.lower()
        around = name not in own and any(name in names for names in self._inference.lambdas)
        return around and not isinstance(part.parent, exp.Column) and not _is_of_field(part)


def _is_of_field(part: exp.Expr) -> bool:
    """Whether a name is that of a field of a struct, or of an argument, and no value."""
    return (isinstance(part.parent, exp.Dot) and part.arg_key == "expression") or (
        isinstance(part.parent, exp.PropertyEQ | exp.Kwarg) and part.arg_key == "this"
    )


def _is_small_constant(node: exp.Expr) -> bool:
    for number, part in enumerate(node.walk()):
        if number > _LARGEST or isinstance(part, exp.Column | exp.Lambda | exp.Query | exp.Star):
            return False
        if isinstance(part, exp.DataType) and part.this in _TIMES_OF_OTHER_TYPES:
            return False
        if isinstance(part, exp.DataType) and part.this in exp.DataType.TEMPORAL_TYPES and part.expressions:
            return False
        if isinstance(part, exp.Identifier) and not (
            isinstance(part.parent, exp.DataType) or _is_of_field(part)
        ):
            return False
    return True


def _sql(node: exp.Expr) -> str | None:
    try:
        return own_sql(without_marks(node))
    except UnsupportedError:
        return None
