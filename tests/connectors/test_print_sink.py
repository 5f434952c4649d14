from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pytest

from sqlstream.connectors.blackhole.sink import Blackhole
from sqlstream.connectors.print.sink import PrintSink, PrintWriter
from tests.connectors.harness import sink_spec

SCHEMA = {"name": "VARCHAR", "n": "BIGINT", "huge": "HUGEINT", "tags": "VARCHAR[]"}
TABLE = pa.table(
    {
        "name": ["a\nb", None],
        "n": [1, -200],
        "huge": pa.array([None, Decimal(10**30)], pa.decimal128(38, 0)),
        "tags": [["x"], []],
    }
)


def test_rows_are_aligned_with_their_kind_in_front() -> None:
    out = io.StringIO()
    spec = sink_spec(SCHEMA, {"print-identifier": "p"}, connector="print")
    sink, writer = PrintSink(spec, out), PrintWriter()
    parts = [writer.write(TABLE, epoch=1, task="0"), writer.write(TABLE.slice(0, 0), epoch=1, task="1")]
    sink.prepare(1, parts)
    assert out.getvalue() == ""
    sink.commit(1, parts)
    sink.commit(2, [])
    assert out.getvalue() == (
        "p> op  name     n                             huge  tags\n"
        "p> +I  a\\nb     1                             NULL  [x]\n"
        "p> +I  NULL  -200  1000000000000000000000000000000  []\n"
    )


def test_changes_show_their_kind() -> None:
    out = io.StringIO()
    spec = sink_spec({"n": "BIGINT"}, connector="print")
    table = pa.table({"__kind": ["+I", "-U", "+U", "-D"], "n": [1, 1, 2, 2]})
    PrintSink(spec, out).commit(1, [PrintWriter().write(table, epoch=1, task="0")])
    assert out.getvalue() == "op  n\n+I  1\n-U  1\n+U  2\n-D  2\n"


@pytest.mark.parametrize("error", [True, False])
def test_standard_error(capsys: pytest.CaptureFixture[str], error: bool) -> None:
    spec = sink_spec({"n": "BIGINT"}, {"standard-error": str(error).lower()}, connector="print")
    PrintSink(spec).commit(1, [PrintWriter().write(pa.table({"n": [1]}), epoch=1, task="0")])
    out, err = capsys.readouterr()
    assert (bool(out), bool(err)) == (not error, error)


def test_blackhole_counts() -> None:
    part = Blackhole().write(TABLE, epoch=1, task="0")
    assert (part.rows, part.table, dict(part.payload)) == (2, None, {})
