"""Types as users write them -> `SqlType`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.expressions import DType
from sqlstream_operators import types as t
from sqlstream_operators.types import SqlType

from sqlstream_planner.diagnostics import did_you_mean
from sqlstream_planner.dialect.parser import SyntaxFailure
from sqlstream_planner.dialect.positions import range_of

_SIMPLE: dict[DType, SqlType] = {
    DType.BOOLEAN: t.BOOLEAN,
    DType.TINYINT: t.TINYINT,
    DType.SMALLINT: t.SMALLINT,
    DType.INT: t.INTEGER,
    DType.BIGINT: t.BIGINT,
    DType.INT128: t.HUGEINT,
    DType.UTINYINT: SqlType(t.Kind.UTINYINT),
    DType.USMALLINT: SqlType(t.Kind.USMALLINT),
    DType.UINT: SqlType(t.Kind.UINTEGER),
    DType.UBIGINT: SqlType(t.Kind.UBIGINT),
    DType.FLOAT: t.FLOAT,
    DType.DOUBLE: t.DOUBLE,
    DType.TEXT: t.VARCHAR,
    DType.VARCHAR: t.VARCHAR,
    DType.CHAR: t.VARCHAR,
    DType.VARBINARY: t.BLOB,
    DType.BINARY: t.BLOB,
    DType.BLOB: t.BLOB,
    DType.DATE: t.DATE,
    DType.TIME: t.TIME,
    DType.TIMESTAMP: t.TIMESTAMP,
    DType.TIMESTAMPNTZ: t.TIMESTAMP,
    DType.TIMESTAMPLTZ: t.TIMESTAMPTZ,
    DType.TIMESTAMPTZ: t.TIMESTAMPTZ,
    DType.INTERVAL: t.INTERVAL,
    DType.UUID: t.UUID,
    DType.JSON: t.JSON,
    DType.NULL: t.NULL,
}
_TIMESTAMPS = frozenset({DType.TIMESTAMP, DType.TIMESTAMPNTZ, DType.TIMESTAMPLTZ, DType.TIMESTAMPTZ})
_NAMES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING",
    "VARCHAR", "CHAR", "BYTES", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL", "UUID", "JSON",
    "ARRAY", "MAP", "ROW", "HUGEINT",
)  # fmt: skip


def sql_type(node: exp.DataType) -> SqlType:
    """The type that `node` names; lengths of strings and precisions of times are not part of it.

    DECIMAL without numbers is DuckDB's DECIMAL(18,3). Raises SyntaxFailure (SQL003) for types that
    can't be run.
    """
    kind = node.this
    children = node.expressions
    if not isinstance(kind, DType):
        raise _unknown(node)
    if kind in _TIMESTAMPS:
        timestamp_precision(node)
        return _SIMPLE[kind]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == DType.DECIMAL:
        numbers = _numbers(node)
        precision, scale = (numbers + [0])[:2] if numbers else (18, 3)
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise _failure(node, f"DECIMAL({precision}, {scale}) does not exist", "precision is 1 to 38, scale 0 to it")
        return t.decimal(precision, scale)
    if kind in (DType.ARRAY, DType.LIST) and len(children) == 1 and isinstance(children[0], exp.DataType):
        if node.args.get("values"):
            raise _failure(node, "arrays of a fixed length can't be used", "write ARRAY<type>")
        return t.array(sql_type(children[0]))
    if kind == DType.MAP and len(children) == 2:
        return t.map_of(sql_type(children[0]), sql_type(children[1]))
    if kind == DType.STRUCT and children:
        fields: list[tuple[str, SqlType]] = []
        for child in children:
            if not isinstance(child, exp.ColumnDef) or not isinstance(child.args.get("kind"), exp.DataType):
                raise _failure(node, "every field of a ROW needs a name and a type", "write ROW<name type, …>")
            if any(child.name.lower() == name.lower() for name, _ in fields):
                raise _failure(child, f"the field `{child.name}` is there twice", None)
            fields.append((child.name, sql_type(child.args["kind"])))
        return t.struct(*fields)
    raise _unknown(node)


def timestamp_precision(node: exp.DataType) -> int | None:
    """The digits of a second that a timestamp type was declared with, None if none or no timestamp."""
    if node.this not in _TIMESTAMPS or not node.expressions:
        return None
    precision = _numbers(node)[0]
    if not 0 <= precision <= 9:
        raise _failure(node, f"a timestamp's precision is 0 to 9, not {precision}", "write TIMESTAMP(3)")
    return precision


def _numbers(node: exp.DataType) -> list[int]:
    numbers = []
    for child in node.expressions:
        value = child.this if isinstance(child, exp.DataTypeParam) else child
        if not isinstance(value, exp.Literal) or not value.name.isdigit():
            raise _failure(node, "the length or precision of a type must be a whole number", None)
        numbers.append(int(value.name))
    return numbers


def _unknown(node: exp.DataType) -> SyntaxFailure:
    name = node.args["kind"] if node.args.get("kind") else node.this
    text = str(name.value if isinstance(name, DType) else getattr(name, "name", name) or name)
    near = did_you_mean(text, _NAMES)
    return _failure(
        node,
        f"unknown type `{text}`",
        f"did you mean {near}?" if near else "types are " + ", ".join(_NAMES),
    )


def _failure(node: exp.Expr, message: str, help: str | None) -> SyntaxFailure:
    start, end = range_of(node) or (0, 1)
    return SyntaxFailure(message, start, end, help=help, code="SQL003")
