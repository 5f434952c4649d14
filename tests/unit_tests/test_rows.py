"""Rows of any type, written as YAML as `--new` does, are read as the same rows."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.unit_tests.content import cells_of
from sqlstream.unit_tests.fields import items
from sqlstream.unit_tests.model import RowsFormat, WrittenRows
from sqlstream.unit_tests.skeleton import Sample, table_lines
from sqlstream.unit_tests.typed_rows import Shape, typed_rows
from sqlstream.unit_tests.yaml_nodes import Mapping, parse_yaml
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import parse_type
from tests.examples import examples

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8) | st.sampled_from(
    [
        "null",
        "~",
        "no",
        "1:30",
        "- x",
        "# y",
        " z ",
        "'",
        '"',
        "a: b",
        "{}",
        "[",
        "&a",
        "*a",
        "!t",
        "%",
        "@",
        "0x1f",
        "1e3",
    ]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "VARCHAR": TEXT,
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.floats(),
    "DECIMAL(20,3)": st.decimals(-(10**15), 10**15, places=3),
    "DATE": st.dates(datetime.date(1, 1, 1)),
    "TIMESTAMP": st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)),
    "BIGINT[]": st.lists(st.none() | st.integers(-(2**53), 2**53), max_size=3),
    'STRUCT("a b" VARCHAR, n BIGINT)': st.fixed_dictionaries(
        {"a b": st.none() | TEXT, "n": st.none() | st.integers(0, 9)}
    ),
}
COLUMNS = tuple(Column(f"c{i}", parse_type(name)) for i, name in enumerate(VALUES))
ROWS = st.lists(st.tuples(*(st.none() | values for values in VALUES.values())), max_size=4)


@given(ROWS)
@settings(max_examples=examples(60), deadline=None)
def test_rows_are_read_as_they_were_written(rows: list[tuple[Any, ...]]) -> None:
    duck = DuckSession()
    try:
        table = pa.table(
            {c.name: pa.array([row[i] for row in rows], to_arrow(c.type)) for i, c in enumerate(COLUMNS)}
        )
        cells = cells_of(table, COLUMNS, duck)
        text = "\n".join(table_lines(Sample("t", COLUMNS, cells)))
        found = parse_yaml(text, "x.test.yaml")
        assert isinstance(found, Mapping), text
        listed = found.get("t")
        assert listed is not None
        written = WrittenRows(RowsFormat.DICT, items(listed, "rows"), "", listed.span)
        typed = typed_rows(written, Shape("t", COLUMNS), duck)
        assert cells_of(typed.table, COLUMNS, duck) == cells, text
    finally:
        duck.close()
