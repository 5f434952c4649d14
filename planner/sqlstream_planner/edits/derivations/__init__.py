"""How the state of a new query is computed from the state of an old one: rules, one per file.

A state table is a materialised relation: at every epoch it holds the result of a defining query over the input so far.
A rule says that the defining query of a new table can be answered from old tables (Gupta, Mumick and Ross, SIGMOD
1995), and how. What no rule shows to be right is computed anew from the sources' history: the safe default is *different*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlstream_planner.edits.derivations.distinct_values import derive_distinct_values
from sqlstream_planner.edits.derivations.filtered_groups import derive_filtered_groups
from sqlstream_planner.edits.derivations.groups import derive_groups
from sqlstream_planner.edits.derivations.groups_of_rows import derive_groups_of_rows
from sqlstream_planner.edits.derivations.joined_rows import derive_joined_rows
from sqlstream_planner.edits.derivations.ranked_rows import derive_ranked_rows
from sqlstream_planner.edits.derivations.rows_of_over import derive_rows_of_over
from sqlstream_planner.edits.derivations.rule import Derived, Rule, Wanted
from sqlstream_planner.edits.derivations.same_rows import derive_same_rows
from sqlstream_planner.edits.derivations.spelled import in_one_spelling
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.edits.derivations.time_to_live import derive_time_to_live
from sqlstream_planner.edits.derivations.widened import without_widened_types
from sqlstream_planner.edits.derivations.windows import derive_windows

RULES: tuple[Rule, ...] = (
    derive_groups,
    derive_distinct_values,
    derive_filtered_groups,
    derive_groups_of_rows,
    derive_windows,
    derive_ranked_rows,
    derive_rows_of_over,
    derive_joined_rows,
    derive_time_to_live,
    derive_same_rows,
)

_WIDER = "the same values in wider types"


def derivations(wanted: Wanted) -> Iterable[tuple[Stored, Derived]]:
    """Every way in which a rule computes a state from one of the old ones: as they are written, then by what they mean."""
    for old in wanted.before:
        yield from _by_rules(old, old, wanted)
    for old, spelled, meant in in_one_spelling(wanted):
        yield from _by_rules(old, spelled, meant)


def _by_rules(old: Stored, spelled: Stored, wanted: Wanted) -> Iterable[tuple[Stored, Derived]]:
    for rule in RULES:
        found = rule(spelled, wanted)
        if found is not None:
            yield old, found
    retyped = without_widened_types(spelled, wanted.state)
    for rule in RULES if retyped is not None else ():
        assert retyped is not None
        found = rule(retyped[0], replace(wanted, state=retyped[1]))
        if found is not None:
            reason = ", ".join(r for r in (_WIDER, found.reason) if r)
            yield old, replace(found, reason=reason)
