"""Which columns are read, as which types, and how they become the declared ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from sqlstream.connectors.filesystem.file_version import other_shape
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream_operators.errors import DataError, InputFileError, InternalError
from sqlstream_operators.plan.spec import Column, Schema, SourceSpec
from sqlstream_operators.plan.types import (
    JSON,
    TIMESTAMPTZ,
    VARCHAR,
    Kind,
    SqlType,
    quote_identifier,
    quote_literal,
)

#: How many decimal digits a double always keeps.
EXACT_DIGITS = 15
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
METADATA_KEYS = ("file.path", "file.name", "file.size", "file.modification-time")


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """What a reader delivers: `columns` that are in the files (types without the nested fields that nobody
    needs), `partitions` whose values are in the paths, then metadata. `declared`: all columns in the files.
    """

    columns: Schema
    partitions: Schema
    declared: tuple[str, ...]
    spec: SourceSpec

    @property
    def schema(self) -> Schema:
        """The schema of the relation."""
        return self.columns + self.partitions + tuple(Column(m.name, m.type) for m in self.spec.metadata)

    @classmethod
    def of(cls, spec: SourceSpec) -> ReadColumns:
        """The columns of a source, in the order in which it wants them."""
        declared = {column.name: column for column in spec.physical}
        apart = {name.lower() for name in spec.partitioned_by}
        columns = tuple(
            replace(declared[name], type=prune(declared[name].type, paths_of(name, spec.needed_paths)))
            for name in spec.columns
        )
        return cls(
            columns=tuple(column for column in columns if column.name.lower() not in apart),
            partitions=tuple(column for column in columns if column.name.lower() in apart),
            declared=tuple(column.name for column in spec.physical if column.name.lower() not in apart),
            spec=spec,
        )

    def constants(self, entries: Sequence[FileEntry]) -> list[str]:
        """SELECT items of partition and metadata columns, for files that DuckDB numbers in this order
        (`file_index`). Raises DataError for a file outside of its partitions' folders.
        """
        default = self.spec.options.get("partition.default-name", DEFAULT_PARTITION)
        items = []
        for column in self.partitions:
            values = [partition_literal(column.name, entry, default) for entry in entries]
            typed = cast_from(VARCHAR, _picked(values), column.type)
            items.append(f"{typed} AS {quote_identifier(column.name)}")
        for metadata in self.spec.metadata:
            values = [metadata_literal(metadata.key, entry) for entry in entries]
            items.append(f"CAST({_picked(values)} AS {metadata.type}) AS {quote_identifier(metadata.name)}")
        return items


def _picked(values: Sequence[str]) -> str:
    if len(set(values)) == 1:
        return values[0]
    return f"[{', '.join(values)}][file_index::BIGINT + 1]"


def partition_literal(name: str, entry: FileEntry, default: str) -> str:
    """The text of a partition column as SQL, from a folder `name=value` of the path; `default` means NULL.

    >>> partition_literal("k", FileEntry("/d/k=a%2Fb/x.json", 1, 0), DEFAULT_PARTITION)
    "'a/b'"
    """
    for folder in reversed(entry.path.split("/")[:-1]):
        key, found, value = folder.partition("=")
        if found and unquote(key).lower() == name.lower():
            return "NULL::VARCHAR" if value == default else quote_literal(unquote(value))
    raise InputFileError(
        f"{entry.path}: is not in a folder '{name}=…' though the table is partitioned by {name}",
        other_shape(entry.path),
    )


def paths_of(column: str, needed: Sequence[str]) -> tuple[str, ...]:
    """The nested paths below `column`; () means all of it.

    >>> paths_of("bid", ["bid.price", "bid.a.b", "auction"])
    ('price', 'a.b')
    """
    if column in needed or "." in column:
        return ()
    return tuple(path[len(column) + 1 :] for path in needed if path.startswith(f"{column}."))


def prune(type_: SqlType, paths: Sequence[str]) -> SqlType:
    """A struct type with only the fields on `paths` (all of them if there is no path or a path leads
    nowhere).

    >>> from sqlstream_operators.plan.types import parse_type
    >>> str(prune(parse_type("STRUCT(a INTEGER, b VARCHAR)"), ["b"]))
    'STRUCT("b" VARCHAR)'
    """
    if type_.kind is not Kind.STRUCT or not paths:
        return type_
    names = {name for name, _ in type_.fields}
    heads = {path.partition(".")[0] for path in paths}
    if not heads <= names or any("." in name for name in names):
        return type_
    fields = tuple((n, prune(t, paths_of(n, paths))) for n, t in type_.fields if n in heads)
    return SqlType(Kind.STRUCT, fields=fields)


def text_type(type_: SqlType, *, json: bool = False) -> SqlType:
    """The type as which text is read so that `from_text` gives `type_`.

    TIMESTAMP is read as TIMESTAMP WITH TIME ZONE: DuckDB's cast from text to TIMESTAMP drops a zone offset
    silently, and this one applies it (the session's zone is UTC); TIMESTAMP_NS is read as text for the same. In JSON
    (`json`) BLOB is base64, and what JSON has no values of is text.
    """
    match type_.kind:
        case Kind.TIMESTAMP:
            return TIMESTAMPTZ
        case Kind.TIMESTAMP_NS:
            return VARCHAR
        case Kind.BLOB | Kind.BIT | Kind.ENUM | Kind.TIMETZ if json:
            return VARCHAR
        case Kind.DECIMAL if json and (type_.precision or 0) > EXACT_DIGITS:
            return JSON
        case Kind.ARRAY if type_.element is not None:
            return replace(type_, element=text_type(type_.element, json=json))
        case Kind.MAP if type_.key is not None and type_.value is not None:
            key, value = (text_type(part, json=json) for part in (type_.key, type_.value))
            return replace(type_, key=key, value=value)
        case Kind.STRUCT:
            fields = ((name, text_type(field, json=json)) for name, field in type_.fields)
            return replace(type_, fields=tuple(fields))
    return type_


def from_text(value: str, type_: SqlType, *, json: bool = False, depth: int = 0) -> str:
    """SQL that makes `type_` of a value of `text_type(type_)`.

    Not by CAST: DuckDB pushes a cast into its CSV reader, which then reads a TIMESTAMP from the text; and
    make_timestamp is 18 times as fast. The cast is left for infinity, which has no µs.
    """
    if text_type(type_, json=json) == type_:
        return value

    def each(values: str, inner: SqlType) -> str:
        made = from_text(f"e{depth}", inner, json=json, depth=depth + 1)
        return values if made == f"e{depth}" else f"list_transform({values}, lambda e{depth}: {made})"

    match type_.kind:
        case Kind.TIMESTAMP:
            return f"coalesce(make_timestamp(epoch_us({value})), CAST({value} AS TIMESTAMP))"
        case Kind.TIMESTAMP_NS:
            offset = f"epoch_us(CAST({value} AS TIMESTAMP)) - epoch_us(CAST({value} AS TIMESTAMPTZ))"
            local = f"CAST({value} AS TIMESTAMP_NS)"
            return f"coalesce(make_timestamp_ns(epoch_ns({local}) - 1000 * ({offset})), {local})"
        case Kind.BIT | Kind.ENUM | Kind.TIMETZ:
            return f"CAST({value} AS {type_})"
        case Kind.BLOB:
            return f"from_base64({value})"
        case Kind.DECIMAL:
            return _exact_decimal(value, type_)
        case Kind.STRUCT:
            fields = []
            for name, field in type_.fields:
                part = f"struct_extract({value}, {quote_literal(name)})"
                fields.append(f"{quote_identifier(name)} := {from_text(part, field, json=json, depth=depth)}")
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
        case Kind.ARRAY if type_.element is not None:
            return each(value, type_.element)
        case Kind.MAP if type_.key is not None and type_.value is not None:
            keys, values = each(f"map_keys({value})", type_.key), each(f"map_values({value})", type_.value)
            return f"CASE WHEN {value} IS NOT NULL THEN map({keys}, {values}) END"
    raise InternalError(f"{type_} is read as it is")


def _exact_decimal(value: str, type_: SqlType) -> str:
    """SQL of a DECIMAL from a JSON value; it fails for a number whose digits DuckDB's JSON reader has lost.

    The reader makes a double of every number with a point or an exponent. Its shortest text is what was
    written as long as that has at most 15 digits; strings and whole numbers are exact.
    """
    text = f"CAST({value} AS VARCHAR)"
    digits = f"regexp_replace(regexp_replace(split_part({text}, 'e', 1), '^-?[0.]*', ''), '[^0-9]', '', 'g')"
    inexact = (
        f"((length({text}) > {EXACT_DIGITS} AND contains({text}, '.')) OR contains({text}, 'e')) AND "
        f"(length({digits}) > {EXACT_DIGITS} OR abs(CAST({text} AS DOUBLE)) >= 1e{EXACT_DIGITS})"
    )
    return (
        f"CASE WHEN starts_with({text}, '\"') THEN CAST({value} ->> '$' AS {type_}) "
        f"WHEN {inexact} THEN CAST('inexact: ' || {text} AS {type_}) "
        f"ELSE CAST({text} AS {type_}) END"
    )


def text_item(column: Column, *, json: bool = False) -> str:
    """The SELECT item of a declared column that was read as `text_type` of it."""
    name = quote_identifier(column.name)
    value = from_text(name, column.type, json=json)
    return name if value == name else f"{value} AS {name}"


def column_map(columns: Mapping[str, SqlType]) -> str:
    """The `columns` argument of read_json and read_csv."""
    return "{" + ", ".join(f"{quote_literal(n)}: {quote_literal(str(t))}" for n, t in columns.items()) + "}"


def cast_from(source: SqlType | None, expression: str, target: SqlType) -> str:
    """SQL that makes `target` of an expression of type `source` (None: a type that has no name here)."""
    if source == target:
        return expression
    if source == VARCHAR and text_type(target) != target:
        return from_text(f"CAST({expression} AS {text_type(target)})", target)
    if source == TIMESTAMPTZ and target.kind is Kind.TIMESTAMP:
        return from_text(expression, target)
    return f"CAST({expression} AS {target})"


def match_names(declared: Sequence[str], present: Sequence[str], where: str) -> dict[str, str | None]:
    """The name in the file of each declared column, ignoring case; None where the file has no such column.

    Raises DataError if the file has several such columns.
    """
    by_lower: dict[str, list[str]] = {}
    for name in present:
        by_lower.setdefault(name.lower(), []).append(name)
    found: dict[str, str | None] = {}
    for name in declared:
        names = by_lower.get(name.lower(), [])
        if len(names) > 1:
            raise InputFileError(
                f"{where}: column {name} could be any of {', '.join(names)}", other_shape(where)
            )
        found[name] = names[0] if names else None
    return found


def metadata_literal(key: str, entry: FileEntry) -> str:
    """The value of a metadata column for one file, as SQL. Raises DataError for an unknown key."""
    match key:
        case "file.path":
            return quote_literal(entry.path)
        case "file.name":
            return quote_literal(entry.path.rpartition("/")[2])
        case "file.size":
            return f"{entry.size}::BIGINT"
        case "file.modification-time":
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=entry.modified_us)
            return f"TIMESTAMPTZ {quote_literal(moment.isoformat(' '))}"
    raise DataError(f"no metadata column '{key}': files have {', '.join(METADATA_KEYS)}")


def file_list(paths: Sequence[str]) -> str:
    """A list of files for DuckDB's readers, which take some characters for a glob.

    >>> file_list(["/a/b[1].json"])
    "['/a/b[[]1].json']"
    """
    escaped = (p.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") for p in paths)
    return "[" + ", ".join(quote_literal(p) for p in escaped) + "]"
