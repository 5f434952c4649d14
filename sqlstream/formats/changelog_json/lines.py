"""Changes as JSON messages, one per line: what Debezium, Canal and Maxwell write of a database, and changelog-json.

Each message becomes one row for each change of a row, with KIND_COLUMN behind the other columns. A message is
read with the types of the table's columns; one that can't be used makes the whole SELECT fail, and is then
found by `json_lines.lenient`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.beside import Beside
from sqlstream.formats.changelog_json.metadata import METADATA_OF, MetadataField
from sqlstream.formats.json.lenient import SKIPPED
from sqlstream.formats.json.lines import (
    NO_KEY,
    acceptable,
    json_objects,
    pointer,
    read_json,
    repeated,
    unacceptable,
)
from sqlstream.formats.options import bad_option, flag
from sqlstream.formats.patterns import wrong_re2_pattern
from sqlstream.formats.values import text_item, text_type
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import KIND_COLUMN, Column, Schema
from sqlstream_operators.plan.types import (
    JSON,
    VARCHAR,
    SqlType,
    array,
    quote_identifier,
    quote_literal,
    struct,
)

_INSERT, _UPDATE, _DELETE = "['+I']", "['-U', '+U']", "['-D']"
_UPSERT, _NONE = "['+U']", "[NULL]"
_WRAPPED = "'debezium-json.schema-include' = 'true' reads messages that are wrapped in schema and payload"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a format says what changed.

    `kinds`: the kinds of change for each value of `op`; `skipped`: values of it that change no row. `before`
    and `after` are the keys of the two images. With `patch`, `before` holds only the values that an update
    changed, and a deleted row is in `after`; with `several`, images are arrays of rows.
    """

    op: str
    kinds: Mapping[str, str]
    after: str
    before: str | None = None
    patch: bool = False
    several: bool = False
    skipped: tuple[str, ...] = ()


DIALECTS: Mapping[str, Dialect] = {
    "debezium-json": Dialect(
        "op", {"c": _INSERT, "r": _INSERT, "u": _UPDATE, "d": _DELETE}, after="after", before="before"
    ),
    "changelog-json": Dialect("op", {kind: f"['{kind}']" for kind in ("+I", "-U", "+U", "-D")}, after="data"),
    "canal-json": Dialect(
        "type",
        {"INSERT": _INSERT, "INIT": _INSERT, "UPDATE": _UPDATE, "DELETE": _DELETE},
        after="data",
        before="old",
        patch=True,
        several=True,
        skipped=("CREATE",),
    ),
    "maxwell-json": Dialect(
        "type",
        {"insert": _INSERT, "bootstrap-insert": _INSERT, "update": _UPDATE, "delete": _DELETE},
        after="data",
        before="old",
        patch=True,
        skipped=("bootstrap-start", "bootstrap-complete"),
    ),
}


def strict_table(duck: DuckSession, lines: ChangelogLines, paths: Sequence[str], beside: Beside) -> pa.Table:
    """The changes in files in order. Raises DataError if any message can't be used."""
    lines = replace(lines, tombstones=True)
    table = duck.query(lines.select(paths, beside))
    kinds = table.column(KIND_COLUMN)
    if kinds.null_count:
        # Messages with nothing in them. DuckDB gives the same for `null` and for a message with other keys.
        found = duck.query(f"SELECT count(*) AS n FROM {json_objects(paths)} WHERE {lines.tombstone}")
        if found["n"].to_pylist() != [kinds.null_count]:
            raise DataError(f"a message has no '{lines.dialect.op}'")
        table = table.filter(pc.is_valid(kinds))
    return table


@dataclass(frozen=True, slots=True)
class ChangelogLines:
    """A line is a message of the format; see `LineFormat`.

    `upsert`: an update can do without its 'before' image, since a key says which row it replaces. `wrapped`: messages are
    in `payload` beside their `schema`. `matching`: the keys of a message whose values must match a pattern (RE2), others
    are skipped. `metadata` are what messages say beside rows, and the columns for it. With `tombstones` a message of NULLs
    gives a row without a kind.
    """

    format: str
    columns: Schema
    upsert: bool = False
    wrapped: bool = False
    matching: Mapping[str, str] = field(default_factory=dict)
    metadata: tuple[tuple[MetadataField, Column], ...] = ()
    tombstones: bool = False

    @classmethod
    def of(
        cls,
        format_: str,
        columns: Schema,
        options: Mapping[str, str],
        primary_key: Sequence[str],
        metadata: Sequence[tuple[str, Column]] = (),
    ) -> ChangelogLines:
        """The lines of a table with these options. Raises DiagnosticError for a value that can't be used."""
        matching = {key: options.get(f"canal-json.{key}.include") for key in ("database", "table")}
        patterns = {key: text for key, text in matching.items() if text is not None}
        for key, text in patterns.items():
            wrong = wrong_re2_pattern(text)
            if wrong is not None:
                raise bad_option(f"canal-json.{key}.include", text, wrong)
        return cls(
            format_,
            columns,
            upsert=bool(primary_key),
            wrapped=format_ == "debezium-json" and flag(options, "debezium-json.schema-include"),
            matching=patterns if format_ == "canal-json" else {},
            metadata=tuple((METADATA_OF[format_][key], column) for key, column in metadata),
        )

    @property
    def dialect(self) -> Dialect:
        """How the format says what changed."""
        return DIALECTS[self.format]

    @property
    def types(self) -> list[SqlType]:
        """The types of the columns that are read."""
        return [column.type for column in self.columns]

    @property
    def asks_each_line(self) -> bool:
        """Whether `cases` refuses lines that `select` would read."""
        return False

    @property
    def tombstone(self) -> str:
        """SQL over a column `json`: whether it is a message without content, as Kafka has them."""
        wrapped = " OR json_type(json, '/payload') = 'NULL'" if self.wrapped else ""
        return f"(json_type(json) = 'NULL'{wrapped})"

    @property
    def _row(self) -> SqlType:
        return struct(*((c.name, c.type) for c in self.columns)) if self.types else struct((NO_KEY, VARCHAR))

    def select(self, paths: Sequence[str], beside: Beside) -> str:
        """A SELECT over the files in order; it fails when it is run if any message can't be used."""
        beside = self._with_metadata(beside)
        names = [quote_identifier(column.name) for column in self.columns]
        raw = "".join(
            f"{self._value(column.name)} AS {name}, "
            for name, column in zip(names, self.columns, strict=True)
        )
        items = [*(text_item(column, json=True) for column in self.columns), *beside.items, KIND_COLUMN]
        return (
            f"SELECT {', '.join(items)} FROM (SELECT {raw}{KIND_COLUMN}{beside.names} FROM "
            f"(SELECT *, unnest({self._kinds()}) AS {KIND_COLUMN} FROM ({self._changes(paths, beside)})))"
        )

    def _with_metadata(self, beside: Beside) -> Beside:
        """What is beside, and the message's metadata."""
        items, carried = list(beside.items), dict(beside.carried)
        for number, (meta, column) in enumerate(self.metadata):
            value = quote_identifier(meta.key)
            if meta.around:
                value = value if self.wrapped else f"CAST(NULL AS {JSON})"
            elif self.wrapped:
                value = f"struct_extract(payload, {quote_literal(meta.key)})"
            if meta.key in self.matching:  # which is read as text
                value = f"to_json({value})"
            carried[f"__metadata_{number}"] = meta.of(value)
            items.append(f"CAST(__metadata_{number} AS {column.type}) AS {quote_identifier(column.name)}")
        return Beside(tuple(items), carried)

    def _value(self, name: str) -> str:
        """SQL of a column, before its conversion from text, of the change of this KIND_COLUMN."""
        after, before = (f"struct_extract({image}, {quote_literal(name)})" for image in ("after", "before"))
        if self.dialect.before is None:
            return after
        if self.dialect.patch:
            changed = f"{KIND_COLUMN} = '-U' AND json_exists(patch, {quote_literal(pointer(name))})"
            return f"CASE WHEN {changed} THEN {before} ELSE {after} END"
        return f"CASE WHEN {KIND_COLUMN} IN ('-U', '-D') THEN {before} ELSE {after} END"

    def _kinds(self) -> str:
        """SQL of the list of changes that a row of `_changes` is."""
        cases = []
        for op, kinds in self.dialect.kinds.items():
            if kinds == _UPDATE and self.upsert:
                image = "patch" if self.dialect.patch else "before"
                kinds = f"CASE WHEN {image} IS NULL THEN {_UPSERT} ELSE {_UPDATE} END"
            cases.append(f"WHEN {quote_literal(op)} THEN {kinds}")
        return f"CASE op {' '.join(cases)} ELSE {_NONE} END"

    def _changes(self, paths: Sequence[str], beside: Beside) -> str:
        """SQL of a row for each row that a message is about: `op`, `after`, `before` and, with `patch`, that."""
        dialect, row = self.dialect, text_type(self._row, json=True)
        image = array(row) if dialect.several else row
        columns = {dialect.after: image, dialect.op: VARCHAR}
        if dialect.before is not None and dialect.patch:
            columns[dialect.before] = array(JSON) if dialect.several else JSON
        elif dialect.before is not None:
            columns[dialect.before] = image
        columns.update(dict.fromkeys(self.matching, VARCHAR))
        data_keys = [*columns]
        for meta, _ in self.metadata:
            if not meta.around:
                columns.setdefault(meta.key, JSON)
        if self.wrapped:
            keys = {key: f"struct_extract(payload, {quote_literal(key)})" for key in data_keys}
            columns = {"payload": struct(*columns.items())}
            columns |= {meta.key: JSON for meta, _ in self.metadata if meta.around}
        else:
            keys = {key: quote_identifier(key) for key in data_keys}
        names = {dialect.op: "op", dialect.after: "after"}
        if dialect.before is not None:
            names[dialect.before] = "patch" if dialect.patch else "before"
        items = ", ".join(f"{sql} AS {names.get(key, quote_identifier(key))}" for key, sql in keys.items())
        sql = f"SELECT {items}{beside.carrying} FROM {read_json(paths, columns)}"
        sql = f"SELECT * FROM ({sql}) WHERE {self._verdict()}"
        if dialect.several:
            rows = f"CASE WHEN {self._nothing} THEN [NULL] ELSE after END"
            sql = f"SELECT op, unnest({rows}) AS after, unnest(patch) AS patch{beside.names} FROM ({sql})"
        if dialect.patch:
            made = f"json_transform(patch, {quote_literal(json.dumps(str(row)))}) AS before"
            sql = f"SELECT op, after, patch, {made}{beside.names} FROM ({sql})"
        return sql

    @property
    def _nothing(self) -> str:
        """SQL: whether a message has none of the keys."""
        images = ["after"]
        if self.dialect.before is not None:
            images.append("patch" if self.dialect.patch else "before")
        images += map(quote_identifier, self.matching)
        return " AND ".join(f"{name} IS NULL" for name in ("op", *images))

    def _verdict(self) -> str:
        """SQL: TRUE for a message to be used, FALSE for one to be skipped, and an error for any other."""
        dialect = self.dialect
        skipped = [
            f"NOT regexp_full_match({quote_identifier(k)}, {quote_literal(p)})"
            for k, p in self.matching.items()
        ]
        skipped += [f"op = {quote_literal(op)}" for op in dialect.skipped]
        there = [f"{quote_identifier(key)} IS NOT NULL" for key in self.matching]
        cases = []
        if skipped:
            known = " AND ".join(there) or "true"
            cases.append(f"WHEN {known} AND ({' OR '.join(skipped)}) THEN false")
        for op, kinds in dialect.kinds.items():
            cases.append(
                f"WHEN {' AND '.join([f'op = {quote_literal(op)}', *there, *self._needs(kinds)])} THEN true"
            )
        if self.tombstones:
            cases.append(f"WHEN {self._nothing} THEN true")
        return f"CASE {' '.join(cases)} ELSE error('no change: ' || coalesce(op, 'NULL')) END"

    def _needs(self, kinds: str) -> list[str]:
        """SQL conditions that the images of a message of these kinds meet."""
        dialect = self.dialect
        if not dialect.patch:
            image = "before" if kinds == _DELETE and dialect.before is not None else "after"
            needs = [f"{image} IS NOT NULL"]
            if kinds == _UPDATE and not self.upsert:
                needs.append("before IS NOT NULL")
            return needs
        needs = ["after IS NOT NULL"]
        if dialect.several:
            needs.append("len(list_filter(after, lambda e: e IS NULL)) = 0")
        if kinds != _UPDATE:
            return needs
        check = _patch_of(self._row, "patch", several=dialect.several)
        if dialect.several:
            check = f"len(patch) = len(after) AND {check}"
        absent = "patch IS NULL OR " if self.upsert else "patch IS NOT NULL AND "
        return [*needs, f"({absent}coalesce(TRY({check}), false))"]

    def cases(self) -> list[str]:
        """Why a message can't be used."""
        dialect, root, cases = self.dialect, "t", []
        skip = quote_literal(SKIPPED)
        cases.append(f"WHEN json_type(t) = 'NULL' THEN {skip}")
        cases.append("WHEN json_type(t) <> 'OBJECT' THEN 'not a JSON object but ' || json_type(t)")
        if self.wrapped:
            root = "json_extract(t, '/payload')"
            cases.append(f"WHEN {repeated('t', 'payload')} THEN 'key payload twice'")
            cases.append(f"WHEN json_type({root}) = 'NULL' THEN {skip}")
            no_payload = quote_literal(f"no payload ({_WRAPPED})")
            cases.append(f"WHEN coalesce(json_type({root}), '') <> 'OBJECT' THEN {no_payload}")
        keys = [dialect.op, dialect.after, *([dialect.before] if dialect.before else []), *self.matching]
        keys_of_metadata = {(root if not one.around else "t", one.key) for one, _ in self.metadata}
        once = sorted(
            {(root, key) for key in keys}
            | (keys_of_metadata if self.wrapped else {(root, k) for _, k in keys_of_metadata})
        )
        cases += [f"WHEN {repeated(at, key)} THEN {quote_literal(f'key {key} twice')}" for at, key in once]
        for key, pattern in self.matching.items():
            text = f"json_extract_string({root}, {quote_literal(pointer(key))})"
            cases.append(f"WHEN {text} IS NULL THEN {quote_literal(f'no {key}')}")
            cases.append(f"WHEN NOT regexp_full_match({text}, {quote_literal(pattern)}) THEN {skip}")
        op = f"json_extract_string({root}, {quote_literal(pointer(dialect.op))})"
        if dialect.skipped:
            cases.append(f"WHEN {op} IN ({', '.join(map(quote_literal, dialect.skipped))}) THEN {skip}")
        hint = ""
        if self.format == "debezium-json" and not self.wrapped:
            hint = f" ({_WRAPPED})"
        known = ", ".join(map(quote_literal, dialect.kinds))
        cases.append(f"WHEN {op} IS NULL THEN {quote_literal(f'no {dialect.op}{hint}')}")
        cases.append(
            f"WHEN {op} NOT IN ({known}) THEN {quote_literal(f'unknown {dialect.op}: ')} || left({op}, 50)"
        )
        cases += self._image_cases(root, op, dialect.after)
        if dialect.before is not None:
            cases += self._image_cases(root, op, dialect.before)
        return cases

    def _image_cases(self, root: str, op: str, key: str) -> list[str]:
        """Why an image of a message can't be used."""
        dialect = self.dialect
        image = f"json_extract({root}, {quote_literal(pointer(key))})"
        is_before = key == dialect.before
        shape, kind = ("an array of rows", "ARRAY") if dialect.several else ("a row", "OBJECT")
        missing = f"coalesce(json_type({image}), 'NULL') = 'NULL'"
        cases = [
            f"WHEN {op} IN ({', '.join(map(quote_literal, ops))}) AND {missing} THEN {quote_literal(f'no {key}')}"
            for ops in [self._needed_by(is_before)]
            if ops
        ]
        # A patch is looked at only in an update; everything else must have its type in every message.
        used = f"{op} = {quote_literal(self._update)} AND " if dialect.patch and is_before else ""
        typed = f"{'' if dialect.several else used}NOT ({missing})"
        cases.append(
            f"WHEN {typed} AND json_type({image}) <> '{kind}' THEN {quote_literal(f'{key} is not {shape}')}"
        )
        if dialect.several:
            wrong = quote_literal(f"{key} is not {shape} of the table: ")
            if is_before:
                same = f"json_array_length({image}) = json_array_length({root}, {quote_literal(pointer(dialect.after))})"
                shorter = quote_literal(f"{key} is not of the length of {dialect.after}")
                cases.append(f"WHEN {used}NOT ({missing}) AND NOT {same} THEN {shorter}")
                check = _patch_of(self._row, f"CAST({image} AS JSON[])", several=True)
            else:
                elements = f"CAST({image} AS JSON[])"
                check = f"{_every_row(elements)} AND ({acceptable(image, array(self._row))})"
            refused = f"{used}NOT ({missing}) AND NOT coalesce(TRY({check}), false)"
            return [*cases, f"WHEN {refused} THEN {wrong} || left({image}::VARCHAR, 200)"]
        for column in self.columns:
            cases.append(
                f"WHEN {used}{repeated(image, column.name)} THEN {quote_literal(f'key {column.name} twice in {key}')}"
            )
            cases += [
                branch.replace("WHEN ", f"WHEN {used}", 1)
                for branch in unacceptable(image, column.name, column.type, f"{key}: ")
            ]
        return cases

    @property
    def _update(self) -> str:
        return next((op for op, kinds in self.dialect.kinds.items() if kinds == _UPDATE), "")

    def _needed_by(self, is_before: bool) -> list[str]:
        """The values of `op` whose messages must have the image."""
        dialect = self.dialect
        needed = []
        for op, kinds in dialect.kinds.items():
            if is_before:
                required = (kinds == _UPDATE and not self.upsert) or (kinds == _DELETE and not dialect.patch)
            else:
                required = kinds != _DELETE or dialect.patch or dialect.before is None
            if required:
                needed.append(op)
        return needed


def _patch_of(row: SqlType, patch: str, *, several: bool) -> str:
    """SQL: whether JSON (an array of it with `several`) is an object whose keys are values of the row's columns."""
    if several:
        check = _patch_of(row, "e9", several=False)
        return f"coalesce(list_bool_and(list_transform({patch}, lambda e9: {check})), true)"
    return f"coalesce(json_type({patch}) = 'OBJECT', false) AND ({acceptable(patch, row)})"


def _every_row(elements: str) -> str:
    return f"coalesce(list_bool_and(list_transform({elements}, lambda e9: coalesce(json_type(e9) = 'OBJECT', false))), true)"
