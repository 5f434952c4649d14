"""Avro's schemas as data: read from JSON, and written as such.

After the specification of Apache Avro 1.12 (names, aliases, logical types).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Stands for "no default", since null is one.
NO_DEFAULT = object()


class SchemaError(ValueError):
    """A schema that isn't one, or that a table can't be read or written by; the message is for the user."""


class Form(StrEnum):
    """What a schema is; the value is Avro's name."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    RECORD = "record"
    ENUM = "enum"
    FIXED = "fixed"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"


_PRIMITIVE = frozenset(list(Form)[:8])
NAMED = frozenset({Form.RECORD, Form.ENUM, Form.FIXED})


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record; `default` is JSON's value, or NO_DEFAULT."""

    name: str
    schema: AvroSchema
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class AvroSchema:
    """A schema. Records may contain themselves, so that it is compared by what it is, not by its parts.

    `name` and `aliases` are full names. `inside` is the schema of an array's items or a map's values, `branches` those of
    a union. A logical type that Avro does not know for this form is left out, as the specification wants it.
    """

    form: Form
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    symbol_default: str | None = None
    size: int = 0
    inside: AvroSchema | None = None
    branches: tuple[AvroSchema, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        match self.form:
            case Form.UNION:
                return f"[{', '.join(map(str, self.branches))}]"
            case Form.ARRAY | Form.MAP:
                return f"{self.form}<{self.inside}>"
            case _ if self.logical == "decimal":
                return f"{self.form} (decimal({self.precision},{self.scale}))"
            case _ if self.logical:
                return f"{self.form} ({self.logical})"
            case _ if self.form in NAMED:
                return f"{self.form} {self.name}"
            case _:
                return self.form.value

    @property
    def nullable(self) -> bool:
        """Whether it is a union with null."""
        return any(branch.form is Form.NULL for branch in self.branches)


_LOGICAL: Mapping[str, frozenset[Form]] = {
    "decimal": frozenset({Form.BYTES, Form.FIXED}),
    "uuid": frozenset({Form.STRING, Form.FIXED}),
    "date": frozenset({Form.INT}),
    "time-millis": frozenset({Form.INT}),
    "time-micros": frozenset({Form.LONG}),
    **{
        f"{local}timestamp-{unit}": frozenset({Form.LONG})
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
}


def parse_schema(text: str, references: Mapping[str, str] | None = None) -> AvroSchema:
    """A schema from its JSON; `references` are JSON of schemas whose names it may use. Raises SchemaError.

    >>> str(parse_schema('["null", {"type": "int", "logicalType": "date"}]'))
    '[null, int (date)]'
    """
    reader = _Reader()
    for reference in (references or {}).values():
        reader.read(_json(reference), "")
    return reader.read(_json(text), "")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        if text.strip() in _PRIMITIVE:  # what some registries give for a primitive schema
            return text.strip()
        raise SchemaError(f"the schema is not JSON: {error}") from None


@dataclass(slots=True)
class _Reader:
    names: dict[str, AvroSchema] = field(default_factory=dict)

    def read(self, given: Any, namespace: str) -> AvroSchema:
        """A schema; names without a dot are in `namespace`."""
        if isinstance(given, str):
            return self._named(given, namespace)
        if isinstance(given, list):
            branches = tuple(self.read(branch, namespace) for branch in given)
            if any(branch.form is Form.UNION for branch in branches):
                raise SchemaError("a union directly in a union")
            return AvroSchema(Form.UNION, branches=branches)
        if not isinstance(given, dict) or "type" not in given:
            raise SchemaError(f"not a schema: {json.dumps(given)[:80]}")
        kind = given["type"]
        if not isinstance(kind, str):  # {"type": {"type": "int"}}
            return self.read(kind, namespace)
        if kind == "error":
            kind = "record"
        match kind:
            case "record" | "enum" | "fixed":
                return self._definition(Form(kind), given, namespace)
            case "array" | "map":
                part = "items" if kind == "array" else "values"
                if part not in given:
                    raise SchemaError(f"{kind} without {part}")
                return AvroSchema(Form(kind), inside=self.read(given[part], namespace))
            case _:
                return _with_logical(self._named(kind, namespace), given)

    def _named(self, name: str, namespace: str) -> AvroSchema:
        if name in _PRIMITIVE:
            return AvroSchema(Form(name))
        found = self.names.get(_full(name, namespace)) or self.names.get(name)
        if found is None:
            raise SchemaError(f"no type is called {name}")
        return found

    def _definition(self, form: Form, given: Mapping[str, Any], namespace: str) -> AvroSchema:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{form} without a name")
        full = _full(name, str(given.get("namespace") or namespace))
        if full in self.names:
            raise SchemaError(f"two types are called {full}")
        own = full.rpartition(".")[0]
        schema = AvroSchema(form, full, tuple(_full(a, own) for a in given.get("aliases") or ()))
        # A record's fields may be of its own type.
        self.names[full] = schema
        try:
            match form:
                case Form.RECORD:
                    schema.fields = tuple(self._field(f, own) for f in given["fields"])
                case Form.ENUM:
                    schema.symbols = tuple(map(str, given["symbols"]))
                    schema.symbol_default = given.get("default")
                case _:
                    schema.size = int(given["size"])
        except (KeyError, TypeError) as error:
            raise SchemaError(f"{form} {full}: {error} is missing or wrong") from None
        if form is Form.FIXED:
            logical = _with_logical(schema, given)
            schema.logical, schema.precision, schema.scale = logical.logical, logical.precision, logical.scale
        names = [f.name for f in schema.fields]
        if len(set(names)) != len(names):
            raise SchemaError(f"record {full} has two fields of one name")
        return schema

    def _field(self, given: Mapping[str, Any], namespace: str) -> AvroField:
        default = given.get("default", NO_DEFAULT)
        return AvroField(
            str(given["name"]),
            self.read(given["type"], namespace),
            default,
            tuple(map(str, given.get("aliases") or ())),
        )


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _with_logical(schema: AvroSchema, given: Mapping[str, Any]) -> AvroSchema:
    logical = given.get("logicalType")
    if not isinstance(logical, str) or schema.form not in _LOGICAL.get(logical, ()):
        return schema
    precision, scale = given.get("precision", 0), given.get("scale", 0)
    if logical == "decimal" and not (
        isinstance(precision, int) and isinstance(scale, int) and 0 < precision >= scale >= 0
    ):
        return schema
    if logical == "uuid" and schema.form is Form.FIXED and schema.size != 16:
        return schema
    return AvroSchema(
        schema.form,
        schema.name,
        schema.aliases,
        size=schema.size,
        logical=logical,
        precision=precision if logical == "decimal" else 0,
        scale=scale if logical == "decimal" else 0,
    )


def to_json(schema: AvroSchema) -> str:
    """A schema as JSON text, without spaces; what it defines is written where it comes first."""
    return json.dumps(_as_json(schema, set()), separators=(",", ":"))


def _as_json(schema: AvroSchema, known: set[str]) -> Any:
    logical: dict[str, Any] = {"logicalType": schema.logical} if schema.logical else {}
    if schema.logical == "decimal":
        logical |= {"precision": schema.precision, "scale": schema.scale}
    if schema.form in NAMED and schema.name in known:
        return schema.name
    head: dict[str, Any] = {"type": schema.form.value}
    if schema.form in NAMED:
        known.add(schema.name)
        space, _, name = schema.name.rpartition(".")
        head["name"] = name
        if space:
            head["namespace"] = space
        if schema.aliases:
            head["aliases"] = list(schema.aliases)
    match schema.form:
        case Form.UNION:
            return [_as_json(branch, known) for branch in schema.branches]
        case Form.RECORD:
            fields = []
            for one in schema.fields:
                item: dict[str, Any] = {"name": one.name, "type": _as_json(one.schema, known)}
                if one.default is not NO_DEFAULT:
                    item["default"] = one.default
                if one.aliases:
                    item["aliases"] = list(one.aliases)
                fields.append(item)
            return head | {"fields": fields}
        case Form.ENUM:
            default = {} if schema.symbol_default is None else {"default": schema.symbol_default}
            return head | {"symbols": list(schema.symbols)} | default
        case Form.FIXED:
            return head | {"size": schema.size} | logical
        case Form.ARRAY:
            assert schema.inside is not None
            return head | {"items": _as_json(schema.inside, known)}
        case Form.MAP:
            assert schema.inside is not None
            return head | {"values": _as_json(schema.inside, known)}
        case _:
            return head | logical if logical else schema.form.value
