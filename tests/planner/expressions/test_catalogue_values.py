"""The catalogue from end to end: the value that a pipeline gives for each call is DuckDB's.

What DuckDB says is asked of the call as it is written, but for those that mean what Flink and Spark say.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.planner.expressions.catalogue_values import COUNT, Asked, Dealt, Values, known
from tests.planner.expressions.test_catalogue_walk import LONG

#: What means something else than in DuckDB: docs/functions.md has them, test_translate.py their values.
DIALECT = frozenset(
    {"concat", "log", "dayofweek", "weekday", "regexp_replace", "url_encode", "url_decode", "from_base64"}
    | {"array_distinct", "array_intersect", "array_position", "array_prepend", "json_value", "<=>"}
)
SCALARS = "SELECT key, {items} FROM t WHERE key IN ({keys})"
#: Of so many of the calls that the walk tries one is run; the long search runs all.
ONE_OF = 1 if LONG else 3
#: One key a row.
ROWS = tuple(Dealt(key=row, number=row, version=1, row=row) for row in range(COUNT))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Values]:
    values = Values(tmp_path_factory.mktemp("rows"), ROWS)
    yield values
    values.close()


def test_a_scalar_gives_what_duckdb_gives(rows: Values) -> None:
    some = list(known(False, ONE_OF))
    wanted = rows.answered(SCALARS, {e.call: e.sql if e.name in DIALECT else e.call for e in some})
    requested = Asked(rows, SCALARS, wanted)
    wrong, count = requested.differences([e.call for e in some if "unnest" not in e.call], at_once=64)
    more, others = requested.differences([e.call for e in some if "unnest" in e.call], at_once=1)
    assert not (wrong + more), "\n".join(wrong + more)
    assert count + others > 1000 // ONE_OF
