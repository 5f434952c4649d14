"""Rows of a source that could not be read, when a pipeline goes on that reads the source otherwise.

Which rows can be read depends on the columns that are read and on their types. A row that was too large for a SMALLINT is a
row of the same column as an INT, so that what was computed without it is not the result of the new query. Where rows are
left out over which an expression fails (`execution.failing-rows`), it depends on all that is computed of them, too. Where
a source has such dead letters and is read otherwise, nothing follows from a state about rows of it: all that it feeds is
computed from its history, which says anew what can't be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

from sqlstream.runtime.edits.sources.left_out_rows import computed_as_read, leaves_out
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.cut_down import cut_down, sources_of_sink
from sqlstream_operators.plan.spec import PhysicalPlan, SourceSpec


class UnreadRows:
    """Which sources of a new plan have other rows than before, as rows that were dead letters may be rows now.

    `read` are the sources of the old plan, `known` those that the new plan goes on from. `letters`: whether the state
    directory has any dead letters, for sources of which versions before did not count them. The sources `anew` have other
    rows in any case: reading them again has shown it.
    """

    def __init__(
        self,
        old: PhysicalPlan,
        new: PhysicalPlan,
        read: Iterable[SourceState],
        known: Mapping[str, SourceState],
        *,
        letters: bool,
        anew: Collection[str] = (),
    ) -> None:
        self._old, self._new = old, new
        was = {state.name: state for state in read}
        self._unread = {name for name, state in known.items() if _has_dead_letters(state, letters)}
        self._former = {name for name, state in was.items() if _has_dead_letters(state, letters)}
        self._anew = frozenset(anew)

    @cached_property
    def sources(self) -> frozenset[str]:
        """The sources of the new plan whose rows are others."""
        return frozenset(
            spec.name
            for spec in self._new.sources
            if spec.name in self._anew
            or (spec.name in self._unread and self._now[spec.name] not in self._was.values())
        )

    @property
    def unread(self) -> frozenset[str]:
        """The sources of the new plan with rows that could not be read, and those whose rows are others."""
        return frozenset(self._unread) | self.sources

    @cached_property
    def _was(self) -> Mapping[str, object]:
        return self._readings(self._old)

    @cached_property
    def _now(self) -> Mapping[str, object]:
        return self._readings(self._new)

    def _readings(self, plan: PhysicalPlan) -> Mapping[str, object]:
        """By source, what may decide which of its rows a plan reads."""
        of_all = leaves_out(self._old)
        return {
            s.name: (_reading(s), (leaves_out(plan), computed_as_read(plan, s.name)) if of_all else ())
            for s in plan.sources
        }

    def same_state(self, old: str, new: str) -> bool:
        """Whether a state of the old plan is of the rows that one of the new plan is to be of."""
        if not (self._unread or self._former or self._anew):
            return True
        return self._same(cut_down(self._old, {old}).sources, cut_down(self._new, {new}).sources)

    def other_sinks(self, sinks: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Those sinks, of pairs of old and new names, that hold what was computed of other rows; by their new names."""
        if not (self._unread or self._former or self._anew):
            return frozenset()
        return frozenset(
            new
            for old, new in sinks
            if not self._same(cut_down(self._old, (), {old}).sources, cut_down(self._new, (), {new}).sources)
        )

    def withdrawn(self, read_again: Collection[str], kept: Iterable[str]) -> tuple[str, ...]:
        """The sources whose dead letters are reported again: those `read_again`, but if they feed a sink that is `kept`
        as it was, which has not the rows that can be read now.
        """
        fed = {name for sink in kept for name in sources_of_sink(self._new, sink)}
        return tuple(sorted(self.sources & set(read_again) - fed))

    def _same(self, old: Sequence[SourceSpec], new: Sequence[SourceSpec]) -> bool:
        names = {spec.name for spec in new}
        if not self._anew.isdisjoint(names):
            return False
        if names.isdisjoint(self._unread) and {spec.name for spec in old}.isdisjoint(self._former):
            return True
        return {self._was[spec.name] for spec in old} == {self._now[spec.name] for spec in new}


def _has_dead_letters(state: SourceState, letters: bool) -> bool:
    return letters if state.malformed is None else state.malformed > 0


def _reading(spec: SourceSpec) -> object:
    """All of a declaration that may decide which rows can be read. What is not read of a row can't be wrong."""
    read = {column.name: str(column.type) for column in spec.physical if column.name in spec.columns}
    return (
        spec.connector,
        spec.identity,
        tuple(column.name for column in spec.physical),
        tuple(sorted(read.items())),
        tuple(sorted(spec.needed_paths)),
        spec.partitioned_by,
        spec.primary_key,
        # Options that can change the rows are in the identity.
        () if spec.identity else tuple(sorted(spec.options.items())),
    )


Same = Callable[[str, str], bool]


def both(one: Same, other: Same) -> Same:
    """Whether two say that states are of the same rows."""
    return lambda old, new: one(old, new) and other(old, new)
