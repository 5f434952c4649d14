"""What an epoch's changes of an OVER with bounded frames can matter to: the rows around them, read from state alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.over_spec import COPY, ROWS, SORT, Reach
from sqlstream_operators.state.store import StateStore

from .over_state import Arrived, Mask, Merged

#: So many more rows than needed are read at once, so that equals at the end seldom need another scan.
_SLACK = 16
#: Behind the bytes of a place, whatever follows it.
_END = b"\xff"


@dataclass(frozen=True, slots=True)
class Region:
    """Rows of state, the island that each is of, and the island of each row that arrived.

    An island is a part of a partition without a gap: it has all that the rows near a change depend on.
    """

    rows: pa.Table
    island: Int64s
    of_arrived: Int64s


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of some ranges: rows and the range of each; which ranges have no more."""

    rows: pa.Table
    owner: Int64s
    exhausted: Mask


def read_around(state: StateStore, arrived: Arrived, reach: Reach) -> Region:
    """The rows within twice `reach` of each row that arrived, on both sides; of equals in ORDER BY all.

    Twice, as a row that is near a change depends on rows that are as far from it again; and as many more as go.
    """
    places = state.places(ROWS, arrived.rows, 1)
    partitions = state.places(ROWS, arrived.rows, 0)
    anchors = sorted(set(places))
    number = {place: n for n, place in enumerate(anchors)}
    of_arrived = np.fromiter(map(number.__getitem__, places), np.int64, len(places))
    first = np.unique(of_arrived, return_index=True)[1]
    own = [partitions[i] for i in first.tolist()]
    sorts = arrived.rows.column(SORT).take(pa.array(first))
    going: dict[bytes, int] = {}
    for partition, weight in zip(partitions, arrived.weights.tolist(), strict=True):
        going[partition] = going.get(partition, 0) + max(-weight, 0)
    need = np.array([reach.before + reach.after + going[p] for p in own], np.int64)
    last = [
        after if n + 1 < len(own) and own[n + 1] == own[n] else own[n] + _END
        for n, after in enumerate([*anchors[1:], b""])
    ]
    behind = _read(state, list(zip(anchors, last, strict=True)), need, sorts, backwards=False)
    starts = np.array([n == 0 or own[n] != own[n - 1] for n in range(len(own))])
    seen = _last_places(state, behind, anchors)
    apart = starts | ~np.concatenate([[True], behind.exhausted[:-1]])
    chosen = np.flatnonzero(apart)
    ranges = [(own[n] if starts[n] else seen[n - 1] + _END, anchors[n]) for n in chosen.tolist()]
    before = _read(state, ranges, need[chosen], None, backwards=True)
    # What reaches back to where the one before ended is one with it.
    apart[chosen[before.exhausted]] = starts[chosen[before.exhausted]]
    island = np.cumsum(apart) - 1
    return Region(
        pa.concat_tables([behind.rows, before.rows]),
        island[np.concatenate([behind.owner, chosen[before.owner]])],
        island[of_arrived],
    )


def near(merged: Merged, island: Int64s, reach: Reach) -> npt.NDArray[np.bool_]:
    """Which of the rows can have another value than before: something came or went within `reach` of them."""
    there = np.flatnonzero(merged.was | merged.now)
    found = np.zeros(merged.rows.num_rows, bool)
    if not len(there):
        return found
    encoded = pc.dictionary_encode(merged.rows.column(SORT).combine_chunks().take(pa.array(there)))
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    place, part = rank[encoded.indices.to_numpy()], island[there]
    order = np.lexsort((place, part))
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(place[order]) != 0) | (np.diff(part[order]) != 0)
    at = np.flatnonzero(begins)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(begins) - 1
    of_group = part[order][at]
    low = np.searchsorted(of_group, of_group, "left")
    high = np.searchsorted(of_group, of_group, "right")
    changed = np.zeros(len(at) + 1, np.int64)
    np.add.at(changed, group + 1, (merged.was != merged.now)[there])
    total = np.cumsum(changed)
    numbers = np.arange(len(at))
    first = np.maximum(numbers - reach.before, low)
    last = np.minimum(numbers + reach.after + 1, high)
    found[there] = (total[last] > total[first])[group]
    return found


def _read(
    state: StateStore,
    ranges: Sequence[tuple[bytes, bytes]],
    need: Int64s,
    own: pa.ChunkedArray | None,
    *,
    backwards: bool,
) -> _Read:
    """Of each range the first (or last) rows: those of at least `need` places, and before them those at the place `own`."""
    pieces: list[pa.Table] = []
    owners: list[Int64s] = []
    exhausted = np.zeros(len(ranges), bool)
    left = np.arange(len(ranges))
    most = np.maximum(need + _SLACK, 1)
    while True:
        rows, sizes = state.scan_between(ROWS, [ranges[n] for n in left.tolist()], most, backwards=backwards)
        owner = np.repeat(np.arange(len(left)), sizes)
        done = sizes < most
        exhausted[left] = done
        mine = None if own is None else own.take(pa.array(left))
        enough, keep = _whole(rows, owner, sizes, done, need[left], mine, backwards=backwards)
        kept = np.flatnonzero(enough[owner] & keep)
        pieces.append(rows.take(pa.array(kept)))
        owners.append(left[owner[kept]])
        left, most = left[~enough], most[~enough] * 4
        if not len(left):
            return _Read(pa.concat_tables(pieces), np.concatenate(owners), exhausted)


def _whole(
    rows: pa.Table,
    owner: Int64s,
    sizes: Int64s,
    done: Mask,
    need: Int64s,
    own: pa.ChunkedArray | None,
    *,
    backwards: bool,
) -> tuple[Mask, Mask]:
    """Which ranges have enough, and which rows are of places that were read whole.

    Of a range that has more, the place at the end may have more rows. Rows that are owed make no place.
    """
    sorts = rows.column(SORT).combine_chunks() if rows.num_rows else pa.array([], pa.binary())
    codes = pc.dictionary_encode(sorts).indices.to_numpy()
    ends = np.cumsum(sizes)
    edge = (ends - sizes if backwards else ends - 1)[owner]
    cut = (codes == codes[edge]) & ~done[owner] if len(owner) else np.zeros(0, bool)
    mine = np.zeros(len(owner), bool)
    if own is not None and len(owner):
        mine = pc.equal(sorts, own.combine_chunks().take(pa.array(owner))).to_numpy(zero_copy_only=False)
    counts = ~cut & ~mine & (rows.column(COPY).to_numpy() >= 0)
    at = np.flatnonzero(counts)
    distinct = np.ones(len(at), bool)
    distinct[1:] = (np.diff(owner[at]) != 0) | (np.diff(codes[at]) != 0)
    places = np.zeros(len(sizes), np.int64)
    np.add.at(places, owner[at[distinct]], 1)
    broken = np.zeros(len(sizes), bool)
    broken[owner[cut & mine]] = True
    return done | ((places >= need) & ~broken), ~cut


def _last_places(state: StateStore, read: _Read, anchors: Sequence[bytes]) -> list[bytes]:
    """The last place that was read of each range; its beginning where there was none."""
    found = list(anchors)
    at = np.full(len(anchors), -1, np.int64)
    np.maximum.at(at, read.owner, np.arange(len(read.owner)))
    there = np.flatnonzero(at >= 0)
    for n, place in zip(
        there.tolist(), state.places(ROWS, read.rows.take(pa.array(at[there])), 1), strict=True
    ):
        found[n] = place
    return found
