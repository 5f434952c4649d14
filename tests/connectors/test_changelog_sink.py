"""What the sinks write of changes, by hand; and that it reads back as the same changes."""

from __future__ import annotations

import io
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.blackhole.sink import Blackhole
from sqlstream.connectors.filesystem.sink import FileSink, FileWriter
from sqlstream.connectors.print.sink import PrintSink, PrintWriter
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.row_kinds import to_kinds
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import context, read_all, rows, sink_spec, source_spec
from tests.connectors.test_filesystem_properties import LIMITS, TYPES
from tests.examples import examples

SCHEMA = {"k": "BIGINT", "v": "VARCHAR", "at": "TIMESTAMP", "b": "BLOB"}
WEIGHT = "__weight"


def table_of(schema: dict[str, str], changes: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of (weight, values …)."""
    data = list(zip(*changes, strict=True)) or [()] * (len(schema) + 1)
    arrays = [
        pa.array(list(v), to_arrow(parse_type(t))) for t, v in zip(schema.values(), data[1:], strict=True)
    ]
    return pa.table([*arrays, pa.array(list(data[0]), pa.int64())], names=[*schema, WEIGHT])


CHANGES = table_of(
    SCHEMA,
    [
        (1, 3, None, 10**15, b"\0"),
        (-1, 1, "a", None, None),
        (1, 1, 'x"y', None, None),
        (-1, 2, "é", 0, b""),
    ],
)


def written(spec: SinkSpec, folder: Path, table: pa.Table, epoch: int = 1) -> dict[str, str]:
    """Write, commit, and read the text of every visible file."""
    writer, sink = FileWriter(spec, str(folder)), FileSink(spec, context(folder))
    part = writer.write(table, epoch=epoch, task="0")
    sink.prepare(epoch, [part])
    sink.commit(epoch, [part])
    root = folder / "out"
    names = [p for p in sorted(root.rglob("*")) if p.is_file() and ".sqlstream" not in p.parts]
    return {str(p.relative_to(root)): p.read_text() for p in names}


def keyed(format_: str, options: dict[str, str] | None = None, **more: Any) -> SinkSpec:
    return sink_spec(SCHEMA, options, path="out", format=format_, changelog="retract", key=("k",), **more)


def test_debezium_has_an_update_as_two_messages(tmp_path: Path) -> None:
    assert written(keyed("debezium-json"), tmp_path, CHANGES) == {
        "part-000001-0.json": """\
{"before":{"k":1,"v":"a","at":null,"b":null},"after":null,"op":"d"}
{"before":null,"after":{"k":1,"v":"x\\"y","at":null,"b":null},"op":"c"}
{"before":{"k":2,"v":"é","at":"1970-01-01 00:00:00","b":""},"after":null,"op":"d"}
{"before":null,"after":{"k":3,"v":null,"at":"2001-09-09 01:46:40","b":"AA=="},"op":"c"}
"""
    }


def test_changelog(tmp_path: Path) -> None:
    spec = keyed("changelog-json", {"changelog-json.timestamp-format.standard": "ISO-8601"})
    assert written(spec, tmp_path, CHANGES) == {
        "part-000001-0.json": """\
{"data":{"k":1,"v":"a","at":null,"b":null},"op":"-U"}
{"data":{"k":1,"v":"x\\"y","at":null,"b":null},"op":"+U"}
{"data":{"k":2,"v":"é","at":"1970-01-01T00:00:00","b":""},"op":"-D"}
{"data":{"k":3,"v":null,"at":"2001-09-09T01:46:40","b":"AA=="},"op":"+I"}
"""
    }


def test_debezium_without_null_fields(tmp_path: Path) -> None:
    options = {
        "debezium-json.encode.ignore-null-fields": "true",
        "debezium-json.timestamp-format.standard": "ISO-8601",
    }
    assert written(keyed("debezium-json", options), tmp_path, CHANGES) == {
        "part-000001-0.json": """\
{"before":{"k":1,"v":"a"},"op":"d"}
{"after":{"k":1,"v":"x\\"y"},"op":"c"}
{"before":{"k":2,"v":"é","at":"1970-01-01T00:00:00","b":""},"op":"d"}
{"after":{"k":3,"at":"2001-09-09T01:46:40","b":"AA=="},"op":"c"}
"""
    }


@pytest.mark.parametrize("format_", ["debezium-json", "changelog-json"])
def test_an_append_only_query_only_inserts(tmp_path: Path, format_: str) -> None:
    spec = sink_spec({"k": "BIGINT"}, path="out", format=format_)
    [text] = written(spec, tmp_path, pa.table({"k": [2, 1, 2]})).values()
    messages = [json.loads(line) for line in text.splitlines()]
    if format_ == "debezium-json":
        assert messages == [{"before": None, "after": {"k": k}, "op": "c"} for k in (2, 1, 2)]
    else:
        assert messages == [{"data": {"k": k}, "op": "+I"} for k in (2, 1, 2)]


def test_without_a_key_copies_are_messages_and_deletes_come_first(tmp_path: Path) -> None:
    schema = {"k": "BIGINT"}
    spec = sink_spec(schema, path="out", format="changelog-json", changelog="retract")
    table = table_of(schema, [(2, 1), (-2, 5), (-1, None)])
    [text] = written(spec, tmp_path, table).values()
    shown = [(m["op"], m["data"]["k"]) for m in map(json.loads, text.splitlines())]
    assert shown == [("-D", None), ("-D", 5), ("-D", 5), ("+I", 1), ("+I", 1)]


def test_the_rows_of_a_part_are_its_messages(tmp_path: Path) -> None:
    schema = {"k": "BIGINT"}
    table = table_of(schema, [(2, 1), (-3, 5)])
    spec = sink_spec(schema, path="out", format="changelog-json", changelog="retract")
    assert FileWriter(spec, str(tmp_path)).write(table, epoch=1, task="0").rows == 5
    assert FileWriter(spec, str(tmp_path)).write(table.slice(0, 0), epoch=1, task="0").rows == 0
    assert Blackhole().write(table, epoch=1, task="0").rows == 5
    assert PrintWriter().write(table, epoch=1, task="0").rows == 5


def test_large_files_are_cut_in_an_order_that_is_listed(tmp_path: Path, duck: DuckSession) -> None:
    schema = {"k": "BIGINT", "v": "VARCHAR"}
    options = {"sink.rolling-policy.file-size": "1 kb"}
    spec = sink_spec(schema, options, path="out", format="changelog-json", changelog="retract", key=("k",))
    changes = [(w, k, "new" if w > 0 else "old") for k in range(100) for w in (-1, 1)]
    files = written(spec, tmp_path, table_of(schema, changes))
    assert len(files) > 2
    written(spec, tmp_path, table_of(schema, [(-1, 5, "new")]), epoch=2)
    source = source_spec(schema, path="out", format="changelog-json")
    read = read_all(duck, source, context(tmp_path, "reader"))
    expected = [(k, v, kind) for k in range(100) for v, kind in (("old", "-U"), ("new", "+U"))]
    assert read.rows == [*expected, (5, "new", "-D")]


def test_partitions(tmp_path: Path) -> None:
    schema = {"day": "INTEGER", "k": "BIGINT", "v": "VARCHAR"}
    spec = sink_spec(
        schema,
        path="out",
        format="changelog-json",
        changelog="retract",
        key=("k", "day"),
        partitioned_by=("day",),
    )
    table = table_of(schema, [(-1, 1, 1, "a"), (1, 2, 1, "c"), (1, 1, 1, "b")])
    assert written(spec, tmp_path, table) == {
        "day=1/part-000001-0.json": '{"data":{"k":1,"v":"a"},"op":"-U"}\n{"data":{"k":1,"v":"b"},"op":"+U"}\n',
        "day=2/part-000001-0.json": '{"data":{"k":1,"v":"c"},"op":"+I"}\n',
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (sink_spec(SCHEMA, path="out", format="canal-json"), "'canal-json'; expected one of json, csv"),
        (sink_spec(SCHEMA, path="out", format="maxwell-json"), "'maxwell-json'; expected one of json, csv"),
        (
            sink_spec(SCHEMA, {"debezium-json.schema-include": "true"}, path="out", format="debezium-json"),
            "schema-include",
        ),
        (keyed("changelog-json", partitioned_by=("v",)), "could move it to another folder"),
    ],
)
def test_what_can_t_be_written_is_refused(tmp_path: Path, spec: SinkSpec, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        FileSink(spec, context(tmp_path))
    with pytest.raises(DiagnosticError, match=message):
        FileWriter(spec, str(tmp_path))


def test_print_shows_the_kinds_of_an_epoch_in_the_order_of_the_key() -> None:
    schema = {"k": "BIGINT", "v": "VARCHAR"}
    for key, expected in [
        (("k",), "op  k  v\n-U  1  a\n+U  1  b\n-D  2  x\n+I  3  y\n"),
        ((), "op  k  v\n-D  1  a\n-D  2  x\n+I  1  b\n+I  3  y\n"),
    ]:
        out = io.StringIO()
        spec = sink_spec(schema, connector="print", changelog="retract", key=key)
        tables = [
            table_of(schema, [(1, 3, "y"), (-1, 1, "a")]),
            table_of(schema, [(1, 1, "b"), (-1, 2, "x")]),
        ]
        parts = [PrintWriter().write(table, epoch=1, task=str(i)) for i, table in enumerate(tables)]
        PrintSink(spec, out).commit(1, parts)
        assert out.getvalue() == expected


@st.composite
def updating(draw: st.DrawFn) -> tuple[dict[str, str], list[pa.Table], tuple[str, ...]]:
    """Epochs of changes of a table with the key `k`, or of a multiset without a key."""
    chosen = draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=3))
    schema = {"k": "INTEGER", **{f"c{i}" if i % 2 else f"C {i}": type_ for i, type_ in enumerate(chosen)}}
    epochs = []
    keyed = draw(st.booleans())
    for _ in range(draw(st.integers(1, 3))):
        changes = []
        for k in range(draw(st.integers(0, 6))):
            for weight in draw(st.sampled_from([(1,), (-1,), (-1, 1)] if keyed else [(3,), (-2,), (-1, 1)])):
                values = [draw(st.none() | TYPES[type_]) for type_ in chosen]
                changes.append((weight, k, *values))
        epochs.append(table_of(schema, draw(st.permutations(changes)) if changes else changes))
    return schema, epochs, ("k",) if keyed else ()


@settings(
    max_examples=examples(7), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(updating(), st.sampled_from(["debezium-json", "changelog-json"]), LIMITS, st.booleans(), st.booleans())
def test_what_is_written_reads_back_as_the_same_changes(
    duck: DuckSession,
    drawn: tuple[dict[str, str], list[pa.Table], tuple[str, ...]],
    format_: str,
    limits: Any,
    bad_lines: bool,
    compact: bool,
) -> None:
    schema, epochs, key = drawn
    assume(any(table.num_rows for table in epochs))
    options = {"debezium-json.encode.ignore-null-fields": str(compact).lower()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = sink_spec(
            schema,
            options if format_ == "debezium-json" else None,
            path="out",
            format=format_,
            changelog="retract",
            key=key,
        )
        expected: list[tuple[Any, ...]] = []
        for number, table in enumerate(epochs, start=1):
            written(spec, folder, table, number)
            expected += rows(to_kinds(table, key, spec.schema))
        if bad_lines:
            for path in (folder / "out").glob("*.json"):
                path.write_text(f'{{"op":"?"}}\nnull\n{path.read_text()}')
        source = source_spec(schema, path="out", format=format_)
        read = read_all(duck, source, context(folder, "reader"), limits)
        assert bool(read.bad) == bad_lines
        if format_ == "debezium-json":
            renamed = {"-U": "-D", "+U": "+I"}
            expected = [(*row[:-1], renamed.get(row[-1], row[-1])) for row in expected]
        assert read.rows == expected
        signed = Counter(row[-1][0] for row in read.rows)
        assert signed["+"] - signed["-"] == sum(sum(table[WEIGHT].to_pylist()) for table in epochs)
