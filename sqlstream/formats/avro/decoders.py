"""What reads values of one schema off lanes, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.formats.avro.lanes import Bools, Lanes, Longs

#: Items without bytes (null, empty records) that one array may have: their number alone decides how long it takes.
_MOST_WITHOUT_BYTES = 1 << 20


class Decoder(Protocol):
    """Reads one value of each lane; `type` is what `read` gives."""

    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        """The next value of each lane, in order; of a bad lane it is anything."""
        ...

    def skip(self, lanes: Lanes) -> None:
        """Go past the next value of each lane."""
        ...


@dataclass(slots=True)
class Simple:
    """A value without others inside: `get` gives it of lanes as Arrow, `pass_by` goes past it."""

    type: pa.DataType
    get: Callable[[Lanes], pa.Array]
    pass_by: Callable[[Lanes], object]
    smallest: int = 1

    def read(self, lanes: Lanes) -> pa.Array:
        """See `Decoder`."""
        return self.get(lanes)

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""
        self.pass_by(lanes)


@dataclass(slots=True)
class Constant:
    """A value that is not in the records: the default of a field that their writer did not have."""

    type: pa.DataType
    value: pa.Array

    def read(self, lanes: Lanes) -> pa.Array:
        """See `Decoder`."""
        return self.value.take(pa.array(np.zeros(len(lanes), np.int64)))

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""


@dataclass(slots=True)
class Record:
    """A record as a struct. `steps` are its fields as written: the number of the struct's field, or None to skip one.

    `constants` are fields of the struct that are not in the records.
    """

    type: pa.DataType
    steps: Sequence[tuple[Decoder, int | None]]
    constants: Sequence[tuple[Decoder, int]]

    def columns(self, lanes: Lanes) -> list[pa.Array]:
        """The struct's fields."""
        found: list[Any] = [None] * self.type.num_fields
        for decoder, place in self.steps:
            if place is None:
                decoder.skip(lanes)
            else:
                found[place] = decoder.read(lanes)
        for decoder, place in self.constants:
            found[place] = decoder.read(lanes)
        return found

    def read(self, lanes: Lanes) -> pa.Array:
        """See `Decoder`."""
        columns = self.columns(lanes)
        if not columns:
            return pa.Array.from_buffers(self.type, len(lanes), [None])
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""
        for decoder, _ in self.steps:
            decoder.skip(lanes)


@dataclass(slots=True)
class Union:
    """One of several branches; a branch that is None is null or not wanted, and says why in `refusals`."""

    type: pa.DataType
    branches: Sequence[Decoder | None]
    refusals: Sequence[str]

    def read(self, lanes: Lanes) -> pa.Array:
        """See `Decoder`."""
        chosen = self._chosen(lanes)
        parts: list[pa.Array] = []
        # Which value of all parts in a row each lane has; -1 is NULL.
        places = np.full(len(lanes), -1, np.int64)
        begin = 0
        for number, (branch, refusal) in enumerate(zip(self.branches, self.refusals, strict=True)):
            mine = chosen == number
            if not mine.any():
                continue
            if refusal:
                lanes.fail(mine, refusal)
            if branch is None:
                continue
            if not parts and mine.all():
                return branch.read(lanes)
            part = lanes.part(mine)
            parts.append(branch.read(part))
            lanes.advance(mine, part)
            places[mine] = np.arange(begin, begin + len(part))
            begin += len(part)
        if not parts:
            return pa.nulls(len(lanes), self.type)
        values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return values.take(pa.array(places, mask=places < 0))

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""
        chosen = self._chosen(lanes)
        for number, branch in enumerate(self.branches):
            mine = chosen == number
            if branch is not None and mine.any():
                part = lanes.part(mine)
                branch.skip(part)
                lanes.advance(mine, part)

    def _chosen(self, lanes: Lanes) -> Longs:
        """Each lane's branch; -1 where there is none, as in bad lanes."""
        chosen = lanes.longs()
        wrong = (chosen < 0) | (chosen >= len(self.branches))
        if wrong.any():
            lanes.fail(
                wrong & lanes.good, f"a union of {len(self.branches)} types has no type of that number"
            )
        if lanes.reasons:
            chosen[~lanes.good] = -1
        return chosen


@dataclass(slots=True)
class Items:
    """The blocks of an array or a map, each a number of items, until one has none."""

    items: Sequence[Decoder]
    smallest: int

    def read(self, lanes: Lanes) -> tuple[Any, list[pa.Array]]:
        """Offsets of lanes, and the parts of their items (items, or keys and values), by lane."""
        found: list[list[pa.Array]] = [[] for _ in self.items]
        owners: list[Longs] = []

        def take(part: Lanes, owner: Longs) -> None:
            owners.append(owner)
            for decoder, into in zip(self.items, found, strict=True):
                into.append(decoder.read(part))

        self._walk(lanes, take)
        if not owners:
            return np.zeros(len(lanes) + 1, np.int32), [pa.array([], d.type) for d in self.items]
        owner = np.concatenate(owners)
        order = pa.array(np.argsort(owner, kind="stable"))
        offsets = np.zeros(len(lanes) + 1, np.int32)
        np.cumsum(np.bincount(owner, minlength=len(lanes)), out=offsets[1:])
        return offsets, [pa.concat_arrays(parts).take(order) for parts in found]

    def skip(self, lanes: Lanes) -> None:
        """Go past all blocks."""

        def pass_by(part: Lanes, owner: Longs) -> None:
            for decoder in self.items:
                decoder.skip(part)

        self._walk(lanes, pass_by)

    def _walk(self, lanes: Lanes, each: Callable[[Lanes, Longs], None]) -> None:
        """Hand over the n-th items of all lanes together, for n from the first to the last."""
        numbers = np.arange(len(lanes))
        left = np.zeros(len(lanes), np.int64)
        open_: Bools = lanes.good
        while open_.any():
            due = open_ & (left == 0)
            if due.any():
                part = lanes.part(due)
                counts = self._counts(part)
                lanes.advance(due, part)
                left[due] = counts
                open_[due] = counts > 0
            if not open_.any():
                break
            part = lanes.part(open_)
            each(part, numbers[open_])
            lanes.advance(open_, part)
            left[open_] -= 1
            if lanes.reasons:
                open_ &= lanes.good

    def _counts(self, lanes: Lanes) -> Longs:
        """The number of items of the next block; 0 at the end and in bad lanes."""
        counts = lanes.longs()
        sized = counts < 0  # its size in bytes follows, which only helps who skips it
        if sized.any():
            part = lanes.part(sized)
            part.longs()
            lanes.advance(sized, part)
            counts = np.where(sized, -counts, counts)
        most = (lanes.end - lanes.at) // self.smallest if self.smallest else _MOST_WITHOUT_BYTES
        wrong = (counts > most) | (counts < 0)
        if wrong.any():
            lanes.fail(wrong & lanes.good, "more items than there are bytes left of the record")
        if lanes.reasons:
            counts = np.where(lanes.good, counts, 0)
        return counts


@dataclass(slots=True)
class Array:
    """An array as a list."""

    type: pa.DataType
    blocks: Items

    def read(self, lanes: Lanes) -> pa.Array:
        """See `Decoder`."""
        offsets, (values,) = self.blocks.read(lanes)
        return pa.ListArray.from_arrays(pa.array(offsets), values, type=self.type)

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""
        self.blocks.skip(lanes)


@dataclass(slots=True)
class Map:
    """A map; of a key that comes twice in one the last value stays, as in Java."""

    type: pa.DataType
    blocks: Items

    def read(self, lanes: Lanes) -> pa.Array:
        """See `Decoder`."""
        offsets, (keys, values) = self.blocks.read(lanes)
        offsets, keys, values = _last_of_each(offsets, keys, values)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=self.type)

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""
        self.blocks.skip(lanes)


def _last_of_each(offsets: Any, keys: pa.Array, values: pa.Array) -> tuple[Any, pa.Array, pa.Array]:
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = owner * (int(codes.max(initial=0)) + 1) + codes
    last = len(pairs) - 1 - np.unique(pairs[::-1], return_index=True)[1]
    if len(last) == len(pairs):
        return offsets, keys, values
    kept = np.sort(last)
    fewer = np.zeros(len(offsets), np.int32)
    np.cumsum(np.bincount(owner[kept], minlength=len(offsets) - 1), out=fewer[1:])
    return fewer, keys.take(pa.array(kept)), values.take(pa.array(kept))


class Later:
    """Stands for a decoder that is not made yet: of a record that contains itself, and is skipped."""

    type: pa.DataType = pa.null()

    def __init__(self) -> None:
        self.made: Decoder | None = None

    def read(self, lanes: Lanes) -> pa.Array:
        """Nobody reads it."""
        raise NotImplementedError

    def skip(self, lanes: Lanes) -> None:
        """See `Decoder`."""
        assert self.made is not None
        if len(lanes):
            self.made.skip(lanes)
