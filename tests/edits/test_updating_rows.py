"""Rows that only came so far and can go from now on (row 40): the same data as a changelog."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given, settings

from sqlstream_planner.catalog.source_identity import SourceIdentity
from sqlstream_planner.edits.verdict import StateEdit, Verdict
from tests.edits import derived
from tests.edits.derived import APPEND, CHANGES, PHASES, Epochs, appended, assert_derived, needed, planned
from tests.examples import examples

_SAME = {"version": 1, "connector": "filesystem", "options": {"moved": True}}


@pytest.fixture(scope="module", autouse=True)
def one_source() -> Iterator[None]:
    """Both formats are said to have the same rows: an edit that moves a source says so."""
    with (
        mock.patch.object(SourceIdentity, "rows", property(lambda _: _SAME)),
        # Such a plan is not for other tests of the same query.
        mock.patch.object(derived, "_planned", derived._planned.__wrapped__),
    ):
        yield


def _edits(old: str, new: str) -> list[StateEdit]:
    return needed(planned(old, APPEND), planned(new, CHANGES))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "SELECT k, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(d) AS a FROM bid GROUP BY k",
            "SELECT k, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(d) AS a FROM bid GROUP BY k",
        ),
        (
            "SELECT k, g, COUNT(*) AS n, COUNT(w) AS c, SUM(w) AS s FROM bid GROUP BY k, g",
            "SELECT g, COUNT(*) AS n, AVG(w) AS a FROM bid WHERE k > 0 GROUP BY g",
        ),
    ],
)
@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(epochs=appended())
def test_counts_and_sums_go_on(old: str, new: str, epochs: Epochs) -> None:
    [edit] = assert_derived(planned(old, APPEND), planned(new, CHANGES), epochs)
    assert edit.verdict is Verdict.ADAPT


def test_without_a_count_of_rows_nothing_is_known_to_be_there() -> None:
    query = "SELECT k, COUNT(v) AS c, SUM(v) AS s FROM bid GROUP BY k"
    [edit] = _edits(query, query)
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


def test_extremes_need_all_values() -> None:
    query = "SELECT k, COUNT(*) AS n, MIN(v) AS lo FROM bid GROUP BY k"
    [edit] = _edits(query, query)
    assert edit.verdict is Verdict.BACKFILL
    assert {f.table[:7] for f in edit.missing} == {"values_"}


def test_distinct_values_were_not_counted() -> None:
    query = "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM bid GROUP BY k"
    distinct, _ = _edits(query, query)
    assert distinct.verdict is Verdict.BACKFILL
    assert distinct.derivation is None


def test_the_best_are_not_all_rows() -> None:
    query = "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn FROM bid) WHERE rn <= 3"
    [edit] = _edits(query, query)
    assert edit.verdict is Verdict.BACKFILL


def test_rows_that_went_are_not_back() -> None:
    query = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM bid GROUP BY k"
    [edit] = needed(planned(query, CHANGES), planned(query, APPEND))
    assert edit.verdict is Verdict.BACKFILL
