"""SQL types as plain data, shared by the planner, the state schemas and the operators.

A type prints as DuckDB spells it (`SqlType.__str__`) and is read back by `parse_type`, so a type is
stored in plans, manifests and state schemas as that text. TIMESTAMP is microseconds without a zone,
TIMESTAMP WITH TIME ZONE is a UTC instant in microseconds (Flink's TIMESTAMP_LTZ).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Kind(StrEnum):
    """The kind of a type; the value is DuckDB's name of it."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    HUGEINT = "HUGEINT"
    UTINYINT = "UTINYINT"
    USMALLINT = "USMALLINT"
    UINTEGER = "UINTEGER"
    UBIGINT = "UBIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    VARCHAR = "VARCHAR"
    BLOB = "BLOB"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMP WITH TIME ZONE"
    TIMESTAMP_NS = "TIMESTAMP_NS"
    TIMETZ = "TIME WITH TIME ZONE"
    INTERVAL = "INTERVAL"
    UUID = "UUID"
    JSON = "JSON"
    BIT = "BIT"
    ENUM = "ENUM"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"
    TUPLE = "TUPLE"
    NULL = "NULL"
    UNKNOWN = "UNKNOWN"


#: Kinds of types that have others inside.
NESTED = frozenset({Kind.ARRAY, Kind.MAP, Kind.STRUCT, Kind.TUPLE})
#: Kinds whose values are rows of fields.
ROWS = frozenset({Kind.STRUCT, Kind.TUPLE})
_SIMPLE = frozenset(Kind) - NESTED - {Kind.DECIMAL, Kind.ENUM}


@dataclass(frozen=True, slots=True)
class SqlType:
    """One SQL type.

    `precision` and `scale` belong to DECIMAL; `element` to ARRAY; `labels` to ENUM, in their order; `key` and `value`
    to MAP; `fields` to
    STRUCT and to TUPLE, whose fields have no names in SQL: here and in Arrow they are element1, element2 and so on, as
    DuckDB exports them. `NULL` is the type of the literal NULL; `UNKNOWN` is what the planner could not infer.

    >>> str(SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL, precision=10, scale=2)))
    'DECIMAL(10,2)[]'
    """

    kind: Kind
    precision: int | None = None
    scale: int | None = None
    element: SqlType | None = None
    key: SqlType | None = None
    value: SqlType | None = None
    fields: tuple[tuple[str, SqlType], ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        match self.kind:
            case Kind.DECIMAL:
                if (
                    self.precision is None
                    or self.scale is None
                    or not 0 <= self.scale <= self.precision <= 38
                ):
                    raise ValueError(
                        f"DECIMAL({self.precision},{self.scale}): needs 0 <= scale <= precision <= 38"
                    )
            case Kind.ARRAY:
                if self.element is None:
                    raise ValueError("ARRAY needs an element type")
            case Kind.ENUM:
                if not self.labels:
                    raise ValueError("ENUM needs at least one label")
            case Kind.MAP:
                if self.key is None or self.value is None:
                    raise ValueError("MAP needs a key type and a value type")
            case Kind.STRUCT | Kind.TUPLE:
                if not self.fields:
                    raise ValueError(f"{self.kind} needs at least one field")

    def __str__(self) -> str:
        match self.kind:
            case Kind.DECIMAL:
                return f"DECIMAL({self.precision},{self.scale})"
            case Kind.ARRAY:
                return f"{self.element}[]"
            case Kind.ENUM:
                return f"ENUM({', '.join(map(quote_literal, self.labels))})"
            case Kind.MAP:
                return f"MAP({self.key}, {self.value})"
            case Kind.STRUCT:
                inside = ", ".join(f"{quote_identifier(name)} {type_}" for name, type_ in self.fields)
                return f"STRUCT({inside})"
            case Kind.TUPLE:
                return f"TUPLE({', '.join(str(type_) for _, type_ in self.fields)})"
            case _:
                return self.kind.value

    def has(self, kind: Kind) -> bool:
        """Whether it is of a kind, or values of that kind are in its values."""
        inside = (self.element, self.key, self.value, *(t for _, t in self.fields))
        return self.kind is kind or any(t is not None and t.has(kind) for t in inside)

    @property
    def is_known(self) -> bool:
        """Whether neither it nor a type inside it is UNKNOWN."""
        inside = (self.element, self.key, self.value, *(type_ for _, type_ in self.fields))
        return self.kind is not Kind.UNKNOWN and all(t is None or t.is_known for t in inside)

    @property
    def is_integer(self) -> bool:
        """Whether this is one of the integer types."""
        return self.kind in INTEGERS

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self.is_integer or self.kind in (Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)

    @property
    def is_timestamp(self) -> bool:
        """Whether it may be an event-time attribute."""
        return self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


INTEGERS = (
    Kind.TINYINT,
    Kind.SMALLINT,
    Kind.INTEGER,
    Kind.BIGINT,
    Kind.HUGEINT,
    Kind.UTINYINT,
    Kind.USMALLINT,
    Kind.UINTEGER,
    Kind.UBIGINT,
)

BOOLEAN = SqlType(Kind.BOOLEAN)
TINYINT = SqlType(Kind.TINYINT)
SMALLINT = SqlType(Kind.SMALLINT)
INTEGER = SqlType(Kind.INTEGER)
BIGINT = SqlType(Kind.BIGINT)
HUGEINT = SqlType(Kind.HUGEINT)
FLOAT = SqlType(Kind.FLOAT)
DOUBLE = SqlType(Kind.DOUBLE)
VARCHAR = SqlType(Kind.VARCHAR)
BLOB = SqlType(Kind.BLOB)
DATE = SqlType(Kind.DATE)
TIME = SqlType(Kind.TIME)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
TIMESTAMPTZ = SqlType(Kind.TIMESTAMPTZ)
TIMESTAMP_NS = SqlType(Kind.TIMESTAMP_NS)
TIMETZ = SqlType(Kind.TIMETZ)
INTERVAL = SqlType(Kind.INTERVAL)
UUID = SqlType(Kind.UUID)
JSON = SqlType(Kind.JSON)
BIT = SqlType(Kind.BIT)
NULL = SqlType(Kind.NULL)
UNKNOWN = SqlType(Kind.UNKNOWN)


def decimal(precision: int, scale: int) -> SqlType:
    """DECIMAL(precision, scale)."""
    return SqlType(Kind.DECIMAL, precision=precision, scale=scale)


def array(element: SqlType) -> SqlType:
    """An array (DuckDB: LIST) of `element`."""
    return SqlType(Kind.ARRAY, element=element)


def enum(*labels: str) -> SqlType:
    """An ENUM of texts, in their order."""
    return SqlType(Kind.ENUM, labels=labels)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    """A map from `key` to `value`."""
    return SqlType(Kind.MAP, key=key, value=value)


def struct(*fields: tuple[str, SqlType]) -> SqlType:
    """A struct (Flink: ROW) of named fields, in order."""
    return SqlType(Kind.STRUCT, fields=fields)


def tuple_of(*types: SqlType) -> SqlType:
    """A row without names, such as `(a, b)` and `ROW(a, b)`.

    >>> str(tuple_of(INTEGER, VARCHAR))
    'TUPLE(INTEGER, VARCHAR)'
    """
    return SqlType(Kind.TUPLE, fields=tuple((f"element{n}", type_) for n, type_ in enumerate(types, 1)))


def quote_identifier(name: str) -> str:
    """Quote an identifier for DuckDB.

    >>> print(quote_identifier('a "b" c'))
    "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as a literal of DuckDB's SQL.

    >>> print(quote_literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def spelled(type_: SqlType) -> str:
    """A type as DuckDB's SQL has it, also where there are only NULLs, whose type is not DuckDB's word NULL.

    >>> spelled(tuple_of(INTEGER, array(NULL)))
    'TUPLE(INTEGER, "NULL"[])'
    """
    match type_.kind:
        case Kind.NULL:
            return '"NULL"'
        case Kind.ARRAY:
            assert type_.element is not None
            return f"{spelled(type_.element)}[]"
        case Kind.MAP:
            assert type_.key is not None
            assert type_.value is not None
            return f"MAP({spelled(type_.key)}, {spelled(type_.value)})"
        case Kind.STRUCT:
            inside = ", ".join(f"{quote_identifier(name)} {spelled(t)}" for name, t in type_.fields)
            return f"STRUCT({inside})"
        case Kind.TUPLE:
            return f"TUPLE({', '.join(spelled(t) for _, t in type_.fields)})"
        case _:
            return str(type_)


_TOKEN = re.compile(r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[A-Za-z_][A-Za-z_0-9]*|\d+|\[\]|[(),])""")


@lru_cache(4096)
def parse_type(text: str) -> SqlType:
    """Read back what `str(SqlType)` wrote. Raises ValueError on anything else.

    >>> parse_type("ENUM('a', 'b')[]") == array(enum("a", "b"))
    True
    """
    tokens = []
    position = 0
    while position < len(text.rstrip()):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"not a type: {text!r}")
        tokens.append(found.group(1))
        position = found.end()
    type_, rest = _parse(tokens, text)
    if rest:
        raise ValueError(f"not a type: {text!r}")
    return type_


def _parse(tokens: list[str], text: str) -> tuple[SqlType, list[str]]:
    def fail() -> ValueError:
        return ValueError(f"not a type: {text!r}")

    def expect(token: str, rest: list[str]) -> list[str]:
        if not rest or rest[0] != token:
            raise fail()
        return rest[1:]

    if not tokens:
        raise fail()
    head, rest = tokens[0], tokens[1:]
    if head == "TIMESTAMP" and rest[:3] == ["WITH", "TIME", "ZONE"]:
        type_, rest = TIMESTAMPTZ, rest[3:]
    elif head == "TIME" and rest[:3] == ["WITH", "TIME", "ZONE"]:
        type_, rest = TIMETZ, rest[3:]
    elif head == "ENUM":
        rest = expect("(", rest)
        labels = []
        while rest and rest[0].startswith("'"):
            labels.append(rest[0][1:-1].replace("''", "'"))
            rest = rest[2:] if rest[1:2] == [","] else rest[1:]
        type_, rest = enum(*labels), expect(")", rest)
    elif head == "DECIMAL":
        if len(rest) < 5:
            raise fail()
        type_, rest = decimal(int(rest[1]), int(rest[3])), expect(")", rest[4:])
    elif head == "MAP":
        key, rest = _parse(expect("(", rest), text)
        value, rest = _parse(expect(",", rest), text)
        type_, rest = map_of(key, value), expect(")", rest)
    elif head == "STRUCT":
        rest = expect("(", rest)
        fields = []
        while True:
            if not rest:
                raise fail()
            name = rest[0][1:-1].replace('""', '"') if rest[0].startswith('"') else rest[0]
            field, rest = _parse(rest[1:], text)
            fields.append((name, field))
            if rest[:1] != [","]:
                break
            rest = rest[1:]
        type_, rest = struct(*fields), expect(")", rest)
    elif head == "TUPLE":
        rest = expect("(", rest)
        inside = []
        while True:
            field, rest = _parse(rest, text)
            inside.append(field)
            if rest[:1] != [","]:
                break
            rest = rest[1:]
        type_, rest = tuple_of(*inside), expect(")", rest)
    else:
        try:
            kind = Kind(head)
        except ValueError:
            raise fail() from None
        if kind not in _SIMPLE:
            raise fail()
        type_ = SqlType(kind)
    while rest[:1] == ["[]"]:
        type_, rest = array(type_), rest[1:]
    return type_, rest
