"""What an edit of a pipeline means to its sinks: refused where what a sink has would not fit what it is given from now on.

A table and a changelog have the answer of one query: with another query only rows that change would be written anew, and
rows would be taken back that were never given. So they go on with the same answer, or are brought to the other one where
both are in the state. Files of rows, and rows on the
terminal, stay as they were given: another query may go on with them from now on, if it is told. No sink may go
elsewhere, where what it was given so far is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.answers import answering_states, missing_answers
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written, counted
from sqlstream_planner.edits.differences import row_differences
from sqlstream_planner.explain.meaning import meaning_text
from sqlstream_planner.identity.form import Argument, Form, walk
from sqlstream_planner.identity.sink import Holds, SinkIdentity, read_sink_identity

NOWHERE: Mapping[str, Written] = MappingProxyType({})
_NOTHING_CHANGED = "nothing was changed"
_START_OVER = "run the file that wrote this state, or give another --state-dir and an empty table or folder to start over"
_FROM_SAVEPOINT = (
    "run the file that wrote this state; or name it (`sqlstream savepoint create`) and start this one from it, with "
    "`--from`, another --state-dir and another table to write: it is given its whole answer first"
)


_FORGOT = (
    "keys that the state has forgotten, by its time to live, keep the rows that they were given, until a row of theirs "
    "comes or is written over them"
)
_FORGOT_TWICE = (
    "the state has forgotten keys, by its time to live: their rows could not be taken back, and would stand beside those "
    "that are read again, as the table has no PRIMARY KEY"
)


def _way(spec: SinkSpec, now: PhysicalPlan) -> str:
    """How to have what a sink would hold by the new query: a fork gives a sink its whole answer where the state has it."""
    return _START_OVER if missing_answers(now, spec.name) else _FROM_SAVEPOINT


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The states, by ids, that have forgotten keys by their time to live: `before` an edit, and those `now` made of such."""

    before: frozenset[str] = frozenset()
    now: frozenset[str] = frozenset()

    def stays_twice(self, before: PhysicalPlan, now: PhysicalPlan, sink: SinkSpec) -> bool:
        """Whether a sink would have rows of forgotten keys beside others of them that are read again.

        They can't be taken back, as no state has them; by a PRIMARY KEY the new ones are written over them.
        """
        stay = not self.before.isdisjoint(answering_states(before, sink.name))
        return stay and not sink.primary_key and not answering_states(now, sink.name) <= self.now


NOTHING_FORGOTTEN = Forgotten()


def _nobody(sink: str) -> bool:
    return False


def edits_by_sink(
    before: PhysicalPlan,
    now: PhysicalPlan,
    *,
    same_text: bool,
    written: Mapping[str, Written] = NOWHERE,
    unread: Collection[str] = (),
    accepted: Callable[[str], bool] = _nobody,
    forgotten: Forgotten = NOTHING_FORGOTTEN,
) -> Iterator[tuple[SinkSpec, tuple[Diagnostic, ...]]]:
    """What is wrong with each sink of `now` when it goes on from `before`, and warnings of what is decided about it.

    Nothing is said of one that goes on as it is. `same_text`: both plans were made of the same SQL. Of the sources `unread`
    nothing was read so far; of a sink it may be `accepted` that it begins in the middle of the input. States may have
    `forgotten` keys. Errors are STA013 (a
    new sink), STA014 (another query) and STA015 (another destination or declaration), warnings STA016 and STA017 (brought
    to another answer).
    """
    former = {spec.name: spec for spec in before.sinks}
    restated = restated_sinks(before, now, forgotten)
    gone = [spec for name, spec in former.items() if name not in {spec.name for spec in now.sinks}]
    for spec in now.sinks:
        at = written.get(spec.name, Written())
        if spec.name not in former:
            if any(_same_place(spec, other) for other in gone):
                yield spec, (_new(spec, gone, at, _way(spec, now)),)
            else:
                beginning = _beginning(spec, now, unread, accepted, forgotten)
                whole = not missing_answers(now, spec.name, forgetful=forgotten.now)
                yield spec, tuple(_told_of_new(spec, at, beginning, whole=whole))
            continue
        old, new = read_sink_identity(former[spec.name].identity), read_sink_identity(spec.identity)
        found: Iterable[Diagnostic] = ()
        if old is not None and new is not None:
            lost = not forgotten.before.isdisjoint(answering_states(before, spec.name))
            found = _edit(
                spec.name, old, new, at, _way(spec, now), restated=spec.name in restated, forgot=lost
            )
        elif not same_text:
            found = _unknown(former[spec.name], spec, before.stages == now.stages, at)
        yield spec, tuple(found)


class _Beginning(Enum):
    """What a new sink begins with."""

    ANSWER = "the whole answer, which is in the state"
    NOTHING_READ = "all of its input, of which nothing was read so far"
    NOW = "what is read from now on, as was accepted"
    HISTORY = "what the sources have had for it so far"


def _beginning(
    spec: SinkSpec,
    now: PhysicalPlan,
    unread: Collection[str],
    accepted: Callable[[str], bool],
    forgotten: Forgotten,
) -> _Beginning:
    if answer_is_kept(now, spec, forgotten):
        return _Beginning.ANSWER
    if all(source.name in unread for source in cut_down(now, (), (spec.name,)).sources):
        return _Beginning.NOTHING_READ
    if accepted(spec.name) and spec.changelog == "append":
        return _Beginning.NOW
    return _Beginning.HISTORY


def answer_is_kept(now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten) -> bool:
    """Whether a new sink is given its answer from the state: all of it, or what state that has forgotten keys still has.

    That is what such state will take back; rows that are never taken back are whole only in the sources' history.
    """
    forgetful = () if spec.changelog == "retract" else forgotten.now
    return not missing_answers(now, spec.name, forgetful=forgetful)


def _told_of_new(spec: SinkSpec, at: Written, beginning: _Beginning, *, whole: bool) -> Iterator[Diagnostic]:
    match beginning:
        case _Beginning.ANSWER:
            yield _given_all(spec, at, whole=whole)
        case _Beginning.NOW:
            yield _from_now_on(spec, at)
        case _Beginning.HISTORY:
            yield _from_history(spec, at)


def sinks_from_history(
    new: Iterable[str],
    now: PhysicalPlan,
    unread: Collection[str],
    accepted: Callable[[str], bool],
    forgotten: Forgotten = NOTHING_FORGOTTEN,
) -> tuple[str, ...]:
    """Those of the `new` sinks that are given what the sources have had for them: it is not in the state."""
    specs = {spec.name: spec for spec in now.sinks}
    return tuple(
        name
        for name in new
        if _beginning(specs[name], now, unread, accepted, forgotten) is _Beginning.HISTORY
    )


def restated_sinks(
    before: PhysicalPlan, now: PhysicalPlan, forgotten: Forgotten = NOTHING_FORGOTTEN
) -> tuple[str, ...]:
    """The sinks of `now` that hold the answer of another query since `before`, where both answers are in the state.

    They can be brought from the one to the other exactly; of keys that a state has `forgotten` they have the rows that they
    were given. Places and tables are not looked at.
    """
    former = {spec.name: spec for spec in before.sinks}
    found = []
    for spec in now.sinks:
        if spec.name not in former or "append" in (spec.changelog, former[spec.name].changelog):
            continue
        old, new = read_sink_identity(former[spec.name].identity), read_sink_identity(spec.identity)
        if old is None or new is None or not old.holds is new.holds is Holds.ANSWER:
            continue
        same_kind = (old.destination, old.columns, old.primary_key, old.conflict) == (
            new.destination,
            new.columns,
            new.primary_key,
            new.conflict,
        )
        answers = tuple(missing_answers(plan, spec.name, forgetful=()) for plan in (before, now))
        if forgotten.stays_twice(before, now, spec):
            continue
        if same_kind and old.queries != new.queries and answers == ((), ()):
            found.append(spec.name)
    return tuple(found)


def not_there(name: str, error: DataError) -> DiagnosticError:
    """The refusal of a sink whose options say that it is elsewhere now, and which has not there what was committed."""
    return DiagnosticError(
        Diagnostic(
            "STA015",
            f"the table `{name}` has other options than before, and is not where they say",
            notes=(error.message, "a table may be moved with all that it has, and is found there then"),
            help=f"{_START_OVER}; {_NOTHING_CHANGED}",
        ),
        exit_code=4,
    )


def _new(spec: SinkSpec, gone: Iterable[SinkSpec], at: Written, way: str) -> Diagnostic:
    new = read_sink_identity(spec.identity)
    notes = ["it would get only what is read from now on, not the results of the input read so far"]
    for other in gone:
        old = read_sink_identity(other.identity)
        if (
            new is not None
            and old is not None
            and (old.destination, old.queries) == (new.destination, new.queries)
        ):
            notes.append(
                f"the table `{other.name}` was written with the same query: a sink is known by its name"
            )
    return Diagnostic(
        "STA013",
        f"the query writes the table `{spec.name}`, which it did not before",
        at.query,
        tuple(notes),
        f"{way}; {_NOTHING_CHANGED}",
    )


def _from_now_on(spec: SinkSpec, at: Written) -> Diagnostic:
    return Diagnostic(
        "STA016",
        f"the table `{spec.name}` is new, and is given rows from now on",
        at.query,
        ("what was read so far is not in it, which was accepted",),
        severity="warning",
    )


def _from_history(spec: SinkSpec, at: Written) -> Diagnostic:
    return Diagnostic(
        "STA017",
        f"the table `{spec.name}` is new, and is given what the sources have had for it so far",
        at.query,
        ("what was read is read again for it, up to where the sources are",),
        f"to begin it with what is read from now on: --accept fresh:{spec.name}"
        if spec.changelog == "append"
        else None,
        severity="warning",
    )


def _same_place(one: SinkSpec, other: SinkSpec) -> bool:
    """Whether two sinks write to one place, as far as that is known."""
    found = read_sink_identity(one.identity), read_sink_identity(other.identity)
    return found[0] is not None and found[1] is not None and found[0].destination == found[1].destination


def _given_all(spec: SinkSpec, at: Written, *, whole: bool) -> Diagnostic:
    return Diagnostic(
        "STA017",
        f"the table `{spec.name}` is new",
        at.query,
        ("its whole answer is in the state: it gets that first, exactly once",)
        if whole
        else (
            "it gets what the state has of its answer first, exactly once",
            "keys that the state has forgotten, by its time to live, are not in it until a row of theirs comes",
        ),
        severity="warning",
    )


def _edit(
    name: str, old: SinkIdentity, new: SinkIdentity, at: Written, way: str, *, restated: bool, forgot: bool
) -> Iterator[Diagnostic]:
    moved = list(_place_changes(old, new))
    if moved:
        yield Diagnostic(
            "STA015",
            f"the table `{name}` goes elsewhere, or is written in another way, than before",
            at.table,
            (*moved, "what it was given so far would not be there, or not be read as the rest is"),
            f"{_START_OVER}; {_NOTHING_CHANGED}",
        )
        return
    if new.holds is old.holds is Holds.NOTHING:
        return
    declared = list(_table_changes(old, new))
    if declared and not _may_differ(old, new):
        yield Diagnostic(
            "STA015",
            f"the table `{name}` is declared otherwise than before",
            at.table,
            (*declared, "what it has was written as it was declared before"),
            f"{way}; {_NOTHING_CHANGED}",
        )
        return
    other = (old.queries, old.conflict, old.holds) != (new.queries, new.conflict, new.holds)
    answer = _answer_changes(old, new)
    if Holds.ANSWER in (old.holds, new.holds):
        if other and restated:
            yield Diagnostic(
                "STA017",
                f"the table `{name}` is brought to the answer of another query",
                at.query,
                (
                    *answer,
                    "both answers are in the state: it gets the difference first, exactly once",
                    *([_FORGOT] if forgot else []),
                ),
                severity="warning",
            )
        elif other:
            yield Diagnostic(
                "STA014",
                f"the table `{name}` holds the answer of another query",
                at.query,
                (
                    *answer,
                    "only rows that change from now on would be written anew: the others would stay as the "
                    "former query gave them",
                    *([_FORGOT_TWICE] if forgot else []),
                ),
                f"{way}; {_NOTHING_CHANGED}",
            )
    elif other and not (old.lasting and new.lasting):
        yield Diagnostic(
            "STA014",
            f"the table `{name}` was given rows of another query",
            at.query,
            (
                *answer,
                "the query gives a row once, and would not give those again that were read before and "
                "left out by the former query",
            ),
            f"{_START_OVER}; {_NOTHING_CHANGED}",
        )
    elif other or declared:
        yield Diagnostic(
            "STA016",
            f"the table `{name}` is given the rows of another query from now on",
            at.query,
            (*declared, *answer, "what it was given before stays as it is"),
            "to have all of it by the new query, give another --state-dir and an empty folder",
            severity="warning",
        )


def _unknown(old: SinkSpec, new: SinkSpec, same_stages: bool, at: Written) -> Iterator[Diagnostic]:
    """A sink of which it was not kept what it holds."""
    if old != new:
        yield Diagnostic(
            "STA015",
            f"the table `{new.name}` is declared otherwise than before",
            at.table,
            ("what this state directory knows of it does not tell whether it can go on",),
            f"{_START_OVER}; {_NOTHING_CHANGED}",
        )
    elif not same_stages:
        yield Diagnostic(
            "STA014",
            f"the table `{new.name}` may hold the answer of another query",
            at.query,
            ("this state directory was written by a version that did not keep what a table holds",),
            f"run the file that wrote it, which notes it with the next epoch, and then edit it; {_NOTHING_CHANGED}",
        )


def _may_differ(old: SinkIdentity, new: SinkIdentity) -> bool:
    """Whether rows of another table may follow: on a terminal, or new columns in files that name them."""
    if {old.holds, new.holds} == {Holds.SHOWN}:
        return True
    names = dict(new.columns)
    kept = all(names.get(name) == type_ for name, type_ in old.columns)
    return {old.holds, new.holds} == {Holds.ROWS} and kept and not old.ordered and not new.ordered


def _place_changes(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    before, now = ({**i.destination, **i.destination.get("options", {})} for i in (old, new))
    for key in sorted(before.keys() | now.keys()):
        if key != "options" and before.get(key) != now.get(key):
            yield f"{key} was {_shown(before.get(key))} and is {_shown(now.get(key))}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"({', '.join(value)})"
    return "not set" if value is None else f"'{value}'"


def _table_changes(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    before, now = dict(old.columns), dict(new.columns)
    for name, type_ in before.items():
        if name not in now:
            yield f"it had the column `{name}` {type_}"
        elif now[name] != type_:
            yield f"its column `{name}` was {type_} and is {now[name]}"
    for name, type_ in now.items():
        if name not in before:
            yield f"its column `{name}` {type_} is new"
    if old.columns != new.columns and sorted(old.columns) == sorted(new.columns):
        yield f"its columns were in the order {', '.join(before)}, and are in the order {', '.join(now)}"
    if old.ordered != new.ordered:
        yield "whether the order of its columns counts is another"
    if old.primary_key != new.primary_key and Holds.ANSWER in (old.holds, new.holds):
        yield f"its PRIMARY KEY was {_key(old)} and is {_key(new)}"


def _key(identity: SinkIdentity) -> str:
    return f"({', '.join(identity.primary_key)})" if identity.primary_key else "none"


def _answer_changes(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    """What differs between the queries of two identities, in words; nothing if they are one."""
    if old.conflict != new.conflict:
        yield f"ON CONFLICT was {old.conflict or 'not needed'} and is {new.conflict or 'not needed'}"
    before, now = Counter(old.queries), Counter(new.queries)
    left, made = list((before - now).elements()), list((now - before).elements())
    if len(left) == len(made) == 1:
        yield from _query_changes(left[0], made[0], [n for n, _ in old.columns], [n for n, _ in new.columns])
    elif left or made:
        yield (
            f"of the queries whose rows are put together in it, {counted(len(left), 'query')} "
            f"of before is gone, and {counted(len(made), 'query')} is new"
        ).replace("querys", "queries")


def _query_changes(old: Form, new: Form, before: list[str], now: list[str]) -> Iterator[str]:
    (rows, conditions, columns), (new_rows, new_conditions, new_columns) = _parts(old), _parts(new)
    if rows != new_rows:
        told = [d.text for d in row_differences(rows, new_rows)]
        yield (
            "; ".join(told)
            or "its rows are those of other sources, or are grouped, ranked or put together in another way"
        )
    had, have = [*map(_words, conditions.args)], [*map(_words, new_conditions.args)]
    yield from (f"its rows had to meet the condition {text}" for text in had if text not in have)
    yield from (f"its rows have to meet the condition {text}" for text in have if text not in had)
    ranked, now_ranked = _ranked(conditions, columns), _ranked(new_conditions, new_columns)
    if ranked is not None and now_ranked is not None:
        yield from (f"among the rows that are ranked, {d.text}" for d in row_differences(ranked, now_ranked))
    held = dict(zip(before, columns.args, strict=True))
    for name, found in zip(now, new_columns.args, strict=True):
        if name in held and held[name] != found:
            was, is_ = _words(held[name]), _words(found)
            same = f"its column `{name}` is {is_}, of other rows or other types"
            yield same if was == is_ else f"its column `{name}` was {was} and is {is_}"


def _ranked(*parts: Form) -> Form | None:
    """The rows among which a rank counts; None if nothing is ranked."""
    over = next((f for f in walk(*parts) if f.op == "over"), None)
    rows = None if over is None else over.args[1]
    return rows if isinstance(rows, Form) else None


def _parts(query: Form) -> tuple[Form, Form, Form]:
    rows, conditions, columns = query.args
    assert isinstance(rows, Form)
    assert isinstance(conditions, Form)
    assert isinstance(columns, Form)
    return rows, conditions, columns


def _words(meaning: Argument) -> str:
    return meaning_text(meaning) if isinstance(meaning, Form) else str(meaning)
