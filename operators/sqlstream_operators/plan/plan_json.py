"""Physical plans as JSON and back: typed, strict, and the same text for the same plan.

The codec follows the type hints of the frozen dataclasses: a field whose type is a union of dataclasses
carries the `kind` of the class in `@type` (never its name in Python, which may change), SQL types and enums
are their text, tuples are lists. Reading refuses fields that it does not know and values of a wrong type; a
missing field takes its default, so older plans can be read.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from .spec import PhysicalPlan
from .types import SqlType, parse_type

_TAG = "@type"


def to_json(plan: PhysicalPlan) -> dict[str, Any]:
    """The plan as plain JSON data, keys in a fixed order."""
    data: dict[str, Any] = encode(PhysicalPlan, plan)
    return data


def from_json(data: Mapping[str, Any]) -> PhysicalPlan:
    """Read what `to_json` wrote. Raises ValueError that names the place for anything else."""
    plan: PhysicalPlan = decode(PhysicalPlan, data)
    return plan


def to_text(plan: PhysicalPlan) -> str:
    """The plan as one line of JSON."""
    return json.dumps(to_json(plan), ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> PhysicalPlan:
    """Read what `to_text` wrote."""
    return from_json(json.loads(text))


def encode(hint: Any, value: Any) -> Any:
    """A value of type `hint` as plain JSON data."""
    if hint is SqlType:
        return str(value)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if value is None:
            return None
        choice, tagged = _member(hint, type(value))
        data = encode(choice, value)
        return {_TAG: choice.kind, **data} if tagged else data
    if dataclasses.is_dataclass(hint):
        hints = _hints(hint)
        return {f.name: encode(hints[f.name], getattr(value, f.name)) for f in dataclasses.fields(hint)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value.value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return [encode(item, v) for item, v in zip(_item_hints(arguments, len(value)), value, strict=True)]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: encode(arguments[1], value[key]) for key in sorted(value)}
    return value


def decode(hint: Any, data: Any, where: str = "plan") -> Any:
    """Read what `encode` wrote for the same type; `where` is named in errors (ValueError)."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is SqlType:
        return parse_type(_expect(str, data, where))
    if origin in (types.UnionType, typing.Union):
        return _decode_union(hint, data, where)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(typing.cast("type[Any]", hint), data, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(data)
        except ValueError:
            raise ValueError(f"{where}: {data!r} is not a {hint.__name__}") from None
    if origin is typing.Literal:
        if data not in arguments:
            raise ValueError(f"{where}: {data!r} is not one of {arguments}")
        return data
    if origin is tuple:
        items = _expect(list, data, where)
        hints = _item_hints(arguments, len(items), where)
        return tuple(decode(h, v, f"{where}[{i}]") for i, (h, v) in enumerate(zip(hints, items, strict=True)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {k: decode(arguments[1], v, f"{where}.{k}") for k, v in _expect(dict, data, where).items()}
    return _expect(hint, data, where)


def _decode_union(hint: Any, data: Any, where: str) -> Any:
    members = typing.get_args(hint)
    if data is None:
        if types.NoneType not in members:
            raise ValueError(f"{where}: may not be null")
        return None
    real = [member for member in members if member is not types.NoneType]
    if len(real) == 1:
        return decode(real[0], data, where)
    fields = dict(_expect(dict, data, where))
    name = fields.pop(_TAG, None)
    for member in real:
        if member.kind == name:
            return decode(member, fields, where)
    raise ValueError(f"{where}: unknown {_TAG} {name!r}")


def _decode_dataclass(hint: type[Any], data: Any, where: str) -> Any:
    fields = _expect(dict, data, where)
    known = {field.name: field for field in dataclasses.fields(hint)}
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise ValueError(f"{where}: {hint.__name__} has no fields {unknown}")
    hints = _hints(hint)
    values = {}
    for name, field in known.items():
        if name in fields:
            values[name] = decode(hints[name], fields[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where}: {hint.__name__} needs {name}")
    try:
        return hint(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _member(hint: Any, actual: type[Any]) -> tuple[Any, bool]:
    """The member of a union that a value of class `actual` belongs to, and whether it needs a tag."""
    real = [member for member in typing.get_args(hint) if member is not types.NoneType]
    if len(real) == 1:
        return real[0], False
    if actual not in real:
        raise ValueError(f"{actual.__name__} is none of {[member.__name__ for member in real]}")
    return actual, True


def _item_hints(arguments: tuple[Any, ...], length: int, where: str = "plan") -> list[Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return [arguments[0]] * length
    if len(arguments) != length:
        raise ValueError(f"{where}: {length} items where {len(arguments)} are due")
    return list(arguments)


def _expect(hint: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, hint) or (isinstance(data, bool) and hint is not bool):
        raise ValueError(f"{where}: {data!r} is not a {hint.__name__}")
    return data


def _hints(hint: Any) -> dict[str, Any]:
    key: Hashable = hint
    return _cached_hints(key)


@cache
def _cached_hints(hint: Any) -> dict[str, Any]:
    return typing.get_type_hints(hint)
