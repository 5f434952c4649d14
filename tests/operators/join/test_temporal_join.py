"""Temporal joins against their definition, row by row in Python: any epochs, shards, ties and times."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.join_spec import JoinSideSpec
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.types import BIGINT, BLOB, BOOLEAN, VARCHAR
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from tests.examples import examples
from tests.operators.weighted_cases import Shards

LEFT: Schema = (Column("k", BIGINT), Column("v", BIGINT))
RIGHT: Schema = (Column("rk", BIGINT), Column("w", BIGINT), Column("s", VARCHAR), Column("gone", BOOLEAN))
KEY = Column("__key_1", BIGINT)

Row = tuple[Any, ...]
Timed = tuple[int, Row]


@dataclass(frozen=True)
class Case:
    """A temporal join by k = rk, or by nothing; `computed`: the key is no column as it stands."""

    type: str = "inner"
    keyed: bool = True
    computed: bool = False
    strict: bool = False
    latest: bool = False
    ends: bool = False
    condition: bool = False
    delay: int = 0
    forward: bool = False

    @property
    def spec(self) -> TemporalJoinSpec:
        keys = (KEY,) if self.keyed else ()
        names = [("",) if self.computed else (side[0].name,) for side in (LEFT, RIGHT)]
        left, right = (
            JoinSideSpec(columns, tuple(name) if self.keyed else (), False)
            for columns, name in zip((LEFT, RIGHT), names, strict=True)
        )
        key = [StateField(k.name, k.type, "key") for k in keys]
        value = [[StateField(c.name, c.type, f"of {c.name}") for c in side.stored] for side in (left, right)]
        count = StateField("$count", BIGINT, "0 count")
        row, at = StateField("$row", BLOB, "1 row"), StateField("$at", BIGINT, "0 time")
        if self.forward:
            tables: tuple[StateTable, ...] = (
                StateTable.of("waiting", "key", key=key, sub_key=[at, row], value=[count, *value[0]]),
                StateTable.of("versions", "time", key=key, value=value[1]),
            )
        else:
            tables = (
                StateTable.of("waiting", "time", key=key, sub_key=[row], value=[count, *value[0]]),
                StateTable.of("versions", "key", key=key, sub_key=[at], value=value[1]),
                StateTable.of("unreached", "time", key=key),
            )
        return TemporalJoinSpec(
            StateSchema("s", "temporal_join", "test", tables),
            self.type,
            keys,
            left,
            right,
            self.strict,
            None if self.latest else ("w", "s", "rk", "gone"),
            "gone" if self.ends and not self.forward else None,
            "v < w" if self.condition else None,
            (*LEFT, *RIGHT),
            ("t",),
            self.delay,
            self.forward,
        )

    def answer(self, time: int, row: Row, versions: Sequence[Timed]) -> tuple[int, list[Row]]:
        """When a row of the left is given, and as what, by all versions in the order in which they came."""
        there = [
            (at, n, version)
            for n, (at, version) in enumerate(versions)
            if (at == time and not self.strict) or (at != time and (at > time) == self.forward)
            if not self.keyed or (row[0] is not None and version[0] == row[0])
        ]
        nearest = (min if self.forward else max)((at for at, *_ in there), default=None)
        found = [entry for entry in there if entry[0] == nearest]
        if self.latest:
            found = found[-1:]
        when = time if not self.forward else WATERMARK_MAX if nearest is None else nearest
        for *_, version in sorted(found, key=_ties)[:1]:
            passes = not self.condition or (None not in (row[1], version[1]) and row[1] < version[1])
            if passes and not (self.ends and not self.forward and version[3]):
                return when, [(*row, *version)]
        return when, [(*row, None, None, None, None)] if self.type == "left" else []


def _ties(entry: tuple[int, int, Row]) -> Any:
    key, value, text, gone = entry[2]
    return _order(value), _order(text), _order(key), gone


def _order(value: Any) -> Any:
    return (value is not None, value if value is not None else 0)


def tables(case: Case, left: Sequence[Timed], right: Sequence[Timed]) -> list[pa.Table]:
    """The inputs of an epoch: keys that are columns are not there twice."""
    made = []
    for rows, side, columns in ((left, case.spec.left, LEFT), (right, case.spec.right, RIGHT)):
        arrays = {SLICE_COLUMN: pa.array([time for time, _ in rows], pa.int64())}
        if case.keyed:
            arrays[KEY.name] = pa.array([row[0] for _, row in rows], pa.int64())
        for number, column in enumerate(columns):
            if column in side.stored:
                arrays[column.name] = pa.array([row[number] for _, row in rows], to_arrow(column.type))
        made.append(pa.table(arrays))
    return made


cases = st.builds(
    Case,
    st.sampled_from(["inner", "left"]),
    st.sampled_from([True, True, False]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 3]),
    st.booleans(),
)
_SMALL = st.none() | st.integers(0, 2)


@st.composite
def epochs(draw: st.DrawFn) -> list[tuple[Watermarks, list[Timed], list[Timed]]]:
    """Epochs whose rows are not late; times of the left with 10 added are beyond most watermarks."""
    found = []
    previous = WATERMARK_MIN
    last = draw(st.integers(1, 5))
    for number in range(1, last + 1):
        start = -4 if previous == WATERMARK_MIN else previous
        late = draw(st.sampled_from([previous, start, start + 2, start + 5]))
        close = max(late, draw(st.sampled_from([late, late, start + 5])))
        if number == last:
            close = WATERMARK_MAX
        first = -8 if late == WATERMARK_MIN else late + 1
        times = st.integers(first, first + 9)
        left = draw(st.lists(st.tuples(times, st.tuples(_SMALL, _SMALL)), max_size=6))
        versions = st.tuples(st.integers(0, 2), _SMALL, st.sampled_from(["a", None]), st.booleans())
        right = draw(st.lists(st.tuples(times, versions), max_size=6))
        found.append((Watermarks(previous, late, close), left, right))
        previous = close
    return found


def check(
    case: Case,
    drawn: list[tuple[Watermarks, list[Timed], list[Timed]]],
    job: Shards,
    shards: Sequence[int] = (),
) -> None:
    """Each row is given once, when the watermark reaches it, beside its version of all that ever come."""
    rows: list[Timed] = [entry for _, left, _ in drawn for entry in left]
    versions: list[Timed] = [entry for *_, right in drawn for entry in right]
    came = versions_came = 0
    for number, (marks, left, right) in enumerate(drawn):
        if shards:
            job.rescale(shards[number % len(shards)])
        outputs = job.run(tables(case, left, right), marks)
        came += len(left)
        close = marks.close if marks.close in (WATERMARK_MIN, WATERMARK_MAX) else marks.close - case.delay
        before = marks.previous if marks.previous == WATERMARK_MIN else marks.previous - case.delay
        answers = [case.answer(time, row, versions) for time, row in rows[:came]]
        wanted = Counter(found for when, given_ in answers if before < when <= close for found in given_)
        given_ = Counter(tuple(row.values()) for output in outputs for row in output.to_pylist())
        assert given_ == wanted
        assert all(WEIGHT_COLUMN not in output.column_names for output in outputs)
        # Rows that wait, the newest version of each key, and later ones with where they will be reached.
        # A row that goes forward and finds no version is kept, if it is not given beside NULLs in the end.
        alone = sum(when == WATERMARK_MAX for when, _ in answers) if case.type == "inner" else 0
        waiting = alone + sum(when > close for when, _ in answers)
        versions_came += len(right)
        known = versions[:versions_came]
        keys = {version[0] for _, version in known} if case.keyed else {None}
        # At the end of the input versions of later times than the rows are kept for what may still come.
        later = len(known) if close == WATERMARK_MAX else sum(time > close for time, _ in known)
        assert job.state_rows() <= waiting + len(keys) + 2 * later


@settings(max_examples=examples(30), deadline=None)
@given(cases, epochs(), st.integers(1, 3))
def test_every_row_meets_its_version(
    case: Case, drawn: list[tuple[Watermarks, list[Timed], list[Timed]]], shards: int
) -> None:
    if case.delay:
        drawn = [(marks, *_delayed(left, right, marks, case.delay)) for marks, left, right in drawn]
    keys = [f.name for f in case.spec.state.tables[0].key]
    check(case, drawn, Shards(case.spec, shards, keys))


def _delayed(
    left: list[Timed], right: list[Timed], marks: Watermarks, delay: int
) -> tuple[list[Timed], list[Timed]]:
    return [(t - delay, row) for t, row in left], [(t - delay, row) for t, row in right]


@settings(max_examples=examples(4), deadline=None)
@given(drawn=epochs(), forward=st.booleans())
def test_on_rocksdb_with_other_shards(
    drawn: list[tuple[Watermarks, list[Timed], list[Timed]]], forward: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        case = Case("left", ends=not forward, forward=forward)
        job = Shards(case.spec, 1, [KEY.name], directory=Path(folder))
        check(case, drawn, job, (1, 3, 2))


def test_versions_that_no_row_can_ask_for_are_dropped() -> None:
    case = Case("inner", ends=True)
    job = Shards(case.spec, 1, [KEY.name])

    def at(time: int, key: int, *, gone: bool = False) -> Timed:
        return time, (key, time, "a", gone)

    job.run(
        tables(case, [], [at(1, 1), at(2, 1), at(3, 1), at(2, 2)]),
        Watermarks(WATERMARK_MIN, WATERMARK_MIN, 0),
    )
    assert job.state_rows() == 8  # and where each will be reached
    [output] = job.run(tables(case, [(2, (1, 0))], []), Watermarks(0, 0, 2))
    assert [row["w"] for row in output.to_pylist()] == [2]
    assert job.state_rows() == 4  # 1 at 2 and, unreached, at 3; 2 at 2
    job.run(tables(case, [], [at(5, 2, gone=True)]), Watermarks(2, 4, 5))
    assert job.state_rows() == 1  # 1 at 3: 2 has ended
    [output] = job.run(tables(case, [(6, (2, 0)), (6, (1, 0))], []), Watermarks(5, 5, 7))
    assert [row["w"] for row in output.to_pylist()] == [3]


def test_late_rows_and_changes_are_refused() -> None:
    case = Case()
    late = tables(case, [(3, (1, 1))], [])
    with pytest.raises(InternalError, match="a late one"):
        Shards(case.spec, 1, [KEY.name]).run(late, Watermarks(3, 3, 3))
    left, right = tables(case, [], [(9, (1, 1, "a", False))])
    changes = right.append_column(WEIGHT_COLUMN, pa.array([1], pa.int64()))
    with pytest.raises(InternalError, match="append-only"):
        Shards(case.spec, 1, [KEY.name]).run([left, changes], Watermarks(3, 3, 3))
