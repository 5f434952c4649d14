"""A type as written in SQL (Flink's, Spark's or DuckDB's spelling) to a SqlType."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import (
    BIGINT,
    BIT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTEGER,
    INTERVAL,
    JSON,
    NULL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMETZ,
    TINYINT,
    UUID,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    enum,
    map_of,
    quote_identifier,
    spelled,
    struct,
    tuple_of,
)
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.dialect import TUPLE, OwnSql, data_type
from sqlstream_planner.sql.problems import TypeProblem

_T = exp.DType
_SIMPLE: dict[exp.DType, SqlType] = {
    _T.BOOLEAN: BOOLEAN,
    _T.TINYINT: TINYINT,
    _T.SMALLINT: SMALLINT,
    _T.INT: INTEGER,
    _T.BIGINT: BIGINT,
    _T.INT128: HUGEINT,
    _T.UTINYINT: SqlType(Kind.UTINYINT),
    _T.USMALLINT: SqlType(Kind.USMALLINT),
    _T.UINT: SqlType(Kind.UINTEGER),
    _T.UBIGINT: SqlType(Kind.UBIGINT),
    _T.FLOAT: FLOAT,
    _T.DOUBLE: DOUBLE,
    _T.TEXT: VARCHAR,
    _T.VARCHAR: VARCHAR,
    _T.CHAR: VARCHAR,
    _T.NCHAR: VARCHAR,
    _T.NVARCHAR: VARCHAR,
    _T.BPCHAR: VARCHAR,
    _T.VARBINARY: BLOB,
    _T.BINARY: BLOB,
    _T.BLOB: BLOB,
    _T.DATE: DATE,
    _T.TIME: TIME,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP,
    _T.DATETIME: TIMESTAMP,
    _T.TIMESTAMP_S: TIMESTAMP,
    _T.TIMESTAMP_MS: TIMESTAMP,
    _T.TIMESTAMPTZ: TIMESTAMPTZ,
    _T.TIMESTAMPLTZ: TIMESTAMPTZ,
    _T.TIMESTAMP_NS: TIMESTAMP_NS,
    _T.TIMETZ: TIMETZ,
    _T.INTERVAL: INTERVAL,
    _T.UUID: UUID,
    _T.JSON: JSON,
    _T.BIT: BIT,
    _T.NULL: NULL,
}
_TIMES = (_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.DATETIME, _T.TIME)
_TEXTS = (_T.TEXT, _T.VARCHAR, _T.CHAR, _T.NCHAR, _T.NVARCHAR, _T.BPCHAR, _T.VARBINARY, _T.BINARY, _T.BLOB)
#: A size may follow these, such as VARCHAR(10), TIMESTAMP(3).
_SIZED = (*_TIMES, *_TEXTS)
_DECIMALS = (_T.DECIMAL, _T.BIGDECIMAL, _T.UDECIMAL)
_MICROSECONDS = 6
#: DuckDB's types of times with fewer digits, to which it rounds, and how many digits of a second they have.
_ROUNDED = {_T.TIMESTAMP_S: 0, _T.TIMESTAMP_MS: 3}
#: How many elements DuckDB's ARRAY can have.
_LARGEST_ARRAY = 100_000
#: DuckDB's types that no column can have, why, and what to write.
_NOT_KEPT = {
    _T.UINT128: ("whole numbers are kept with a sign", "write HUGEINT, or DECIMAL(38, 0)"),
    _T.BIGNUM: ("numbers are kept with at most 38 digits", "write DECIMAL(38, 0)"),
    _T.UNION: (
        "a value is kept with one type",
        "write STRUCT(a …, b …) of which the others are NULL, or JSON",
    ),
    _T.VARIANT: ("a value is kept with one type", "write JSON"),
    _T.GEOMETRY: ("shapes are kept as bytes", "write BLOB and keep them as WKB, or VARCHAR and WKT"),
    _T.TIME_NS: ("time is kept in microseconds", "write TIME"),
}


def sql_type_of(node: exp.Expr) -> SqlType:
    """The SqlType of a type in the AST. Raises TypeProblem if columns can't have it.

    >>> import sqlglot
    >>> print(sql_type_of(sqlglot.parse_one("CAST(x AS MAP(VARCHAR, DECIMAL(10,2)[]))", dialect="duckdb").to))
    MAP(VARCHAR, DECIMAL(10,2)[])
    """
    if isinstance(node, exp.Interval):
        return INTERVAL
    if not isinstance(node, exp.DataType):
        raise _unknown(node)
    kind, inside = node.this, node.expressions
    if kind in _SIMPLE:
        if inside and not (kind in _SIZED and len(inside) == 1 and _is_size(inside[0])):
            raise _unknown(node)
        if kind in _TIMES and inside and int(inside[0].name) > _MICROSECONDS:
            raise TypeProblem(
                node,
                problems.UNKNOWN_TYPE,
                f"{node.sql(dialect='duckdb')}: time is kept in microseconds",
                help=f"write a precision of at most {_MICROSECONDS}, or TIMESTAMP_NS",
            )
        return _SIMPLE[kind]
    if kind in _DECIMALS:
        if len(inside) > 2 or not all(map(_is_size, inside)):
            raise _unknown(node)
        sizes = [int(parameter.name) for parameter in inside]
        precision, scale = [*sizes, 0][:2] if sizes else (18, 3)
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise TypeProblem(
                node,
                problems.UNKNOWN_TYPE,
                f"DECIMAL({precision},{scale}): 1 to 38 digits, the scale at most as many",
            )
        return decimal(precision, scale)
    if kind in (_T.ARRAY, _T.LIST) and len(inside) == 1 and _array_size(node) is not None:
        return array(sql_type_of(inside[0]))
    if kind is _T.ENUM:
        return _enum(node)
    if kind is _T.MAP and len(inside) == 2:
        return map_of(sql_type_of(inside[0]), sql_type_of(inside[1]))
    if kind is _T.STRUCT and inside:
        return struct(*((field.name, sql_type_of(field.args["kind"])) for field in inside))
    if node.args.get("kind") == TUPLE and inside:
        return tuple_of(*map(sql_type_of, inside))
    if kind in _NOT_KEPT:
        why, instead = _NOT_KEPT[kind]
        raise TypeProblem(node, problems.UNKNOWN_TYPE, f"{_written(node)}: {why}", help=instead)
    raise _unknown(node)


def exact_type(node: exp.Expr) -> str:
    """A type that columns can have as DuckDB writes it, with what its SqlType leaves out.

    That is the size of an array and the digits of TIMESTAMP_S and TIMESTAMP_MS: a cast to this type checks and rounds,
    and its value is then one of the SqlType.

    >>> import sqlglot
    >>> exact_type(sqlglot.parse_one("CAST(x AS STRUCT(a INT[3], b TIMESTAMP_S, c TIMESTAMP[]))", dialect="duckdb").to)
    'STRUCT("a" INTEGER[3], "b" TIMESTAMP_S, "c" TIMESTAMP[])'
    """
    known = sql_type_of(node)
    inside = node.expressions
    if node.this in _ROUNDED:
        return str(node.this.value)
    if known.kind is Kind.ARRAY:
        return f"{exact_type(inside[0])}[{_array_size(node) or ''}]"
    if known.kind is Kind.MAP:
        return f"MAP({exact_type(inside[0])}, {exact_type(inside[1])})"
    if known.kind is Kind.TUPLE:
        return f"TUPLE({', '.join(map(exact_type, inside))})"
    if known.kind is Kind.STRUCT:
        fields = (f"{quote_identifier(f.name)} {exact_type(f.args['kind'])}" for f in inside)
        return f"STRUCT({', '.join(fields)})"
    return str(known)


def seconds_digits(node: exp.DataType) -> int | None:
    """How many digits of a second a type of times is written with, None if it is left out."""
    if node.this in _ROUNDED:
        return _ROUNDED[node.this]
    return int(node.expressions[0].name) if node.expressions else None


def _enum(node: exp.DataType) -> SqlType:
    labels = node.expressions
    if not labels or not all(isinstance(label, exp.Literal) and label.is_string for label in labels):
        raise TypeProblem(
            node, problems.UNKNOWN_TYPE, "an ENUM is written with its texts", help="write ENUM('a', 'b')"
        )
    names = [label.name for label in labels]
    twice = next((label for label in labels if names.count(label.name) > 1), None)
    if twice is not None:
        raise TypeProblem(twice, problems.UNKNOWN_TYPE, f"'{twice.name}' stands twice in an ENUM")
    return enum(*names)


def _array_size(node: exp.Expr) -> int | None:
    """How many elements an array has, 0 if any number; None if DuckDB has no array of such a size."""
    sizes = node.args.get("values") or []
    if not sizes:
        return 0
    size = int(sizes[0].name) if len(sizes) == 1 and _is_size(sizes[0]) else 0
    return size if 0 < size <= _LARGEST_ARRAY else None


def _is_size(parameter: exp.Expr) -> bool:
    """Whether a parameter of a type is a whole number: not 2.5, NULL, 'x' or MAX."""
    value = parameter.this if isinstance(parameter, exp.DataTypeParam) else parameter
    return isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdecimal()


def _written(node: exp.Expr) -> str:
    if isinstance(node, exp.DataType) and node.this is _T.JSONB:
        return "JSONB"  # DuckDB's dialect writes JSON for it
    if isinstance(node, exp.DataType) and node.this is _T.UINT128:
        return "UHUGEINT"
    return node.sql(dialect=OwnSql)


def _unknown(node: exp.Expr) -> TypeProblem:
    names = sorted(
        {str(t) for t in _SIMPLE.values()}
        | {"DECIMAL(p, s)", "t[]", "t[n]", "ENUM('a', …)", "MAP(k, v)", "STRUCT(name t, …)"}
    )
    return TypeProblem(
        node,
        problems.UNKNOWN_TYPE,
        f"there is no type `{_written(node)}`",
        ("types: " + ", ".join(names),),
        "write JSON" if isinstance(node, exp.DataType) and node.this is _T.JSONB else None,
    )


def nulls_as(type_: SqlType, other: SqlType) -> SqlType:
    """The type with `other` wherever there are only NULLs.

    >>> str(nulls_as(SqlType(Kind.ARRAY, element=SqlType(Kind.NULL)), SqlType(Kind.INTEGER)))
    'INTEGER[]'
    """
    if type_.kind is Kind.NULL:
        return other
    return replace(
        type_,
        element=type_.element and nulls_as(type_.element, other),
        key=type_.key and nulls_as(type_.key, other),
        value=type_.value and nulls_as(type_.value, other),
        fields=tuple((name, nulls_as(t, other)) for name, t in type_.fields),
    )


def as_type(value: exp.Expr, type_: SqlType) -> exp.Cast:
    """A cast of a value, also of one that is a cast: sqlglot's own leaves out that of INT[] to VARCHAR[], say.

    >>> as_type(exp.column("a"), SqlType(Kind.INTEGER)).sql()
    'CAST(a AS INT)'
    """
    return exp.Cast(this=value.copy(), to=data_type(spelled(type_)))
