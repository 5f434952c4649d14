"""What a query writes that DuckDB takes otherwise (precise times, empty maps), and diagnostics by the user's names."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.logical import Fields
from sqlstream_planner.sql.as_written import marked
from sqlstream_planner.sql.datatypes import exact_type, sql_type_of
from sqlstream_planner.sql.dialect import data_type
from sqlstream_planner.sql.problems import UNTRANSLATABLE, TypeProblem


def has_untyped_keys(type_: SqlType) -> bool:
    """Whether there is a map of no known keys in it, such as MAP{}: Arrow has none."""
    if type_.kind is Kind.MAP and type_.key is not None and type_.key.kind is Kind.NULL:
        return True
    parts = (type_.element, type_.key, type_.value, *(t for _, t in type_.fields))
    return any(has_untyped_keys(part) for part in parts if part is not None)


def as_written(diagnostic: Diagnostic, fields: Fields) -> Diagnostic:
    """The diagnostic with columns by the user's names: inside a plan they are known by ids."""

    def named(text: str) -> str:
        for f in fields:
            if f.id != f.name:
                text = text.replace(f'"{f.id}"', f"`{f.name}`")
        return text

    return replace(
        diagnostic,
        message=named(diagnostic.message),
        notes=tuple(named(note) for note in diagnostic.notes),
        help=named(diagnostic.help) if diagnostic.help is not None else None,
    )


def checked(value: exp.Expr, exact: str, type_: SqlType) -> exp.Expr:
    """A value that must be one of the type `exact` of DuckDB's, as a value of the type that columns have."""
    return _checked(exp.Cast(this=value, to=data_type(exact)), type_)


def _checked(cast: exp.Cast, type_: SqlType) -> exp.Expr:
    """A cast to a type that DuckDB checks and rounds by (`exact_type`), as a value of the type that columns have."""
    plain = cast.copy()
    plain.set("this", plain.this.transform(plain_time_cast))
    # exp.cast would leave one of the two out: it takes INT[3] for INT[].
    back = exp.Cast(this=plain, to=data_type(str(type_)))
    return marked(back, "cast", [cast.copy()])


def plain_time_cast(node: exp.Expr) -> exp.Expr:
    """CAST(x AS TIMESTAMP(3)) as a cast to µs and, where fewer digits are declared, cut off, as Flink does.

    DuckDB's TIMESTAMP(3) is another type, TIMESTAMP_MS, that its functions and our state do not share, and to which
    it rounds; its TIME has no precision. Raises TypeProblem for such a type inside another.
    """
    if not isinstance(node, exp.Cast) or not isinstance(node.to, exp.DataType):
        return node
    type_ = sql_type_of(node.to)
    if exact_type(node.to) != str(type_):
        return _checked(node, type_)
    digits = _digits(node.to)
    if not type_.is_timestamp and type_.kind is not Kind.TIME:
        inside = next((t for t in node.to.find_all(exp.DataType) if _digits(t) not in (None, 6)), None)
        if inside is not None and _is_time(sql_type_of(inside)):
            raise TypeProblem(
                node,
                UNTRANSLATABLE,
                f"a cast to {inside.sql(dialect='duckdb')} inside another type can't cut off digits",
                help="leave the precision out, or cast the times themselves",
            )
        return node
    if digits is None:
        return node
    plain = node.copy()
    plain.set("to", data_type(str(type_)))
    if digits >= 6:
        return plain
    return marked(_cut(plain, type_, digits), "cast", [node.copy()])


def plain_empty_map(node: exp.Expr) -> exp.Expr:
    """MAP {} as MAP(): sqlglot writes MAP MAP() for it."""
    empty = isinstance(node, exp.ToMap) and isinstance(node.this, exp.Struct) and not node.this.expressions
    return exp.Map() if empty else node


def _is_time(type_: SqlType) -> bool:
    return type_.is_timestamp or type_.kind is Kind.TIME


def _digits(type_: exp.DataType) -> int | None:
    """The precision that a type is written with."""
    sizes = [e.name for e in type_.expressions if isinstance(e, exp.DataTypeParam)]
    return int(sizes[0]) if sizes and sizes[0].isdigit() else None


def _cut(value: exp.Expr, type_: SqlType, digits: int) -> exp.Expr:
    """A time with so many digits of its seconds left."""
    if type_.kind is Kind.TIME:
        text = exp.cast(value, "VARCHAR", dialect="duckdb")
        length = exp.Literal.number(8 + (digits + 1 if digits else 0))
        cut = exp.Anonymous(this="substring", expressions=[text, exp.Literal.number(1), length])
        return exp.cast(cut, "TIME", dialect="duckdb")
    if digits in (0, 3):
        unit = "second" if digits == 0 else "millisecond"
        return exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), value])
    width = exp.Interval(this=exp.Literal.string(str(10 ** (6 - digits))), unit=exp.Var(this="MICROSECOND"))
    origin = exp.cast(exp.Literal.string("0001-01-01 00:00:00"), str(type_), dialect="duckdb")
    return exp.Anonymous(this="time_bucket", expressions=[width, value, origin])
