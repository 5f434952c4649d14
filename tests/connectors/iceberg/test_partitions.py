"""The partition of each row by a table's transforms: as Iceberg's library has it of each value, one by one."""

from __future__ import annotations

import datetime
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg import transforms
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.iceberg.sink.partitions import not_written, partitions
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_operators.errors import TargetError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.iceberg.tables import OPTIONS, create, rows_of, table
from tests.examples import examples

SQL = (
    "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    "CREATE TABLE o ({}) WITH ({});\nINSERT INTO o SELECT {} FROM t;\n"
)
MICROS = st.integers(-(10**14), 10**14) | st.sampled_from(
    [0, -1, 3_600_000_000, -3_600_000_000, 86_400_000_000 - 1]
)
SEEN: list[
    tuple[PrimitiveType, pa.DataType, st.SearchStrategy[Any], list[transforms.Transform[Any, Any]]]
] = [
    (
        IntegerType(),
        pa.int32(),
        st.integers(-(2**31), 2**31 - 1),
        [transforms.BucketTransform(7), transforms.TruncateTransform(10)],
    ),
    (
        LongType(),
        pa.int64(),
        st.integers(-(2**63), 2**63 - 1),
        [transforms.BucketTransform(16), transforms.IdentityTransform()],
    ),
    (
        DecimalType(9, 2),
        pa.decimal128(9, 2),
        st.decimals(-9_999_999, 9_999_999, places=2).map(lambda d: d + Decimal("0.00")),
        [transforms.BucketTransform(5), transforms.TruncateTransform(50), transforms.IdentityTransform()],
    ),
    (
        StringType(),
        pa.string(),
        st.text(max_size=6),
        [transforms.BucketTransform(5), transforms.TruncateTransform(2)],
    ),
    (
        BinaryType(),
        pa.binary(),
        st.binary(max_size=6),
        [transforms.BucketTransform(5), transforms.TruncateTransform(2)],
    ),
    (
        DateType(),
        pa.int32(),
        st.integers(-50_000, 50_000),
        [
            transforms.DayTransform(),
            transforms.MonthTransform(),
            transforms.YearTransform(),
            transforms.BucketTransform(4),
        ],
    ),
    *(
        (
            type_,
            pa.int64(),
            MICROS,
            list[Any](
                (
                    transforms.HourTransform(),
                    transforms.DayTransform(),
                    transforms.MonthTransform(),
                    transforms.YearTransform(),
                    transforms.BucketTransform(4),
                    transforms.IdentityTransform(),
                )
            ),
        )
        for type_ in (TimestampType(), TimestamptzType())
    ),
]
ARROW = {
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
}


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_partitions_are_those_of_each_value(data: st.DataObject) -> None:
    type_, arrow, values, kinds = data.draw(st.sampled_from(SEEN))
    transform = data.draw(st.sampled_from(kinds))
    drawn = data.draw(st.lists(st.none() | values, min_size=1, max_size=12))
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "x", type_))
    spec = PartitionSpec(PartitionField(2, 1000, transform, "part"))
    assert not [*not_written(spec, schema)]
    rows = pa.table({"n": range(len(drawn)), "x": pa.array(drawn, arrow).cast(ARROW.get(type_, arrow))})
    one = transform.transform(type_)
    found = {}
    for key, part in partitions(rows, spec, schema):
        assert key is not None
        for number in part.column("n").to_pylist():
            found[number] = key.partition[0]
        assert part.column("n").to_pylist() == sorted(part.column("n").to_pylist()), "in their order"
    assert found == {number: one(value) for number, value in enumerate(drawn)}


def test_what_is_not_written_is_refused_by_its_name(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "k", IntegerType(), required=False), NestedField(2, "f", FloatType(), required=False)
    )
    create(
        tmp_path,
        schema,
        partitions=PartitionSpec(PartitionField(2, 1000, transforms.IdentityTransform(), "f")),
    )
    sql = SQL.format("k INT, f FLOAT", OPTIONS.format(name="table"), "k, k::FLOAT")
    spec = plan_file(sql, file="p.sql").physical.sinks[0]
    sink: Any = REGISTERED.sink(spec, ConnectorContext(CheckpointStore(tmp_path / "state"), str(tmp_path)))
    with pytest.raises(TargetError, match="the partition identity of `f`, which is float"):
        sink.check(previous=0)


def test_a_table_with_hidden_partitions_is_written() -> None:
    """It is pruned by its partitions as Iceberg's library understands them, and no row is passed over."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema = Schema(
            NestedField(1, "k", LongType(), required=False),
            NestedField(2, "ts", TimestampType(), required=False),
            NestedField(3, "s", StringType(), required=False),
        )
        create(
            folder,
            schema,
            partitions=PartitionSpec(
                PartitionField(1, 1000, transforms.BucketTransform(3), "k_bucket"),
                PartitionField(2, 1001, transforms.DayTransform(), "ts_day"),
                PartitionField(3, 1002, transforms.TruncateTransform(1), "s_trunc"),
            ),
        )
        sql = SQL.format("k BIGINT, ts TIMESTAMP(6), s STRING", OPTIONS.format(name="table"), "k, NULL, NULL")
        spec = plan_file(sql, file="p.sql").physical.sinks[0]
        context = ConnectorContext(CheckpointStore(folder / "state"), str(folder))
        sink: Any = REGISTERED.sink(spec, context)
        sink.check(previous=0)
        begun = datetime.datetime(1969, 12, 30)
        rows = [
            (
                k,
                None if k % 7 == 0 else begun + datetime.timedelta(hours=7 * k),
                None if k % 5 == 0 else f"{k}x",
            )
            for k in range(60)
        ]
        columns: list[Any] = [*zip(*rows, strict=True)]
        written = pa.table(
            {
                "k": pa.array(columns[0], pa.int64()),
                "ts": pa.array(columns[1], pa.timestamp("us")),
                "s": columns[2],
            }
        )
        part = REGISTERED.writer(spec, context).write(written, epoch=1, task="0-00000")
        sink.prepare(1, [part], previous=0)
        sink.commit(1, [part], previous=0)
        assert sorted(rows_of(folder, ("k", "ts", "s")), key=str) == sorted(rows, key=str)
        there = table(folder)
        for k, ts, s in rows:
            conditions = [
                f"k = {k}",
                *([f"ts = '{ts.isoformat()}'"] if ts else []),
                *([f"s = '{s}'"] if s else []),
            ]
            scan = there.scan(row_filter=" and ".join(conditions))
            assert scan.to_arrow().num_rows == 1, conditions
            assert len([*scan.plan_files()]) == 1, "others are passed over"
