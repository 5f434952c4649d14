"""Which values a filter leaves for a column, where it says so: what DuckDB pushes down to a scan, as pyarrow's expression.

An expression can't be looked into, but it can be pickled: as Arrow data with its literals as columns, and the tree in the
metadata of the schema, whose keys repeat: `call`, `field_ref`, `literal`, `options`, `end`. It is read from there. What is
not understood only means that more rows are read: the filter itself is applied to them in any case.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: For a column the values that it may have, NULL (None) among them.
Values = Mapping[str, tuple[Any, ...]]


def values_of(expression: pc.Expression | None) -> Values:
    """For each column that an equality, IS NULL, or a list of values bounds, the values that rows can have in it.

    >>> a, b = pc.field("a"), pc.field("b")
    >>> values_of((a == 1) & b.isin(["x", "y"]) & (pc.field("c") > 3))
    {'a': (1,), 'b': ('x', 'y')}
    >>> values_of((a == 1) | (b == "x"))
    {}
    """
    if expression is None:
        return {}
    try:
        return _bounds(_tree(expression))
    except (pa.ArrowException, ArithmeticError, ValueError, _UnknownError):  # a time may be none of Python's
        return {}


class _UnknownError(Exception):
    """The pickle is not as expected."""


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    arguments: tuple[Any, ...]
    options: Any = None


@dataclass(frozen=True, slots=True)
class _Column:
    name: str


@dataclass(frozen=True, slots=True)
class _Literal:
    value: pa.Scalar


def _bounds(found: Any) -> Values:
    match found:
        case _Call("and" | "and_kleene", (left, right)):
            first, second = _bounds(left), _bounds(right)
            both = {
                name: tuple(value for value in first[name] if value in second[name])
                for name in first.keys() & second.keys()
            }
            return {**first, **second, **both}
        case _Call("or" | "or_kleene", (left, right)):
            first, second = _bounds(left), _bounds(right)
            return {name: _union(first[name], second[name]) for name in first.keys() & second.keys()}
        case _Call("equal", (_Column(name), _Literal(value)) | (_Literal(value), _Column(name))):
            return {name: (value.as_py(),)} if _exact(value.type) and value.is_valid else {}
        case _Call("is_null", (_Column(name),)):
            return {name: (None,)}
        case _Call("is_in", (_Column(name),), options):
            values = options["value_set"].values
            listed = tuple(dict.fromkeys(value for value in values.to_pylist() if value is not None))
            return {name: listed} if _exact(values.type) and not values.null_count else {}
        case _Call("if_else", (_Call("is_valid"), inner, _Literal(value))) if not value.is_valid:
            return _bounds(inner)  # how DuckDB writes IN: NULL for a NULL
    return {}


def _union(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _exact(type_: pa.DataType) -> bool:
    """Whether equal values of a type are one key: of numbers, texts and times."""
    return (
        pa.types.is_integer(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_string(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_time64(type_)
        or type_ in (pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    )


def _tree(expression: pc.Expression) -> Any:
    """The expression as calls, columns and literals."""
    [buffer] = expression.__reduce__()[1]
    batch = pa.ipc.open_file(buffer).get_batch(0)
    entries = iter(_metadata(batch.schema))
    try:
        found = _node(next(entries), entries, batch)
    except (StopIteration, KeyError, IndexError, ValueError, AttributeError, TypeError):
        raise _UnknownError from None
    return found


def _node(entry: tuple[str, str], entries: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> Any:
    kind, text = entry
    if kind == "field_ref":
        return _Column(text)
    if kind == "literal":
        return _Literal(batch.column(int(text))[0])
    if kind != "call":
        raise _UnknownError
    arguments, options = [], None
    while (entry := next(entries)) != ("end", text):
        if entry[0] == "options":
            options = batch.column(int(entry[1]))[0]
        else:
            arguments.append(_node(entry, entries, batch))
    return _Call(text, tuple(arguments), options)


class _ArrowSchema(ctypes.Structure):
    """The beginning of ArrowSchema in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """The metadata of a schema with the keys that stand there several times, which pyarrow's dict loses.

    Arrow's C data interface has them as: how many (int32), then for each the length and bytes of key and value.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    place = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not place:
        raise _UnknownError
    texts: list[str] = []
    at = place + 4
    for _ in range(2 * ctypes.c_int32.from_address(place).value):
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))
