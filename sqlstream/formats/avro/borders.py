"""Where each record of a block ends. A container has no lengths of records, so that one must be gone through to find the
next; what is between them is then read in lanes.

Fields that are not arrays or maps are one regular expression together, texts by an alternative for each length that a
byte says: the fastest way for Python to go through bytes. Where it does not match, one field after the other is tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sqlstream.formats.avro.lanes import Longs
from sqlstream.formats.avro.resolve import smallest
from sqlstream.formats.avro.schema import AvroSchema, Form
from sqlstream.formats.avro.varints import long

#: The place behind the value that begins at a place. Raises BorderError or IndexError if there is none.
_Pass = Callable[[bytes, int], int]

_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
#: A text of less than 128 bytes behind its length, which is one byte, or two from 64 on.
_SHORT = b"|".join(
    [b"\\x%02x.{%d}" % (2 * size, size) for size in range(64)]
    + [b"\\x%02x\\x01.{%d}" % (2 * size, size) for size in range(64, 128)]
)
_SHORT = b"(?:" + _SHORT + b")"
_PATTERNS = {
    Form.NULL: b"",
    Form.BOOLEAN: b".",
    Form.INT: _VARINT,
    Form.LONG: _VARINT,
    Form.ENUM: _VARINT,
    Form.FLOAT: b".{4}",
    Form.DOUBLE: b".{8}",
    Form.STRING: _SHORT,
    Form.BYTES: _SHORT,
}
#: Branches of a union whose number is one byte.
_FEW = 64
#: Records and items without bytes that there may be: their number alone decides how long they take.
_MOST_WITHOUT_BYTES = 1 << 20
#: The longest repetition that a regular expression can have.
_LONGEST_FIXED = 1 << 20


class BorderError(ValueError):
    """A block that is not as many records as it says."""


class Borders:
    """Finds the records of blocks of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._smallest = smallest(schema)
        self._pass = _Maker().passing(schema)

    def of(self, block: bytes, count: int) -> Longs:
        """Where the records of a block begin, and the end of the last. Raises BorderError if it is not so many records."""
        if count * self._smallest > len(block) or (not self._smallest and count > _MOST_WITHOUT_BYTES):
            raise BorderError(f"{count:,} records can't be in {len(block):,} bytes")
        passing, at, found = self._pass, 0, [0]
        try:
            for _ in range(count):
                at = passing(block, at)
                found.append(at)
        except IndexError:
            raise BorderError("a record ends in the middle of a value") from None
        except RecursionError:
            raise BorderError("a record is nested too deeply") from None
        if at != len(block):
            raise BorderError(f"its records have {at:,} of its {len(block):,} bytes")
        return np.array(found, np.int64)


@dataclass(slots=True)
class _Later:
    """A record that contains itself, whose parts are known later."""

    made: _Pass | None = None

    def __call__(self, data: bytes, at: int) -> int:
        assert self.made is not None
        return self.made(data, at)


@dataclass(slots=True)
class _Maker:
    records: dict[int, _Later] = field(default_factory=dict)

    def passing(self, schema: AvroSchema) -> _Pass:
        """What goes past a value of a schema."""
        match schema.form:
            case Form.STRING | Form.BYTES:
                return _past_bytes
            case Form.NULL:
                return lambda data, at: at
            case Form.BOOLEAN:
                return _past_fixed(1)
            case Form.FLOAT:
                return _past_fixed(4)
            case Form.DOUBLE:
                return _past_fixed(8)
            case Form.FIXED:
                return _past_fixed(schema.size)
            case Form.INT | Form.LONG | Form.ENUM:
                return lambda data, at: _long(data, at)[1]
            case Form.UNION:
                return _past_branch([self.passing(branch) for branch in schema.branches])
            case Form.ARRAY:
                assert schema.inside is not None
                return _past_items(self.passing(schema.inside), smallest(schema.inside))
            case Form.MAP:
                assert schema.inside is not None
                return _past_items(_one_after_other([_past_bytes, self.passing(schema.inside)]), 1)
            case Form.RECORD:
                return self._record(schema)

    def _record(self, schema: AvroSchema) -> _Pass:
        known = self.records.get(id(schema))
        if known is not None:
            return known
        later = self.records[id(schema)] = _Later()
        steps: list[_Pass] = []
        run: list[bytes] = []
        slow: list[_Pass] = []
        for one in schema.fields:
            passing, pattern = self.passing(one.schema), _pattern(one.schema, ())
            if pattern is not None:
                run.append(pattern)
                slow.append(passing)
                continue
            steps += _run(run, slow)
            run, slow = [], []
            steps.append(passing)
        later.made = _one_after_other([*steps, *_run(run, slow)])
        return later.made


def _run(patterns: Sequence[bytes], slow: Sequence[_Pass]) -> list[_Pass]:
    """What goes past fields that follow one another."""
    pattern = b"".join(patterns)
    if not pattern:
        return []
    match, otherwise = re.compile(pattern, re.DOTALL).match, _one_after_other(slow)

    def past(data: bytes, at: int) -> int:
        found = match(data, at)
        return otherwise(data, at) if found is None else found.end()

    return [past]


def _pattern(schema: AvroSchema, around: tuple[int, ...]) -> bytes | None:
    """A regular expression for a value; None if a number in it says how long it is."""
    match schema.form:
        case Form.FIXED:
            return b".{%d}" % schema.size if schema.size < _LONGEST_FIXED else None
        case Form.UNION:
            parts = [_pattern(branch, around) for branch in schema.branches]
            if None in parts or not 0 < len(parts) <= _FEW:
                return None
            return b"(?:" + b"|".join(b"\\x%02x" % (2 * n) + (p or b"") for n, p in enumerate(parts)) + b")"
        case Form.RECORD:
            if id(schema) in around:
                return None
            inside = [_pattern(one.schema, (*around, id(schema))) for one in schema.fields]
            return None if None in inside else b"".join(part or b"" for part in inside)
        case _:
            return _PATTERNS.get(schema.form)


def _one_after_other(steps: Sequence[_Pass]) -> _Pass:
    if len(steps) == 1:
        return steps[0]

    def past(data: bytes, at: int) -> int:
        for step in steps:
            at = step(data, at)
        return at

    return past


def _past_fixed(size: int) -> _Pass:
    return lambda data, at: at + size


def _past_bytes(data: bytes, at: int) -> int:
    size = data[at]
    if size < 0x80 and not size & 1:  # most texts
        return at + 1 + (size >> 1)
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise BorderError("a length that is more than what is left of the block")
    return at + size


def _past_branch(branches: Sequence[_Pass]) -> _Pass:
    count = len(branches)

    def past(data: bytes, at: int) -> int:
        number, at = (data[at] >> 1, at + 1) if data[at] < 0x80 and not data[at] & 1 else _long(data, at)
        if not 0 <= number < count:
            raise BorderError(f"a union has no branch {number}")
        return branches[number](data, at)

    return past


def _past_items(item: _Pass, least: int) -> _Pass:
    """Past blocks of items, each with its number; a negative one has its size in bytes behind it."""

    def past(data: bytes, at: int) -> int:
        while True:
            count, at = _long(data, at)
            if not count:
                return at
            if count < 0:
                size, at = _long(data, at)
                if not 0 <= size <= len(data) - at:
                    raise BorderError("a length that is more than what is left of the block")
                at += size
                continue
            if count * least > len(data) - at or (not least and count > _MOST_WITHOUT_BYTES):
                raise BorderError(f"{count:,} items can't be in the {len(data) - at:,} bytes that are left")
            for _ in range(count):
                at = item(data, at)

    return past


def _long(data: bytes, at: int) -> tuple[int, int]:
    try:
        return long(data, at)
    except ValueError as error:
        raise BorderError(str(error)) from None
