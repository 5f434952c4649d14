"""The changes of Iceberg tables: whatever is done to one, what goes and comes gives the table at each snapshot."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem import cutting
from sqlstream.connectors.iceberg.source import ahead
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.iceberg.deletes import OPERATIONS, Lake
from tests.connectors.iceberg.reading import Reading, table_spec
from tests.connectors.iceberg.tables import Row, table
from tests.examples import examples

CHANGES = {"read-change-feed": "true", "streaming": "true"}


def folded(changes: Iterable[Row], before: Counter[Row] | None = None) -> Counter[Row]:
    """What is there after changes; no row goes that is not there."""
    there = Counter(before or {})
    for *row, kind in changes:
        there[tuple(row)] += 1 if kind == "+I" else -1
    assert all(count >= 0 for count in there.values()), there
    return +there


def scanned(lake: Lake) -> Counter[Row] | None:
    """The rows by Iceberg's library; None: it can't read deletes by values."""
    scan = table(lake.folder).scan(selected_fields=("k", "v"))
    if any(path.rpartition("/")[2].startswith("equals-") for path in lake.unlinkable):
        with pytest.raises(ValueError, match="equality deletes"):
            scan.to_arrow()
        return None
    found = scan.to_arrow()
    return Counter(zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True))


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation(tmp_path: Path, duck: DuckSession, name: str, partitioned: bool) -> None:
    lake = Lake(tmp_path, partitioned=partitioned)
    lake.do(("append", 6))
    lake.do(("append", 4))
    lake.do(("positions", 1))
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    rows, at = one.all()
    there = folded(rows)
    assert there == lake.there == scanned(lake)
    assert not any(kind != "+I" for *_, kind in rows)
    for n in (0, 2):
        lake.do((name, n))
        rows, at = one.all(at)
        there = folded(rows, there)
        assert there == lake.there
        assert scanned(lake) in (lake.there, None)
        if name in ("compact", "empty", "column"):
            assert not rows
    lake.do(("append", 1))
    rows, at = one.again().all(at)
    assert folded(rows, there) == lake.there
    plain = Reading(table_spec(), tmp_path, duck)
    assert Counter(plain.all()[0]) == lake.there, "and so is the table as it is, without changes"


LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 5),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 3000),
    tasks=st.integers(1, 3),
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5)), max_size=4),
            LIMITS,
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    partitioned=st.booleans(),
    start=st.sampled_from(["table", "first", "second"]),
    most=st.sampled_from([1, 2, 10_000]),
    data=st.data(),
)
def test_however_it_is_cut(
    duck: DuckSession,
    steps: Sequence[tuple[Sequence[tuple[str, int]], Limits, bool]],
    partitioned: bool,
    start: str,
    most: int,
    data: st.DataObject,
) -> None:
    """Where a snapshot ends, the rows are the table's; a run that dies reads the same once more."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SMALLEST_SPLIT", 1)
        patch.setattr(ahead, "_MOST_FILES", most)
        lake = Lake(Path(name), partitioned=partitioned)
        lake.do(("append", 4))
        before = {"first": Counter[Row](), "second": lake.there, "table": Counter[Row]()}[start]
        at_snapshot = {table(lake.folder).snapshots()[-1].snapshot_id: lake.there}
        for what in data.draw(
            st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5)), min_size=1, max_size=3)
        ):
            lake.do(what)
            at_snapshot[table(lake.folder).snapshots()[-1].snapshot_id] = lake.there
        snapshots = table(lake.folder).snapshots()
        if start == "second" and len(snapshots) < 2:
            return
        number = str(snapshots[1 if start == "second" else 0].snapshot_id)
        one = Reading(
            table_spec({**CHANGES, **({} if start == "table" else {"start-snapshot-id": number})}),
            lake.folder,
            duck,
        )
        at = one.source.initial_position()
        there, rows = before, list[Row]()
        places = [(at, 0)]
        for writes, limits, another_run in steps:
            for what in writes:
                lake.do(what)
                at_snapshot[table(lake.folder).snapshots()[-1].snapshot_id] = lake.there
            one = one.again() if another_run else one
            for epoch in one.epochs(at, limits):
                if not epoch.splits:
                    break
                again = one.again().epoch(at, limits)
                assert (again.rows, again.after) == (epoch.rows, epoch.after)
                rows += epoch.rows
                there = folded(epoch.rows, there)
                at = epoch.after
                places.append((at, len(rows)))
                place = IcebergPosition.from_json(at)
                if place.at is None and place.after is not None:
                    assert there == at_snapshot[place.after]
        assert there == lake.there
        assert scanned(lake) in (lake.there, None)
        assert Counter(Reading(table_spec(), lake.folder, duck).all()[0]) == lake.there
        some, count = places[data.draw(st.integers(0, 999)) % len(places)]
        assert one.history(some, data.draw(LIMITS)) == rows[:count]
