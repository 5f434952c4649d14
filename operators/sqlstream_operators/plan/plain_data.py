"""Frozen dataclasses as plain JSON data and back, by their type hints: plans, manifests, versions of state, job contexts.

What is stored follows from the class: a dataclass is an object with its fields' names, a `PlainRow` a list of their
values; SQL types and enums are their text, bytes are base64, tuples are lists. A field whose type is a union of
dataclasses carries the `kind` of the class in `@type` (never its name in Python, which may change). A missing field takes
its default, so what older versions wrote can be read. `stored` says what differs for one field.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Self

from .types import SqlType, parse_type

_TAG = "@type"
_STORED = "stored"


@dataclass(frozen=True, slots=True)
class Form:
    """How data is written and read: `strict` refuses fields that a class has not, `in_order` writes maps by their keys."""

    strict: bool = False
    in_order: bool = False


#: Files that other versions of the program read, too.
STORED = Form()
#: Plans: the same text for the same plan, and nothing in them is passed over.
PLAN = Form(strict=True, in_order=True)


@dataclass(frozen=True, slots=True)
class _Stored:
    name: str | None = None
    if_default: bool = True
    plans_only: bool = False


def stored(name: str | None = None, *, if_default: bool = True, plans_only: bool = False) -> dict[str, Any]:
    """The metadata of a field that is stored under another name, not where it is its default, or in plans only."""
    return {_STORED: _Stored(name, if_default, plans_only)}


class PlainData:
    """A frozen dataclass that is stored as a JSON object."""

    __slots__ = ()

    def to_json(self) -> Any:
        """Plain JSON data; `from_json` reads it back."""
        return encode(type(self), self)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what `to_json` wrote, or an older version did. Raises ValueError that names the place for anything else."""
        read: Self = decode(cls, data)
        return read

    @classmethod
    def stored_form(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The object as it is written, where that isn't the fields one by one."""
        return data

    @classmethod
    def read_form(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of an object that was written, by whatever version."""
        return data


class PlainRow(PlainData):
    """A frozen dataclass that is stored as a JSON array; fields at the end that have defaults may be missing."""

    __slots__ = ()


class _MisfitError(ValueError):
    """Data that is not of its type: where, from the inside outwards, and why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.path: list[str] = []


@dataclass(frozen=True, slots=True)
class _Codec:
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def encode(hint: Any, value: Any, form: Form = STORED) -> Any:
    """A value of type `hint` as plain JSON data."""
    return _codec(hint, form).encode(value)


def decode(hint: Any, data: Any, where: str | None = None, form: Form = STORED) -> Any:
    """Read what `encode` wrote for the same type. Raises ValueError that says what is wrong, and where below `where`."""
    try:
        return _codec(hint, form).decode(data)
    except _MisfitError as error:
        place = where if where is not None else str(getattr(hint, "__name__", "data"))
        raise ValueError(f"{place}{''.join(reversed(error.path))}: {error}") from error


def _codec(hint: Any, form: Form) -> _Codec:
    # A function of its own, as a hint is no Hashable to type checkers.
    return _compiled(hint, form)


@cache
def _compiled(hint: Any, form: Form) -> _Codec:
    """The functions for one type, made once: what is read often has no look at type hints any more."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _Codec(_same, _same)
    if hint is SqlType:
        return _Codec(str, _sql_type)
    if hint is bytes:
        return _Codec(lambda value: base64.b64encode(value).decode(), _bytes)
    if origin in (types.UnionType, typing.Union):
        return _union(hint, form)
    if dataclasses.is_dataclass(hint):
        return _dataclass(typing.cast("type[Any]", hint), form)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Codec(lambda value: value.value, lambda data: _enum(hint, data))
    if origin is typing.Literal:
        return _Codec(_same, lambda data: _choice(arguments, data))
    if origin is tuple:
        return _tuple(arguments, form)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments[1], form)

    def expected(data: Any) -> Any:
        return data if type(data) is hint else _expect(hint, data)

    return _Codec(_same, expected)


def _union(hint: Any, form: Form) -> _Codec:
    members = typing.get_args(hint)
    optional = types.NoneType in members
    real = [member for member in members if member is not types.NoneType]

    def nothing() -> None:
        if not optional:
            raise _MisfitError("may not be null")

    if len(real) == 1:
        one = _codec(real[0], form)
        return _Codec(
            lambda value: None if value is None else one.encode(value),
            lambda data: nothing() if data is None else one.decode(data),
        )
    by_kind = {member.kind: _codec(member, form) for member in real}
    by_class = {member: (member.kind, by_kind[member.kind]) for member in real}

    def encoded(value: Any) -> Any:
        if value is None:
            return None
        if type(value) not in by_class:
            raise ValueError(f"{type(value).__name__} is none of {[member.__name__ for member in real]}")
        kind, codec = by_class[type(value)]
        return {_TAG: kind, **codec.encode(value)}

    def decoded(data: Any) -> Any:
        if data is None:
            return nothing()
        fields = dict(_expect(dict, data))
        name = fields.pop(_TAG, None)
        if name not in by_kind:
            raise _MisfitError(f"unknown {_TAG} {name!r}")
        return by_kind[name].decode(fields)

    return _Codec(encoded, decoded)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a dataclass: its names in Python and in what is stored, and whether it may be missing."""

    name: str
    key: str
    codec: _Codec
    optional: bool
    default: Any
    if_default: bool


def _fields_of(cls: type[Any], form: Form) -> list[_Field]:
    hints = typing.get_type_hints(cls)
    found = []
    for f in dataclasses.fields(cls):
        how: _Stored = f.metadata.get(_STORED, _Stored())
        if how.plans_only and form != PLAN:
            continue
        made = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        optional = made is not dataclasses.MISSING
        codec = _codec(hints[f.name], form)
        found.append(_Field(f.name, how.name or f.name, codec, optional, made, how.if_default))
    return found


def _dataclass(cls: type[Any], form: Form) -> _Codec:
    fields = _fields_of(cls, form)
    if issubclass(cls, PlainRow):
        return _row(cls, fields)
    by_key = {f.key: f for f in fields}
    decoders = {f.key: (f.name, f.codec.decode) for f in fields}
    encoders = [(f.key, None if f.codec.encode is _same else f.codec.encode) for f in fields]
    values_of = _getter(fields)
    seldom = tuple(f for f in fields if not f.if_default)
    needed = frozenset(f.key for f in fields if not f.optional)
    plain = issubclass(cls, PlainData)

    def encoded(value: Any) -> Any:
        held = values_of(value)
        made = {key: v if e is None else e(v) for (key, e), v in zip(encoders, held, strict=True)}
        for f in seldom:
            if getattr(value, f.name) == f.default:
                del made[f.key]
        return cls.stored_form(made) if plain else made

    def decoded(data: Any) -> Any:
        given: Mapping[str, Any] = _expect(dict, data)
        if plain:
            given = cls.read_form(given)
        if form.strict and not given.keys() <= by_key.keys():
            raise _MisfitError(f"{cls.__name__} has no fields {sorted(given.keys() - by_key.keys())}")
        if not needed <= given.keys():
            missing = next(f.key for f in fields if f.key in needed and f.key not in given)
            raise _MisfitError(f"{cls.__name__} needs {missing}")
        try:
            values = {name: decode(given[key]) for key, (name, decode) in decoders.items() if key in given}
        except _MisfitError:
            for f in fields:
                if f.key in given:
                    _inside(f.codec, given[f.key], f".{f.key}")
            raise
        return _made(cls, values)

    return _Codec(encoded, decoded)


def _getter(fields: list[_Field]) -> Callable[[Any], tuple[Any, ...]]:
    if not fields:
        return lambda value: ()
    found = attrgetter(*(f.name for f in fields))
    return found if len(fields) > 1 else lambda value: (found(value),)


def _row(cls: type[Any], fields: list[_Field]) -> _Codec:
    least = sum(not f.optional for f in fields)
    names = [f.name for f in fields]
    decoders = [f.codec.decode for f in fields]
    encoders = [None if f.codec.encode is _same else f.codec.encode for f in fields]
    values_of = _getter(fields)

    def encoded(value: Any) -> Any:
        items = [v if e is None else e(v) for e, v in zip(encoders, values_of(value), strict=True)]
        while items and not fields[len(items) - 1].if_default:
            f = fields[len(items) - 1]
            if getattr(value, f.name) != f.default:
                break
            items.pop()
        return items

    def decoded(data: Any) -> Any:
        items = _expect(list, data)
        if not least <= len(items) <= len(fields):
            raise _MisfitError(f"{len(items)} items where {cls.__name__} has {len(fields)}")
        try:
            values = {n: decode(item) for n, decode, item in zip(names, decoders, items, strict=False)}
        except _MisfitError:
            for i, item in enumerate(items):
                _inside(fields[i].codec, item, f"[{i}]")
            raise
        return _made(cls, values)

    return _Codec(encoded, decoded)


def _made(cls: type[Any], values: Mapping[str, Any]) -> Any:
    try:
        return cls(**values)
    except _MisfitError:
        raise
    except ValueError as error:
        raise _MisfitError(str(error)) from error


def _tuple(arguments: tuple[Any, ...], form: Form) -> _Codec:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _codec(arguments[0], form)

        def all_decoded(data: Any) -> Any:
            items = _expect(list, data)
            try:
                return tuple(map(item.decode, items))
            except _MisfitError:
                for i, value in enumerate(items):
                    _inside(item, value, f"[{i}]")
                raise

        if item.encode is _same:
            return _Codec(list, all_decoded)
        return _Codec(lambda value: list(map(item.encode, value)), all_decoded)
    codecs = [_codec(argument, form) for argument in arguments]

    def encoded(value: Any) -> Any:
        return [codec.encode(v) for codec, v in zip(codecs, value, strict=True)]

    def decoded(data: Any) -> Any:
        items = _expect(list, data)
        if len(items) != len(codecs):
            raise _MisfitError(f"{len(items)} items where {len(codecs)} are due")
        return tuple(_inside(c, v, f"[{i}]") for i, (c, v) in enumerate(zip(codecs, items, strict=True)))

    return _Codec(encoded, decoded)


def _mapping(hint: Any, form: Form) -> _Codec:
    item = _codec(hint, form)

    def encoded(value: Any) -> Any:
        keys = sorted(value) if form.in_order else value
        return {key: item.encode(value[key]) for key in keys}

    def decoded(data: Any) -> Any:
        return {key: _inside(item, value, f".{key}") for key, value in _expect(dict, data).items()}

    return _Codec(encoded, decoded)


def _inside(codec: _Codec, data: Any, place: str) -> Any:
    try:
        return codec.decode(data)
    except _MisfitError as error:
        error.path.append(place)
        raise


def _same(value: Any) -> Any:
    return value


def _sql_type(data: Any) -> SqlType:
    try:
        return parse_type(_expect(str, data))
    except _MisfitError:
        raise
    except ValueError as error:
        raise _MisfitError(str(error)) from error


def _bytes(data: Any) -> bytes:
    try:
        return base64.b64decode(_expect(str, data), validate=True)
    except binascii.Error:
        raise _MisfitError("is not base64") from None


def _enum(hint: type[Enum], data: Any) -> Any:
    try:
        return hint(data)
    except ValueError:
        raise _MisfitError(f"{data!r} is not a {hint.__name__}") from None


def _choice(choices: tuple[Any, ...], data: Any) -> Any:
    if data not in choices:
        raise _MisfitError(f"{data!r} is not one of {choices}")
    return data


def _expect(hint: type[Any], data: Any) -> Any:
    if not isinstance(data, hint) or (isinstance(data, bool) and hint is not bool):
        raise _MisfitError(f"{data!r} is not a {hint.__name__}")
    return data
