"""The catalogue's aggregates from end to end: in epochs and over shards a pipeline gives what DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from sqlstream_planner.aggregates import registry
from tests.planner.expressions.catalogue_values import COUNT, Answer, Asked, Dealt, Values, known
from tests.planner.expressions.test_catalogue_walk import LONG

#: The same of aggregates.
DIALECT_AGGREGATES = frozenset[str]()
#: Of so many of the calls that the walk tries one is run; the long search runs all.
ONE_OF = 1 if LONG else 96
#: How many epochs the rows come in.
EPOCHS = (2, 4)
#: Where the calls of aggregates are in a pipeline.
_LAST = "SELECT key, {items} FROM t WHERE version = 1 AND key IN ({keys}) GROUP BY key"
SETTINGS = {
    "append-only": _LAST,
    "a window": "SELECT key, {items} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(moment), INTERVAL '1' DAY)) "
    "WHERE version = 1 AND key IN ({keys}) GROUP BY window_start, window_end, key",
    "rows that change": "SELECT key, {items} FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY number ORDER BY version DESC) AS rn FROM t WHERE key IN ({keys})) "
    "WHERE rn = 1 GROUP BY key",
}
#: What rows that change are on the way, where an aggregate may be too large for its type.
_ON_THE_WAY = (
    "SELECT key, {items} FROM t WHERE version = 0 AND key IN ({keys}) GROUP BY key",
    "SELECT key, {items} FROM t WHERE key IN ({keys}) GROUP BY key",
)

#: The rows of each group: all, each twice, and pairs.
_GROUPS: Mapping[int, Sequence[int]] = {
    0: range(COUNT),
    **{1 + row: (row, row) for row in range(COUNT)},
    20: (0, 3),
    21: (2, 5),
}


def _dealt() -> tuple[Dealt, ...]:
    """The rows of the groups, each coming first with the values of another one of its group, all mixed."""
    found: list[tuple[int, Dealt]] = []
    for key, group in _GROUPS.items():
        for place, row in enumerate(group):
            number = len(found) // 2
            first = Dealt(key, number, 0, group[(place + 1) % len(group)])
            found += [(number * 7 % 23, first), (number * 7 % 23 + 9, Dealt(key, number, 1, row))]
    return tuple(dealt for _, dealt in sorted(found, key=lambda pair: pair[0]))


GROUPS = _dealt()


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Values]:
    values = Values(tmp_path_factory.mktemp("groups"), GROUPS)
    yield values
    values.close()


@pytest.mark.parametrize("epochs", EPOCHS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_an_aggregate_gives_what_duckdb_gives(setting: str, epochs: int, groups: Values) -> None:
    """Over two shards; of what depends on the order of rows the referee's SQL is asked."""
    found = list(known(True, ONE_OF))
    calls = [e.call for e in found]
    # Each of the few calls in one cut; the long search takes all in every one. It was the longest test of the suite.
    chosen = set(calls if LONG else calls[EPOCHS.index(epochs) :: len(EPOCHS)])
    # docs/sql/aggregates.md: of an INTERVAL that is kept by value, days are left.
    some = [e for e in found if e.call in chosen and "iv" not in e.call]
    spelled = {e.call: e.sql if e.name in DIALECT_AGGREGATES else e.call for e in some}
    queries = (_LAST, *_ON_THE_WAY) if setting == "rows that change" else (_LAST,)
    answered = [groups.answered(query, spelled) for query in queries]
    wanted: dict[str, tuple[tuple[int, ...], Answer | None]] = {}
    for each in some:
        keys = tuple(k for k in groups.keys if all(k in a.get(each.call, ((), []))[0] for a in answered))
        function = registry.find(each.name)
        assert function is not None
        if keys:
            answer = [row for row in answered[0][each.call][1] if row[0] in {str(k) for k in keys}]
            of_order = function.order_sensitive or function.batch_any_order or function.batch_in_order
            wanted[each.call] = keys, None if of_order else answer
    rows_per_epoch = -(-len(GROUPS) // epochs)
    requested = Asked(groups, SETTINGS[setting], wanted, rows_per_epoch, nearly=True)
    wrong, count = requested.differences([e.call for e in some], at_once=16)
    assert not wrong, "\n".join(wrong)
    assert count > 4
