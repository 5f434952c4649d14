"""Groups of windows from those of other windows over the same slices, by fewer keys, filtered (rows 12, 14 to 16, 19)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.operators.window.windows import slice_end, window_ends_of_slice
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.edits.derivations.slices import coarse_end, slices_suffice
from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import PHASES, Epochs, appended, assert_derived, needed, planned
from tests.examples import examples

TUMBLE_10 = "TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
TUMBLE_20 = "TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '20' SECOND)"
SHIFTED_10 = "TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)"
HOP_5_10 = "HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
HOP_5_30 = "HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '30' SECOND)"
HOP_10_40 = "HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '40' SECOND)"
CUMULATE_5_20 = "CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)"
CUMULATE_10_20 = "CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)"
_ALL = (
    "COUNT(*) AS n, SUM(v) AS s, AVG(w) AS a, MIN(v) AS lo, MAX(g) AS hi, SUM(x) AS sx, "
    "COUNT(DISTINCT v) AS dv, COUNT(DISTINCT g) FILTER (WHERE v > 0) AS dg"
)


def query(window: str, keys: str = "k, g", where: str = "", aggregates: str = _ALL) -> str:
    by = f", {keys}" if keys else ""
    return (
        f"SELECT window_start, window_end{by}, {aggregates} FROM TABLE({window}) {where} "
        f"GROUP BY window_start, window_end{by}"
    )


SAME_SLICES = {
    "the same windows, a key dropped": (query(TUMBLE_10), query(TUMBLE_10, "k")),
    "all keys dropped": (query(HOP_5_10), query(HOP_5_10, "")),
    "a function of a key": (query(HOP_5_10, "g"), query(HOP_5_10, "LOWER(g)")),
    "a filter on a key": (query(TUMBLE_10), query(TUMBLE_10, where="WHERE k > 1")),
    "a filter on a key that is dropped": (query(CUMULATE_5_20), query(CUMULATE_5_20, "k", "WHERE g <> 'a'")),
    "HOP to TUMBLE of its size": (query(HOP_5_10), query(TUMBLE_10)),
    "HOP to a shorter HOP": (query(HOP_5_30), query(HOP_5_10)),
    "HOP to TUMBLE of several slides": (query(HOP_10_40), query(TUMBLE_20, "k")),
    "CUMULATE to TUMBLE": (query(CUMULATE_5_20), query(TUMBLE_20)),
    "CUMULATE to TUMBLE of its steps": (query(CUMULATE_5_20), query(TUMBLE_10, "")),
    "CUMULATE to longer steps": (query(CUMULATE_5_20), query(CUMULATE_10_20)),
    "HOP to CUMULATE": (query(HOP_10_40), query(CUMULATE_10_20)),
    "HOP to TUMBLE shifted": (query(HOP_5_30), query(SHIFTED_10)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SAME_SLICES)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(epochs=appended(spread_s=60))
def test_windows_are_made_of_slices_that_are_there(name: str, epochs: Epochs) -> None:
    old, new = (planned(text) for text in SAME_SLICES[name])
    [edit] = assert_derived(old, new, epochs)
    assert edit.verdict is Verdict.ADAPT
    assert edit.reason


EARLY = {
    "a key dropped": (query(TUMBLE_10), query(TUMBLE_10, "g")),
    "a function of a key and a filter": (query(HOP_5_10), query(HOP_5_10, "UPPER(g)", "WHERE k > 0")),
    "a filter on the window": (
        query(TUMBLE_10),
        query(TUMBLE_10, where="WHERE window_end > TIMESTAMP '2024-01-01 00:00:30'"),
    ),
}


@pytest.mark.parametrize("name", EARLY)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(epochs=appended(spread_s=60))
def test_windows_that_are_given_early(name: str, epochs: Epochs) -> None:
    old, new = (planned(f"{text} EMIT CHANGES") for text in EARLY[name])
    [edit] = assert_derived(old, new, epochs)
    assert edit.verdict is Verdict.ADAPT


def test_windows_given_early_and_others_have_nothing_in_common() -> None:
    old, new = planned(query(TUMBLE_10)), planned(f"{query(TUMBLE_10, 'k')} EMIT CHANGES")
    assert [e.verdict for e in needed(old, new)] == [Verdict.BACKFILL]
    assert [e.verdict for e in needed(new, old)] == [Verdict.BACKFILL]


NOT_DERIVABLE = {
    "a multiple, whose early panes may be gone": (query(TUMBLE_10), query(TUMBLE_20)),
    "finer windows": (query(TUMBLE_20), query(TUMBLE_10)),
    "a longer HOP": (query(HOP_5_10), query(HOP_5_30)),
    "TUMBLE to HOP of slides that it has not": (query(TUMBLE_10), query(HOP_5_10)),
    "TUMBLE to CUMULATE": (query(TUMBLE_20), query(CUMULATE_5_20)),
    "slices that lie elsewhere": (query(TUMBLE_10), query(SHIFTED_10)),
    "a filter on another column": (query(TUMBLE_10), query(TUMBLE_10, where="WHERE v > 1")),
    "a filter removed": (query(TUMBLE_10, where="WHERE k > 1"), query(TUMBLE_10)),
    "a filter on the window": (
        query(HOP_5_10),
        query(HOP_5_10, where="WHERE window_end > TIMESTAMP '2024-01-01 00:00:10'"),
    ),
    "a key added": (query(TUMBLE_10, "k"), query(TUMBLE_10)),
    "only what depends on arrival": (
        query(TUMBLE_10, aggregates="FIRST_VALUE(v) AS f"),
        query(TUMBLE_10, "k", aggregates="FIRST_VALUE(v) AS f"),
    ),
}


@pytest.mark.parametrize("name", NOT_DERIVABLE)
def test_what_looks_alike_is_computed_anew(name: str) -> None:
    old, new = (planned(text) for text in NOT_DERIVABLE[name])
    [edit] = needed(old, new)
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


def test_what_depends_on_arrival_is_backfilled_beside_the_rest() -> None:
    calls = "COUNT(*) AS n, FIRST_VALUE(v) AS f, LISTAGG(g) AS l"
    old, new = planned(query(TUMBLE_10, aggregates=calls)), planned(query(TUMBLE_10, "k", aggregates=calls))
    [edit] = needed(old, new)
    assert edit.derivation is not None
    [_acc] = edit.derivation.tables
    assert edit.verdict is Verdict.BACKFILL
    assert {f.name for f in edit.missing} == {c.name for c in acc_of(edit.new)} - {"count"}


def acc_of(spec: object) -> Schema:
    assert isinstance(spec, WindowAggregateSpec)
    return spec.accumulators


_SECONDS = st.integers(1, 6)


@st.composite
def windows(draw: st.DrawFn) -> WindowSpec:
    kind = draw(st.sampled_from([WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE]))
    slide = draw(_SECONDS)
    times = draw(st.integers(1, 4))
    size = {WindowKind.TUMBLE: slide, WindowKind.CUMULATE: slide * times}.get(kind, draw(_SECONDS) * 2)
    return WindowSpec(kind, size, slide, draw(st.integers(-3, 3)))


@settings(max_examples=examples(150), deadline=None)
@given(windows(), windows())
def test_slices_suffice_is_what_the_operators_keep(old: WindowSpec, new: WindowSpec) -> None:
    times = np.arange(200, 600)
    fine, coarse = slice_end(old, times), slice_end(new, times)
    kept, wanted = window_ends_of_slice(old, fine), window_ends_of_slice(new, coarse)
    needed_here = wanted[0] <= wanted[1]
    missed = needed_here & ((kept[0] > kept[1]) | (kept[1] < wanted[1]))
    if slices_suffice(old, new):
        assert not missed.any()
        assert [coarse_end(new, e) for e in fine.tolist()] == coarse.tolist()
    elif new.slide_us <= new.size_us and (kept[0] <= kept[1]).all():
        nested = all(len(set(coarse[fine == end])) == 1 for end in set(fine.tolist()))
        assert missed.any() or not nested
