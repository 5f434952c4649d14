"""Several tables of one source's data: each has a position and a folder of its own.

An identity says which data a table has, and not how far it was read. Where all tables of one data are equally far, it makes
no difference which of them a state or a sink had its rows from. Where they are not, what is of one is not of another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlstream.runtime.coordination import fencing
from sqlstream.runtime.edits.sources.source_folders import copied_folder
from sqlstream.runtime.loop.recovery import committed_epoch, recover
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import RunInfo, SourceState, alike
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan, SourceSpec
from sqlstream_planner.diagnostics import Diagnostic


def write_down(journal: Journal, program: PhysicalPlan, run: RunInfo) -> bool:
    """Give each table more of data that is known a folder of its own, with what the source has listed: whole, or not at all.

    A void epoch carries the state on with it; an epoch that was begun is given up by that. Whether there was such a table.
    """
    last = recover(journal).last
    if last is None:
        return False
    known = go_on(last.positions, program.sources)
    taken: set[str] = set()
    more: list[SourceState] = []
    for name, state in known.items():
        if state.folder and state.folder in taken:
            used = [one.folder for one in (*last.positions, *more)]
            more.append(replace(state, folder=copied_folder(journal.store, state.folder, name, used)))
        taken.add(state.folder)
    if not more:
        return False
    void = last.carried_on(last.epoch + 1, run, previous=committed_epoch(last))
    if not journal.publish(replace(void, detached=(*last.detached, *more))):
        raise fencing.lost_manifest(journal, void.epoch)
    journal.forget_replays(void.epoch)
    return True


def unclear_tables(before: Sequence[SourceState], specs: Sequence[SourceSpec]) -> Iterable[Diagnostic]:
    """Tables of known data without a known source offset to go on from (STA011)."""
    known = go_on(before, specs)
    for spec in specs:
        there = [
            s
            for s in before
            if spec.identity and (s.connector, s.identity) == (spec.connector, spec.identity)
        ]
        if spec.name in known or not there:
            continue
        names = " and ".join(f"`{s.name}`" for s in there)
        yield Diagnostic(
            "STA011",
            f"the source offset of the table `{spec.name}` is not known",
            notes=(f"{names} have the same data, and are not equally far",),
            help="call it as the one of them is called that it stands for; or run the file that wrote this state until all "
            "that there is was read: then they are",
        )


class Feeds:
    """Which tables feed the states and sinks of an old plan, and of a new one, where it makes a difference.

    `read` are the sources of the old plan, `positions` all that are known, `known` those that the new plan goes on from.
    """

    def __init__(
        self,
        old: PhysicalPlan,
        new: PhysicalPlan,
        read: Iterable[SourceState],
        positions: Iterable[SourceState],
        known: Mapping[str, SourceState],
    ) -> None:
        self._plans = (old, new)
        by_data: dict[tuple[str, str], list[SourceState]] = defaultdict(list)
        for state in positions:
            by_data[state.connector, state.identity].append(state)
        apart = {data for data, states in by_data.items() if data[1] and not alike(states)}

        def folders_of(states: Iterable[tuple[str, SourceState]]) -> dict[str, str]:
            return {name: s.folder for name, s in states if (s.connector, s.identity) in apart}

        self._folders = (folders_of((s.name, s) for s in read), folders_of(known.items()))

    def same_state(self, old: str, new: str) -> bool:
        """Whether a state of the old plan has its rows from tables that stand where those of one of the new plan do."""
        return self._same(lambda plan, id_: cut_down(plan, {id_}), old, new)

    def same_sink(self, old: str, new: str) -> bool:
        """The same of what a sink has, and would be given."""
        return self._same(lambda plan, name: cut_down(plan, (), {name}), old, new)

    def _same(self, cut: Callable[[PhysicalPlan, str], PhysicalPlan], old: str, new: str) -> bool:
        if not any(self._folders):
            return True
        was, now = (cut(plan, name) for plan, name in zip(self._plans, (old, new), strict=True))
        fed_before, fed_now = (
            {s.name: folders[s.name] for s in plan.sources if s.name in folders}
            for plan, folders in zip((was, now), self._folders, strict=True)
        )
        if set(fed_before.values()) != set(fed_now.values()):
            return False
        # Which of several feeds what is in the plan, where their names stand for them.
        return len(fed_now) < 2 or _written(was, fed_before) == _written(now, fed_now)


def other_feeds(feeds: Feeds, sinks: Iterable[tuple[str, str]]) -> Iterable[Diagnostic]:
    """Sinks, by their old and new names, that another table feeds now, which is not as far as the former one (STA011)."""
    for old, new in sinks:
        if not feeds.same_sink(old, new):
            yield Diagnostic(
                "STA011",
                f"the table `{new}` would get rows twice or miss rows",
                notes=(
                    "another table of the same data fed it, whose source offset differs from that of its present source",
                ),
                help="run the file that wrote this state until all that there is was read, and then the edited one; or let "
                "the table that fed it feed it",
            )


def _written(plan: PhysicalPlan, folders: Mapping[str, str]) -> str:
    """The stages of a plan as text, where tables are called by their folders."""
    text = plan_json.to_text(PhysicalPlan((), (), plan.stages, ()))
    for name, folder in folders.items():
        quoted = re.compile(r'(\\?"(?:scan:)?)' + re.escape(name) + r'(\\?")')
        text = quoted.sub(rf"\1<{re.escape(folder)}>\2", text)
    return text
