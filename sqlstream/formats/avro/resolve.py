"""From a record's schema as written to a table's columns: Avro's schema resolution, made once per schema.

Fields are found by name; where a reader's schema is given, by its aliases as well, and what is not written has its
default. Without one a column that is not written is NULL, as in the schema that Flink derives of a table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlstream.formats.avro import primitives
from sqlstream.formats.avro.decoders import Array, Constant, Decoder, Items, Later, Map, Record, Union
from sqlstream.formats.avro.defaults import default_value
from sqlstream.formats.avro.schema import NO_DEFAULT, AvroField, AvroSchema, Form, SchemaError
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import Kind, SqlType


def record_decoder(columns: Schema, written: AvroSchema, wanted: AvroSchema | None = None) -> Record:
    """What reads records of a schema as these columns; `wanted` is the reader's schema. Raises SchemaError."""
    if written.form is not Form.RECORD:
        raise SchemaError(f"the schema is {written}, not a record")
    if wanted is not None and wanted.form is not Form.RECORD:
        raise SchemaError(f"the reader's schema is {wanted}, not a record")
    resolver = _Resolver()
    fields = [(column.name, column.type, column.nullable) for column in columns]
    return resolver.record(fields, written, wanted, "")


@dataclass(slots=True)
class _Resolver:
    #: Decoders that skip, by schema: one that contains itself finds itself here.
    skipped: dict[int, Decoder] = field(default_factory=dict)

    def record(
        self,
        fields: list[tuple[str, SqlType, bool]],
        written: AvroSchema,
        wanted: AvroSchema | None,
        where: str,
    ) -> Record:
        """What reads a record as a struct of these fields (name, type, nullable)."""
        readers = None if wanted is None else {f.name: f for f in wanted.fields}
        places: dict[str, int] = {}
        constants: list[tuple[Decoder, int]] = []
        types: dict[str, tuple[SqlType, AvroSchema | None]] = {}
        for place, (name, type_, nullable) in enumerate(fields):
            reader = None if readers is None else readers.get(name)
            if readers is not None and reader is None:
                raise SchemaError(f"{where}{name}: the reader's schema has no such field")
            found = _written_as(name, reader, written)
            if found is None:
                constants.append((_constant(where + name, type_, nullable, reader), place))
            else:
                places[found.name] = place
                types[found.name] = (type_, None if reader is None else reader.schema)
        steps: list[tuple[Decoder, int | None]] = []
        for one in written.fields:
            if one.name in places:
                type_, reader_schema = types[one.name]
                decoder = self.value(type_, one.schema, reader_schema, f"{where}{one.name}")
                steps.append((decoder, places[one.name]))
            else:
                steps.append((self.skip(one.schema), None))
        target = pa.struct([pa.field(name, to_arrow(type_)) for name, type_, _ in fields])
        return Record(target, steps, constants)

    def value(self, type_: SqlType, written: AvroSchema, wanted: AvroSchema | None, where: str) -> Decoder:
        """What reads a value as a type."""
        if wanted is not None and wanted.form is Form.UNION:
            wanted = next((b for b in wanted.branches if b.form is not Form.NULL), None)
        if written.form is Form.UNION:
            return self.union(type_, written, wanted, where)
        simple = primitives.reads(written, type_)
        if simple is not None:
            return simple
        target = to_arrow(type_)
        match written.form:
            case Form.ARRAY if type_.kind is Kind.ARRAY:
                assert written.inside is not None
                assert type_.element is not None
                inside = self.value(type_.element, written.inside, _inside(wanted), f"{where}[]")
                return Array(target, Items([inside], smallest(written.inside)))
            case Form.MAP if (
                type_.kind is Kind.MAP and type_.key is not None and type_.key.kind is Kind.VARCHAR
            ):
                assert written.inside is not None
                assert type_.value is not None
                key = primitives.reads(AvroSchema(Form.STRING), type_.key)
                assert key is not None
                value = self.value(type_.value, written.inside, _inside(wanted), f"{where}{{}}")
                return Map(target, Items([key, value], 1 + smallest(written.inside)))
            case Form.RECORD if type_.kind is Kind.STRUCT:
                inner = [(name, t, True) for name, t in type_.fields]
                record = wanted if wanted is not None and wanted.form is Form.RECORD else None
                return self.record(inner, written, record, f"{where}.")
        raise SchemaError(f"{where}: {written} can't be read as {type_}{_instead(written, type_)}")

    def union(self, type_: SqlType, written: AvroSchema, wanted: AvroSchema | None, where: str) -> Decoder:
        """What reads a union whose types can all be read as one."""
        branches: list[Decoder | None] = []
        for branch in written.branches:
            branches.append(None if branch.form is Form.NULL else self.value(type_, branch, wanted, where))
        return Union(to_arrow(type_), branches, [""] * len(branches))

    def skip(self, written: AvroSchema) -> Decoder:
        """What goes past a value."""
        known = self.skipped.get(id(written))
        if known is not None:
            return known
        later = Later()
        self.skipped[id(written)] = later
        later.made = self._skip(written)
        return later.made

    def _skip(self, written: AvroSchema) -> Decoder:
        match written.form:
            case Form.UNION:
                branches = [None if b.form is Form.NULL else self.skip(b) for b in written.branches]
                return Union(pa.null(), branches, [""] * len(branches))
            case Form.ARRAY:
                assert written.inside is not None
                return Array(pa.null(), Items([self.skip(written.inside)], smallest(written.inside)))
            case Form.MAP:
                assert written.inside is not None
                key = primitives.passes(AvroSchema(Form.STRING))
                return Map(pa.null(), Items([key, self.skip(written.inside)], 1 + smallest(written.inside)))
            case Form.RECORD:
                return Record(pa.struct([]), [(self.skip(f.schema), None) for f in written.fields], [])
            case _:
                return primitives.passes(written)


def smallest(schema: AvroSchema, around: frozenset[int] = frozenset()) -> int:
    """The bytes that a value has at least."""
    if schema.form is Form.RECORD:
        if id(schema) in around:
            return 0
        return sum(smallest(f.schema, around | {id(schema)}) for f in schema.fields)
    if schema.form in (Form.UNION, Form.ARRAY, Form.MAP):
        return 1
    return primitives.passes(schema).smallest


def _inside(schema: AvroSchema | None) -> AvroSchema | None:
    return None if schema is None else schema.inside


def _written_as(name: str, reader: AvroField | None, written: AvroSchema) -> AvroField | None:
    """The field that a column is written as: of its name, or of an alias that the reader's schema has for it."""
    names = (name, *(reader.aliases if reader is not None else ()))
    by_name = {f.name: f for f in written.fields}
    return next((by_name[n] for n in names if n in by_name), None)


def _constant(where: str, type_: SqlType, nullable: bool, reader: AvroField | None) -> Constant:
    target = to_arrow(type_)
    if reader is not None and reader.default is not NO_DEFAULT:
        value: Any = default_value(reader.schema, reader.default, type_, where)
        return Constant(target, pa.array([value], target))
    if reader is not None or not nullable:
        why = "the reader's schema has no default for it" if reader is not None else "the column is NOT NULL"
        raise SchemaError(f"{where}: not in the records' schema, and {why}")
    return Constant(target, pa.nulls(1, target))


def _instead(written: AvroSchema, type_: SqlType) -> str:
    """What to declare instead, where that is known."""
    times = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_NS, Kind.DATE, Kind.TIME)
    instead = {
        Form.INT: "INT",
        Form.LONG: "BIGINT",
        Form.DOUBLE: "DOUBLE",
        Form.FLOAT: "FLOAT",
        Form.BOOLEAN: "BOOLEAN",
        Form.ENUM: "STRING",
        Form.STRING: "STRING",
    }
    if written.logical.endswith("nanos"):
        return "; declare it as TIMESTAMP_NS"
    if written.logical == "decimal":
        return f"; declare it as DECIMAL({written.precision}, {written.scale})"
    if written.logical in ("date", "uuid"):
        return f"; declare it as {written.logical.upper()}"
    if written.logical:
        return f"; declare it as {'TIMESTAMP(3)' if 'timestamp' in written.logical else 'TIME'}"
    if type_.kind in times and written.form is Form.LONG:
        return "; declare it as BIGINT, and make a time of it by TO_TIMESTAMP_LTZ(column, 3)"
    if written.form in instead:
        return f"; declare it as {instead[written.form]}"
    return ""
