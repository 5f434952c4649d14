"""States in one spelling, so that rules see what a query means and not in which words it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlstream_planner.edits.derivations.rule import Wanted
from sqlstream_planner.edits.derivations.stored import Stored, filtered, grouped
from sqlstream_planner.identity.canonical import Canonical, CanonicalMeanings, null_rejecting
from sqlstream_planner.identity.form import Form

#: States that are aggregated. Those of rows may know which came first.
_IN_ANY_ORDER = frozenset({"groups", "distinct values"})


def spelling_of(state: Stored, never_null: Iterable[Form] = ()) -> Canonical:
    """The spelling of what a state's identity says; `never_null` are columns of sources that are never NULL.

    What the conditions on its rows say is known of what is aggregated.
    """
    known = frozenset(never_null)
    if state.operator not in _IN_ANY_ORDER:
        return Canonical(known)
    plain = Canonical(known).knowing_branches_of(*state.by_digest.values())
    rows = plain(state.rows)
    groups = grouped(rows)
    conditions = filtered(rows)[1] if groups is None else groups.conditions
    present = frozenset().union(*map(null_rejecting, conditions))
    return Canonical(known, present).knowing_branches_of(*state.by_digest.values())


def spelled(state: Stored, canonical: Canonical) -> Stored:
    """The state with every form of its identity in one spelling."""
    attributes = {name: canonical.data(value) for name, value in state.attributes.items()}
    by_digest = {digest: canonical(f) for digest, f in state.by_digest.items()}
    return replace(state, rows=canonical(state.rows), attributes=attributes, by_digest=by_digest)


def in_one_spelling(wanted: Wanted) -> Iterator[tuple[Stored, Stored, Wanted]]:
    """For each old state: it, it in its spelling, and what is wanted of it, in the spelling of that.

    Only where some form is spelled otherwise than it was written: else the rules have seen it.
    """
    canonical = spelling_of(wanted.state, wanted.never_null)
    state = spelled(wanted.state, canonical)
    node = replace(wanted.node, meanings=CanonicalMeanings(wanted.node.meanings, canonical))
    before = [spelled(s, spelling_of(s, wanted.never_null)) for s in wanted.before]
    changed = _is_changed(state)
    for old, made in zip(wanted.before, before, strict=True):
        if changed or _is_changed(made):
            yield old, made, replace(wanted, state=state, node=node, before=tuple(before))


def _is_changed(state: Stored) -> bool:
    return any(digest != f.digest for digest, f in state.by_digest.items())
