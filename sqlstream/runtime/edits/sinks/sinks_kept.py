"""What an edit means to a sink that goes on in its place: reconciled with the new result, altered, or refused.

A table and a changelog have the result of one query. Rows in files, in tables that are only appended to, and on the terminal
stay as they were given; another query may go on with them from now on, if the user says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.sinks.sink_differences import (
    answer_changes,
    place_changes,
    query_parts,
    table_changes,
)
from sqlstream.runtime.edits.sinks.sink_edit import (
    NOTHING_CHANGED,
    START_OVER,
    Begins,
    Given,
    SinkEdit,
    beginning,
)
from sqlstream.runtime.edits.sinks.sink_places import descriptor_of, in_its_place, same_place
from sqlstream.runtime.edits.states.forgetting import Forgotten
from sqlstream_operators.plan.answers import answering_states, missing_answers
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.diagnostics import Diagnostic, Written
from sqlstream_planner.identity.sink import Holds, SinkIdentity, in_words_of, read_sink_identity

_OF_OTHERS = "rows that could not be read before, and are dead letters, may be rows by the new declaration"

_FORGOT = (
    "keys that the state has forgotten, by its time to live, keep the rows that they were given, until a row of theirs "
    "comes or is written over them"
)

_FORGOT_TWICE = (
    "the state has forgotten keys, by its time to live: their rows could not be retracted, and would stand beside those "
    "that are read again, as the table has no PRIMARY KEY"
)


def _way(spec: SinkSpec, now: PhysicalPlan) -> str:
    """How to have what a sink would hold by the new query."""
    source = "from the sources' history" if missing_answers(now, spec.name) else "from the state"
    return (
        f"run the file that wrote this state; or give the table another, empty place (or empty it) and run with "
        f"`--rewrite {spec.name}`: it is given all of it, {source}; {NOTHING_CHANGED}"
    )


def going_on(
    edit: SinkEdit, former: SinkSpec, before: PhysicalPlan, now: PhysicalPlan, given: Given
) -> SinkEdit:
    """What becomes of a sink that had the rows of `former` of the plan `before`."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    old, new = read_sink_identity(former.identity), read_sink_identity(spec.identity)
    if old is None or new is None:
        if given.same_text:
            return edit
        at_home = same_place(former, spec, given.looks.base_dir)
        return replace(
            edit, diagnostics=tuple(_unknown(former, spec, before.stages == now.stages, at, at_home))
        )
    new = in_words_of(new, old)
    if same_place(former, spec, given.looks.base_dir):
        new = in_its_place(new, old, spec)
    moved = [*place_changes(old, new)]
    if moved:
        return _refused(
            edit,
            "STA015",
            f"the table `{spec.name}` is written in another way than before",
            at,
            (*moved, "rows that it has would not be read as the new ones are"),
            _way(spec, now),
            declared=True,
        )
    if new.holds is old.holds is Holds.NOTHING:
        return edit
    if "options" not in new.destination:
        return _table(edit, former, old, new, before, now, given)
    return _files(edit, former, old, new, before, now, given)


def _table(
    edit: SinkEdit,
    former: SinkSpec,
    old: SinkIdentity,
    new: SinkIdentity,
    before: PhysicalPlan,
    now: PhysicalPlan,
    given: Given,
) -> SinkEdit:
    """A table in a database or a lake, which can be altered."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    declared = [*table_changes(old, new)]
    updates = "retract" in (spec.changelog, former.changelog)
    of_others = given.holds_other_rows(former, spec)
    other = of_others or (old.queries, old.conflict) != (new.queries, new.conflict)
    if not (declared or other or spec.changelog != former.changelog):
        return edit
    follows = _may_follow(old, new, of_others=of_others)
    replaced = updates or not (_rows_stay(old, new) and follows)
    if not declared and not replaced:
        return _from_now_on(edit, old, new, now, at, of_others=of_others)
    both = spec.changelog == former.changelog == "retract" and old.conflict == new.conflict
    if both and not declared and _both_kept(before, former, now, spec, given.forgotten):
        forgot = _has_forgotten(before, former, given)
        return _brought(edit, old, new, at, forgot=forgot, of_others=of_others)
    descriptor = descriptor_of(spec)
    wrong = [*_not_altered(old, new)]
    if not wrong and not replaced and descriptor is not None and not descriptor.sink.widens:
        wrong = [*_types_stay(old, new)]
    if wrong:
        return _refused(
            edit,
            "STA015",
            f"the schema of the table `{spec.name}` changed",
            at,
            (*declared, *wrong),
            f"give the column another name, or {_way(spec, now)}",
            declared=True,
        )
    if replaced:
        # What a state has forgotten is in the table still, and would go.
        if _has_forgotten(before, former, given) and not missing_answers(now, spec.name, forgetful=()):
            return _other_answer(edit, old, new, now, at, (*declared, _FORGOT_TWICE))
        edit = _replaced(edit, old, new, at, beginning(spec, now, given), declared)
        if not declared and former.changelog == "retract":
            return edit  # all of its rows were this pipeline's: it is reconciled with the new result in another way
        what = "its rows are replaced by the new result, in one transaction"
        if former.changelog == "append":
            what += "; rows that others have written there are deleted, too"
    else:
        edit = _from_now_on(edit, old, new, now, at, tuple(declared), of_others=of_others)
        edit = replace(edit, target=TargetEdit.ALTER)
        what = "rows that it has stay, with NULL in new columns"
    if given.accepts("alter", spec.name):
        return edit
    done = "altered" if declared else "written anew"
    if descriptor is None or descriptor.sink.named_by:
        done += " in its database"
    why = Diagnostic(
        "STA019",
        f"the table `{spec.name}` would be {done}",
        at.table,
        (*declared, *answer_changes(old, new), *_left_columns(old, new), what),
    )
    then = f"will be {done}"
    return replace(
        edit,
        consents=(Consent(f"alter:{spec.name}", f"the table `{spec.name}`", why, then, "let that be done"),),
    )


def _replaced(
    edit: SinkEdit, old: SinkIdentity, new: SinkIdentity, at: Written, begins: Begins, declared: list[str]
) -> SinkEdit:
    source = "is in the state" if begins is Begins.ANSWER else "is computed from the sources' history"
    diagnostic = Diagnostic(
        "STA017",
        f"the table `{edit.spec.name}` {'is altered, and ' if declared else ''}gets the full result anew",
        at.query,
        (
            *declared,
            *answer_changes(old, new),
            f"its full result {source}: it gets that first, exactly once",
        ),
        severity="warning",
    )
    return replace(edit, begins=begins, target=TargetEdit.REPLACE, diagnostics=(diagnostic,))


def _left_columns(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    left = [name for name, _ in old.columns if name not in dict(new.columns)]
    if left:
        yield f"no column is dropped: {', '.join(f'`{name}`' for name in left)} would be NULL from now on"


def _not_altered(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    """Why a table in a database can't be altered so."""
    names = dict(new.columns)
    for name, type_ in old.columns:
        if name in names and names[name] != type_ and not widens(parse_type(type_), parse_type(names[name])):
            yield f"a column is altered to a wider type only, so that every value stays as it is (`{name}`)"


def _types_stay(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    """Why columns of a table can't get wider types while its rows stay."""
    names = dict(new.columns)
    for name, type_ in old.columns:
        if name in names and names[name] != type_:
            yield f"its rows stay in files that have `{name}` as {type_}, which readers may not read as {names[name]}"


def _may_follow(old: SinkIdentity, new: SinkIdentity, *, of_others: bool) -> bool:
    """Whether what a query gives from now on does not depend on what another gave before, or the same `of_others`."""
    if old.lasting and new.lasting:
        return True
    same = (old.queries, old.conflict) == (new.queries, new.conflict)
    return not of_others and (same or _same_rows_come(old, new))


def _same_rows_come(old: SinkIdentity, new: SinkIdentity) -> bool:
    """Whether two queries give the same rows, one by one, with other columns: of the same rows, by the same conditions, and
    of which ON CONFLICT holds back the same.
    """
    if old.conflict != new.conflict or len(old.queries) != 1 or len(new.queries) != 1:
        return False
    (rows, conditions, _), (new_rows, new_conditions, _) = (query_parts(i.queries[0]) for i in (old, new))
    same = (rows, conditions) == (new_rows, new_conditions)
    return same and (old.conflict is None or _rows_stay(old, new))


def _rows_stay(old: SinkIdentity, new: SinkIdentity) -> bool:
    """Whether rows of two queries can stand in one table that is only appended to: none has the key of another's."""
    if (old.conflict, old.primary_key) != (new.conflict, new.primary_key):
        return False
    if not new.primary_key:
        return True
    if len(old.queries) != 1 or len(new.queries) != 1:
        return False
    (rows, _, columns), (new_rows, _, new_columns) = (query_parts(i.queries[0]) for i in (old, new))
    held = dict(zip((n.lower() for n, _ in old.columns), columns.args, strict=True))
    holds = dict(zip((n.lower() for n, _ in new.columns), new_columns.args, strict=True))
    return rows == new_rows and all(held[name.lower()] == holds[name.lower()] for name in new.primary_key)


def _files(
    edit: SinkEdit,
    former: SinkSpec,
    old: SinkIdentity,
    new: SinkIdentity,
    before: PhysicalPlan,
    now: PhysicalPlan,
    given: Given,
) -> SinkEdit:
    """Files, and the terminal."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    declared = [*table_changes(old, new)]
    both_kept = _both_kept(before, former, now, spec, given.forgotten)
    if declared and _gets_columns(old, new) and both_kept:
        # What is retracted has the former columns, as it was given, and what is given has the new ones, too.
        return _brought(edit, old, new, at, forgot=_has_forgotten(before, former, given), declared=declared)
    if declared and not _may_differ(old, new):
        return _refused(
            edit,
            "STA015",
            f"the schema of the table `{spec.name}` changed",
            at,
            (*declared, "what it has was written as it was declared before"),
            _way(spec, now),
            declared=True,
        )
    of_others = given.holds_other_rows(former, spec)
    other = of_others or (old.queries, old.conflict, old.holds) != (new.queries, new.conflict, new.holds)
    if Holds.ANSWER in (old.holds, new.holds):
        if not other:
            return edit
        both = old.holds is new.holds
        same_table = (old.columns, old.primary_key, old.conflict) == (
            new.columns,
            new.primary_key,
            new.conflict,
        )
        forgot = _has_forgotten(before, former, given)
        if both and same_table and both_kept:
            return _brought(edit, old, new, at, forgot=forgot, of_others=of_others)
        more = (*([_OF_OTHERS] if of_others else []), *([_FORGOT_TWICE] if forgot else []))
        return _other_answer(edit, old, new, now, at, more)
    if other or declared:
        return _from_now_on(edit, old, new, now, at, tuple(declared), of_others=of_others)
    return edit


def _both_kept(
    before: PhysicalPlan, former: SinkSpec, now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten
) -> bool:
    """Whether the former result and the new one are in the state; of forgotten keys there are rows that were given."""
    if forgotten.stays_twice(before, former, now, spec):
        return False
    return not missing_answers(before, former.name, forgetful=()) and not missing_answers(
        now, spec.name, forgetful=()
    )


def _has_forgotten(before: PhysicalPlan, former: SinkSpec, given: Given) -> bool:
    return not given.forgotten.before.isdisjoint(answering_states(before, former.name))


def _brought(
    edit: SinkEdit,
    old: SinkIdentity,
    new: SinkIdentity,
    at: Written,
    *,
    forgot: bool,
    of_others: bool = False,
    declared: Sequence[str] = (),
) -> SinkEdit:
    diagnostic = Diagnostic(
        "STA017",
        f"the table `{edit.spec.name}` is reconciled with the result of another query",
        at.query,
        (
            *([_OF_OTHERS] if of_others else []),
            *declared,
            *answer_changes(old, new),
            "both results are in the state: it gets the difference first, exactly once",
            *([_FORGOT] if forgot else []),
        ),
        severity="warning",
    )
    return replace(edit, reemitted=True, diagnostics=(diagnostic,))


def _other_answer(
    edit: SinkEdit,
    old: SinkIdentity,
    new: SinkIdentity,
    now: PhysicalPlan,
    at: Written,
    more: tuple[str, ...] = (),
) -> SinkEdit:
    return _refused(
        edit,
        "STA014",
        f"the table `{edit.spec.name}` has the result of another query",
        at,
        (
            *more,
            *answer_changes(old, new),
            "only rows that change from now on would be rewritten: the others would stay as the former query wrote them",
        ),
        _way(edit.spec, now),
    )


def _from_now_on(
    edit: SinkEdit,
    old: SinkIdentity,
    new: SinkIdentity,
    now: PhysicalPlan,
    at: Written,
    declared: tuple[str, ...] = (),
    *,
    of_others: bool = False,
) -> SinkEdit:
    name = edit.spec.name
    answer = [*([_OF_OTHERS] if of_others else []), *answer_changes(old, new)]
    if not _may_follow(old, new, of_others=of_others):
        return _refused(
            edit,
            "STA014",
            f"the table `{name}` has rows of another query",
            at,
            (
                *answer,
                "the query emits a row once, and would not emit those again that were read before and "
                "left out by the former query",
            ),
            _way(edit.spec, now),
        )
    diagnostic = Diagnostic(
        "STA016",
        f"the table `{name}` gets the rows of another query from now on",
        at.query,
        (*declared, *answer, "rows that it has stay as they are"),
        f"to rewrite it by the new query, give it another, empty target, and run with --rewrite {name}",
        severity="warning",
    )
    return replace(edit, diagnostics=(diagnostic,))


def _refused(
    edit: SinkEdit,
    code: str,
    what: str,
    at: Written,
    notes: tuple[str, ...],
    way: str,
    *,
    declared: bool = False,
) -> SinkEdit:
    return replace(
        edit, diagnostics=(Diagnostic(code, what, at.table if declared else at.query, notes, way),)
    )


def _unknown(
    old: SinkSpec, new: SinkSpec, same_stages: bool, at: Written, at_home: bool
) -> Iterator[Diagnostic]:
    """A sink whose content was not recorded; `at_home`: it is where it was."""
    if replace(old, name=new.name) != new or not at_home:
        yield Diagnostic(
            "STA015",
            f"the schema of the table `{new.name}` changed",
            at.table,
            ("the state directory does not record enough about it to decide whether it can go on",),
            f"{START_OVER}; {NOTHING_CHANGED}",
        )
    elif not same_stages:
        yield Diagnostic(
            "STA014",
            f"the table `{new.name}` may have the result of another query",
            at.query,
            ("this state directory was written by a version that did not record the content of tables",),
            f"run the file that wrote it, which notes it with the next epoch, and then edit it; {NOTHING_CHANGED}",
        )


def _may_differ(old: SinkIdentity, new: SinkIdentity) -> bool:
    """Whether rows of another table may follow: on a terminal, or new columns in files that name them."""
    if {old.holds, new.holds} == {Holds.SHOWN}:
        return True
    names = dict(new.columns)
    kept = all(names.get(name) == type_ for name, type_ in old.columns)
    return {old.holds, new.holds} == {Holds.ROWS} and kept and not old.ordered and not new.ordered


def _gets_columns(old: SinkIdentity, new: SinkIdentity) -> bool:
    """Whether a changelog of messages with names is as it was but for columns that it gets."""
    names = dict(new.columns)
    kept = all(names.get(name) == type_ for name, type_ in old.columns)
    same = (old.primary_key, old.conflict) == (new.primary_key, new.conflict)
    return kept and same and old.holds is new.holds is Holds.ANSWER and not (old.ordered or new.ordered)
