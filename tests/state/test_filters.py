"""What DuckDB pushes down to a relation is filtered as DuckDB filters, and no bound is read out of it that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sqlstream.state.pushed import values_of
from sqlstream.state.query import RelationDataset
from sqlstream.state.reading import StateReader
from sqlstream.state.relations import Relation, RelationColumn
from sqlstream_operators.plan.types import BLOB, DOUBLE, VARCHAR

ROWS = pa.table(
    {
        "x": pa.array([1.0, float("nan"), None, -0.0, float("inf"), -1.0]),
        "s": pa.array(["a", "B", "é", None, "", "a\x00"]),
        "b": pa.array([b"\x00", b"", None, b"\xff", b"a", b"aa"]),
    }
)
COLUMNS = (
    RelationColumn("x", DOUBLE, "x"),
    RelationColumn("s", VARCHAR, "s"),
    RelationColumn("b", BLOB, "b"),
)


OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


class AllRows:
    """A reader that gives all rows, whatever is wanted, as a scan does."""

    def rows(self, relation: Relation, values: Any) -> Iterator[pa.Table]:
        yield ROWS.slice(0, 4)
        yield ROWS.slice(4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "where",
    [
        *(
            f"x {operator} {value}"
            for operator in ("=", "<>", "<", "<=", ">", ">=")
            for value in ("1", "0", "'nan'", "'inf'")
        ),
        *(f"s {operator} {value}" for operator in OPERATORS for value in ("'a'", "'é'", "''")),
        *(f"b {operator} 'a'::BLOB" for operator in OPERATORS),
        "x BETWEEN 0 AND 'nan'",
        "x IN (1, 'nan')",
        "NOT x > 1",
        "x IS DISTINCT FROM 1",
        "x IS NULL OR s = 'a'",
        "s NOT IN ('a', 'B')",
        "s IN ('a', NULL)",
        "x = 1 OR s = 'B'",
    ],
)
def test_rows_are_those_of_duckdb(where: str) -> None:
    theirs, ours = duckdb.connect(), duckdb.connect()
    theirs.register("t", ROWS)
    theirs.execute("CREATE TABLE r AS FROM t")
    relation = Relation(("r",), "r", cast(Any, None), None, COLUMNS, "answer")
    ours.register("r", RelationDataset(cast(StateReader, AllRows()), relation))
    sql = f"SELECT CAST(x AS VARCHAR), s, b FROM r WHERE {where} ORDER BY ALL"
    assert ours.execute(sql).fetchall() == theirs.execute(sql).fetchall()


A, B = pc.field("a"), pc.field("b")


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (A == 1, {"a": (1,)}),
        ((A == 1) & (B == "x"), {"a": (1,), "b": ("x",)}),
        ((A == 1) & (A == 2), {"a": ()}),
        ((A == 1) | (A == 2), {"a": (1, 2)}),
        ((A == 1) | (B == "x"), {}),
        (((A == 1) & (B == "x")) | (A == 2), {"a": (1, 2)}),
        (A.isin([1, 2]) & A.isin([2, 3]), {"a": (2,)}),
        (A.isin(pa.array([1, None])), {}),
        (A.is_null(), {"a": (None,)}),
        (A.is_valid(), {}),
        (A > 1, {}),
        (~(A == 1), {}),
        (A != 1, {}),
        (A == 1.5, {}),  # many keys may be one DOUBLE
        (pa.scalar(None, pa.int64()) == A, {}),
        (pc.field("a", "b") == 1, {}),
        (pc.add(A, 1) == 2, {}),
        (A == B, {}),
        (B == 'x") and (a == "1', {"b": ('x") and (a == "1',)}),
        (Decimal("1.50") == A, {"a": (Decimal("1.50"),)}),
        (date(2024, 1, 1) == A, {"a": (date(2024, 1, 1),)}),
        (pa.scalar(datetime(2024, 1, 1), pa.timestamp("us")) == A, {"a": (datetime(2024, 1, 1),)}),
        (pa.scalar(2**62, pa.timestamp("us")) == A, {}),  # no time of Python's
        (None, {}),
    ],
    ids=str,
)
def test_bounds(expression: pc.Expression | None, values: dict[str, tuple[Any, ...]]) -> None:
    assert values_of(expression) == values
