"""What an epoch does to a shard's segments: it writes new ones, and empties old ones that are mostly dead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from sqlstream_operators.codec.binary import from_list, parts

from .overlay import Overlay
from .packed_rows import PackedRows
from .segment_file import cut_up, encode_segment, file_of, is_pointer, prefix_of, worth_segments
from .version import Segment, StateFile

#: So much may be in segments beside twice what lives.
SLACK_BYTES = 64 << 20


def write_segments(
    loaded: Sequence[PackedRows], kept: Sequence[Segment], write: Callable[[bytes], StateFile]
) -> tuple[list[PackedRows], list[Segment]]:
    """The rows of an epoch, those with large values with pointers for them, and the segments that have these.

    `kept` are the segments that there are, `write` stores a file.
    """
    size = sum(segment.bytes for segment in kept)
    rows, made = [], []
    for part in loaded:
        if not worth_segments(part, size):
            rows.append(part)
            continue
        pointers = []
        for piece in cut_up(part):
            content, found = encode_segment(piece)
            offsets, _ = parts(piece.values)
            made.append(Segment(write(content), part.table, int(offsets[-1] - offsets[0])))
            pointers.append(found)
        rows.append(PackedRows(part.keys, pa.concat_arrays(pointers)))
    return rows, made


def worn_out(segments: Sequence[Segment], living_bytes: int, made: int) -> list[Segment]:
    """The segments to give up, the oldest ones, so that all have little more than twice what lives in the state.

    At most one more than the epoch made, so that an epoch's work follows its own size.
    """
    total = sum(segment.bytes for segment in segments)
    worn = []
    for segment in segments[: made + 1]:
        if total <= 2 * living_bytes + SLACK_BYTES:
            break
        worn.append(segment)
        total -= segment.bytes
    return worn


def living_rows(
    segment: Segment, keys: Sequence[bytes], values: Sequence[bytes | None], overlay: Overlay
) -> dict[bytes, bytes]:
    """The rows, with their pointers, that point into a segment still and that the epoch leaves as they are."""
    prefix = prefix_of(segment.file)
    return {
        key: value
        for key, value in zip(keys, values, strict=True)
        if value is not None
        and is_pointer(value)
        and file_of(value) == prefix
        and key not in overlay.single
        and not overlay.hides(key)
    }


def with_moved(
    single: Mapping[bytes, bytes | None], loaded: list[PackedRows], moved: Mapping[bytes, bytes]
) -> tuple[Mapping[bytes, bytes | None], list[PackedRows]]:
    """The rows of an epoch and some of one table that it does not write: packed ones stay packed."""
    if not moved:
        return single, loaded
    keys = sorted(moved)
    more = PackedRows(from_list(keys), from_list([moved[key] for key in keys]))
    for at, part in enumerate(loaded):
        if part.table == more.table:
            both = PackedRows.of(
                pa.concat_arrays([part.keys, more.keys]), pa.concat_arrays([part.values, more.values])
            )
            return single, [*loaded[:at], both, *loaded[at + 1 :]]
    return {**single, **moved}, loaded
