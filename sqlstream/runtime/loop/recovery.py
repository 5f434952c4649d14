"""Where a run starts: the last manifest is the truth; an epoch that was begun after it is decided first.

What may be found, and what is done about it:

- *A manifest for epoch N and nothing after it.* N's sinks and dead letters are committed again (they may have
  been cut off half-way; committing is repeatable), and what later epochs staged is removed.
- *A plan for N+1 without a manifest, which this program can replay*: it is run again exactly as it is
  written. A driver that was only paused may be doing the same. Both write the same bytes under the same
  names, so it does not matter who wins the exclusive creation of the manifest; the other one stops. For that
  reason nothing that N+1 may have staged is removed before its manifest is there.
- *A plan for N+1 without a manifest, which can't be replayed exactly*: the file is damaged, or the query,
  the parallelism or a file that it reads has changed. Nothing of N+1 is visible, because sinks become visible after the
  manifest only. A *void* manifest is published under N+1: positions and state are N's. From then on no other
  driver can commit that plan, and it is safe to remove what it staged and to plan afresh as N+2.
  (A driver that was paused for so long that N+1's files were collected finds later manifests, and stops. What
  it staged after that stays where no reader looks.)
- *A damaged manifest*: if it is the last one, the run stops. Falling back to N-1 would replay an epoch
  whose results readers may have seen, perhaps with other splits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.sink_edits import NOWHERE, edits_by_sink
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import EpochPlan, Manifest, RunInfo, SourceState
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import OperatorStep, PhysicalPlan, SourceSpec, Step
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import StateEdit
from sqlstream_planner.physical.state_node import NO_NODES, StateNodes


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the journal says: the last manifest, and the plan after it that must be replayed or given up.

    `begun` is the number of an epoch that has a plan and no manifest; `plan` is None if that can't be read.
    """

    last: Manifest | None
    begun: int | None
    plan: EpochPlan | None


def recover(journal: Journal) -> Recovered:
    """Read the end of the journal. Raises DiagnosticError (STA001) if the last manifest is damaged."""
    plans, manifests = journal.epochs()
    last = journal.manifest(manifests[-1]) if manifests else None
    after = [epoch for epoch in plans if last is None or epoch > last.epoch]
    if not after:
        return Recovered(last, None, None)
    begun = after[0]
    plan = journal.plan(begun)
    if plan is not None and plan.parent != (last.epoch if last else None):
        plan = None
    return Recovered(last, begun, plan)


def void_manifest(epoch: int, last: Manifest | None, run: RunInfo, nothing: Manifest) -> Manifest:
    """The manifest that gives `epoch` up: `last` again under another number, or `nothing` if there is none.

    Its parent is the last epoch that is not void.
    """
    return (last or nothing).carried_on(epoch, run, previous=committed_epoch(last))


def committed_epoch(last: Manifest | None) -> int:
    """The last epoch that made something, 0 if none has; what later ones staged is not wanted."""
    if last is None:
        return 0
    return (last.parent or 0) if last.void else last.epoch


def is_fresh_fork(last: Manifest) -> bool:
    """Whether a state directory began with a savepoint, and no sink has been given anything of it."""
    return bool(last.origin) and not committed_epoch(last)


def check_compatible(
    journal: Journal,
    last: Manifest,
    program: PhysicalPlan,
    *,
    sql: str | None = None,
    written: Mapping[str, Written] = NOWHERE,
    new_sinks: bool = False,
    accept: Collection[str] = (),
) -> tuple[Diagnostic, ...]:
    """Whether `program`, made of the text `sql`, can go on with the state that `last` names; warnings of what is decided.

    It can if its sources go on from where they are (`source_problems`), and every sink with what it has
    (`edits_by_sink`). A sink may be left out. A new one whose answer is not in the state is given what the sources have had
    for it, or begins now if `accept` has it (`fresh:<sink>`). With `new_sinks` all are new, and get the answer up to there.
    Shards and key groups may be others. Raises DiagnosticError with exit code 4 (STA011 sources, STA013 to STA015 sinks).
    """
    problems = [*_sources(journal, last, program)]
    warnings: list[Diagnostic] = []
    if not new_sinks and committed_epoch(last) and last.fingerprint != program_fingerprint(program):
        same_text = sql is not None and last.sql_digest == digest_of(sql.encode())
        read = go_on(last.positions, program.sources)
        by_sink = edits_by_sink(
            physical_plan(journal, last),
            program,
            same_text=same_text,
            written=written,
            unread=frozenset(spec.name for spec in program.sources if spec.name not in read),
            accepted=lambda name: is_accepted(name, accept),
        )
        told = [one for _, found in by_sink for one in found]
        warnings = [one for one in told if one.severity == "warning"]
        # Another state or source makes another answer: that is told, and not what follows from it.
        problems += [e for e in told if e.severity == "error" and (e.code == "STA013" or not problems)]
    if problems:
        raise DiagnosticError(*problems, exit_code=4)
    return tuple(warnings)


_OTHER_NAME = (
    "give other data another table name: it is read from its beginning then; or run the file that wrote this state, or "
    "give another --state-dir to start over"
)
_WAY_OUT = "run the file that wrote this state, or give another --state-dir to start over"


def state_edits(
    journal: Journal,
    last: Manifest,
    program: PhysicalPlan,
    nodes: StateNodes = NO_NODES,
    *,
    accept: Collection[str] = (),
) -> tuple[StateEdit, ...]:
    """What becomes of the states that `last` names when `program` goes on from them; nothing if they are its own.

    `nodes` are those of the program. What it lacks begins fresh, without the sources' history, for the operators that
    are named in `accept` (`fresh:<step>`, `fresh:all`).
    """
    before = {state.state_id: state.schema_id for state in last.states}
    if before == {state.state_id: state.schema_id for state in program.states}:
        return ()
    return tuple(
        edit.fresh() if is_accepted(edit.step, accept) else edit
        for edit in decide(former_plan(journal, last), program, nodes)
    )


def is_accepted(name: str, accept: Collection[str]) -> bool:
    """Whether it was agreed that an operator's state, or a sink, begins in the middle of the input."""
    return f"fresh:{name}" in accept or "fresh:all" in accept


def _sources(journal: Journal, last: Manifest, program: PhysicalPlan) -> Iterable[Diagnostic]:
    return source_problems(last.positions, lambda: physical_plan(journal, last), program)


def source_problems(
    read: Sequence[SourceState], plan: Callable[[], PhysicalPlan], program: PhysicalPlan
) -> Iterable[Diagnostic]:
    """What is wrong with `program` going on from the positions of the sources that `plan` has `read` (STA011).

    Sources may go, and their positions are kept. New ones may come, but not into windows with others.
    """
    known = go_on(read, program.sources)
    yield from _unidentified(plan, [s for s in program.sources if s.name in known and not s.identity])
    used = {(state.identity, state.folder) for state in known.values()}
    before = {state.name: state for state in reversed(read) if (state.identity, state.folder) not in used}
    new = {spec.name: spec for spec in program.sources if spec.name not in known}
    if read and not known and not before.keys() & new.keys():
        yield from _another_pipeline(plan(), program)
    for name in before.keys() & new.keys():
        state = before[name]
        if new[name].connector != state.connector:
            yield Diagnostic(
                "STA011",
                f"the table `{name}` was read by the connector '{state.connector}' and is now '{new[name].connector}'",
                notes=(f"a position of '{state.connector}' means nothing to '{new[name].connector}'",),
                help=_OTHER_NAME,
            )
        else:
            yield Diagnostic(
                "STA011",
                f"the table `{name}` is other data than before",
                notes=(
                    *_identity_changes(state.identity, new[name].identity),
                    "a position in the one means nothing in the other",
                ),
                help=f"if it is the same data in another place, add --source-moved {name}; if not, {_OTHER_NAME}",
            )
    for group in watermarks.source_groups(program):
        for name in sorted(group & new.keys()):
            others = sorted(group & known.keys())
            if others:
                yield Diagnostic(
                    "STA011",
                    f"the query reads the table `{name}`, which it did not before, into windows with `{others[0]}`",
                    notes=(
                        f"windows that `{others[0]}` has closed were given already, and would be given again with its rows",
                    ),
                    help=_WAY_OUT,
                )


def _another_pipeline(before: PhysicalPlan, now: PhysicalPlan) -> Iterable[Diagnostic]:
    """A file that reads nothing and writes nothing of what was read and written: it was given another one's state."""
    if {sink.name for sink in before.sinks} & {sink.name for sink in now.sinks}:
        return
    read, written = ([one.name for one in ones] for ones in (before.sources, before.sinks))
    yield Diagnostic(
        "STA011",
        "this is the state of another pipeline: the file reads none of its tables and writes none of them",
        notes=(f"it reads {', '.join(sorted(read))} and writes {', '.join(sorted(written))}",),
        help="give the --state-dir of this file, or a new one",
    )


def _unidentified(plan: Callable[[], PhysicalPlan], specs: Sequence[SourceSpec]) -> Iterable[Diagnostic]:
    """Sources of which nobody said which data they are: they go on with the options that they had."""
    before = {spec.name: spec for spec in plan().sources} if specs else {}
    for spec in specs:
        old = before.get(spec.name)
        if old is not None and old.options != spec.options:
            yield Diagnostic(
                "STA011",
                f"the table `{spec.name}` may be other data than before",
                notes=(
                    *_changes(old.options, spec.options),
                    "which of its options decide that is not known, so they have to stay",
                ),
                help=_WAY_OUT,
            )


def _identity_changes(before: str, now: str) -> Iterable[str]:
    """What differs between two identities of sources, in words."""
    old, new = (json.loads(text) if text else {} for text in (before, now))
    yield from _changes({**old.pop("options", {}), **old}, {**new.pop("options", {}), **new})


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> Iterable[str]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key} was {_shown(old.get(key))} and is {_shown(new.get(key))}"


def _shown(value: object) -> str:
    return "not set" if value is None else f"'{value}'"


def physical_plan(journal: Journal, manifest: Manifest) -> PhysicalPlan:
    """The physical plan that an epoch ran."""
    return plan_json.from_text(journal.physical_plan(manifest.plan_digest).decode())


def former_plan(journal: Journal, manifest: Manifest) -> PhysicalPlan:
    """The physical plan that an epoch ran, with what its states mean, which is kept with the manifest."""
    meant = {
        state.state_id: json.dumps(state.identity, sort_keys=True, separators=(",", ":"))
        for state in manifest.states
        if state.identity is not None
    }

    def with_meaning(schema: StateSchema) -> StateSchema:
        return replace(schema, identity=meant.get(schema.state_id, ""))

    def told(step: Step) -> Step:
        if not isinstance(step, OperatorStep):
            return step
        return replace(step, operator=replace(step.operator, state=with_meaning(step.operator.state)))

    plan = physical_plan(journal, manifest)
    return replace(
        plan,
        states=tuple(map(with_meaning, plan.states)),
        stages=tuple(replace(stage, steps=tuple(map(told, stage.steps))) for stage in plan.stages),
    )


def program_fingerprint(program: PhysicalPlan) -> str:
    """What decides an epoch's results, given its plan: the program without options of running it."""
    data = plan_json.to_json(program)
    data.pop("options", None)
    data.pop("names", None)
    for sink in data["sinks"]:
        del sink["identity"]  # it says what the rest means
    data["max_parallelism"] = program.options.max_parallelism
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
