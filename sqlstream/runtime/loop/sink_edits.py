"""What an edit of a pipeline means to its sinks: what each goes on with, is brought to, begins with, or why it is refused.

A table and a changelog have the answer of one query: with another one they are brought to it, from the state or from the
sources' history. Rows in files, in tables that are only appended to, and on the terminal stay as they were given; another
query may go on with them from now on, if it is told. A sink is known by its place: what its table is called means nothing,
and another place begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.loop.consent import Consent
from sqlstream.runtime.loop.sink_differences import answer_changes, place_changes, query_parts, table_changes
from sqlstream.runtime.loop.sink_places import Looks, descriptor_of, former_sinks, same_place, target_names
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.answers import answering_states, missing_answers
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.catalog.descriptor import Past
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written, did_you_mean
from sqlstream_planner.edits.derivations.widened import widens
from sqlstream_planner.identity.sink import Holds, SinkIdentity, read_sink_identity

NOWHERE: Mapping[str, Written] = MappingProxyType({})
_NOTHING_CHANGED = "nothing was changed"
_START_OVER = "run the file that wrote this state, or give another --state-dir and an empty table or folder to start over"


_FORGOT = (
    "keys that the state has forgotten, by its time to live, keep the rows that they were given, until a row of theirs "
    "comes or is written over them"
)
_FORGOT_TWICE = (
    "the state has forgotten keys, by its time to live: their rows could not be taken back, and would stand beside those "
    "that are read again, as the table has no PRIMARY KEY"
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The states, by ids, that have forgotten keys by their time to live: `before` an edit, and those `now` made of such."""

    before: frozenset[str] = frozenset()
    now: frozenset[str] = frozenset()

    def stays_twice(self, before: PhysicalPlan, former: SinkSpec, now: PhysicalPlan, sink: SinkSpec) -> bool:
        """Whether a sink would have rows of forgotten keys beside others of them that are read again.

        They can't be taken back, as no state has them; by a PRIMARY KEY the new ones are written over them.
        """
        stay = not self.before.isdisjoint(answering_states(before, former.name))
        return stay and not sink.primary_key and not answering_states(now, sink.name) <= self.now


NOTHING_FORGOTTEN = Forgotten()


class Begins(Enum):
    """What a sink begins with that is new, or begins anew."""

    ANSWER = "the whole answer, which is in the state"
    NOTHING_READ = "all of its input, of which nothing was read so far"
    NOW = "what is read from now on, as was accepted"
    HISTORY = "what the sources have had for it so far"


@dataclass(frozen=True, slots=True)
class Given:
    """What a command was told, and what is known beside the two plans.

    `same_text`: both plans were made of the same SQL. Of the sources `unread` nothing was read so far. `accept` is what was
    consented to, `rewrite` are sinks that are to begin anew. `names`: by which targets know the former tables. States may
    have `forgotten` keys.
    """

    same_text: bool = False
    written: Mapping[str, Written] = field(default_factory=lambda: NOWHERE)
    unread: Collection[str] = ()
    accept: Collection[str] = ()
    rewrite: Collection[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    looks: Looks = field(default_factory=Looks)
    forgotten: Forgotten = NOTHING_FORGOTTEN

    def accepts(self, what: str, name: str) -> bool:
        """Whether it was consented to `what` (`fresh`, `alter`) of a sink."""
        return f"{what}:{name}" in self.accept or f"{what}:all" in self.accept


@dataclass(frozen=True, slots=True)
class SinkEdit:
    """What becomes of one sink.

    `former` is the sink that it goes on from (None: it is new, or elsewhere), `known_as` the name that its target knows it
    by. `begins` is what it is given first where it does not simply go on, `restated`: it is brought from the former answer
    to the new one, both being in the state. `target` is what is done to its target. `told` are warnings, and errors that
    refuse it; `asked` are consents that are missing.
    """

    spec: SinkSpec
    former: SinkSpec | None
    known_as: str
    begins: Begins | None = None
    restated: bool = False
    target: TargetEdit | None = None
    told: tuple[Diagnostic, ...] = ()
    asked: tuple[Consent, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether nothing of this state directory is in its target."""
        return self.former is None or self.target is TargetEdit.REWRITE

    @property
    def from_history(self) -> bool:
        """Whether the sources' history is read again for it."""
        return self.begins is Begins.HISTORY


def sink_edits(before: PhysicalPlan, now: PhysicalPlan, given: Given) -> tuple[SinkEdit, ...]:
    """What becomes of each sink of `now` when it goes on from `before`.

    Errors are STA014 (another query), STA015 (another way to write, or declaration) and STA026 (it can't begin anew);
    consents STA013 (rows that stay, in another place) and STA019 (a table is altered); warnings STA016 (rows of another
    query from now on) and STA017 (brought to another answer, or given a whole one).
    Raises DiagnosticError (STA026, exit code 2) for a sink to rewrite that the query does not have.
    """
    check_rewrite(given.rewrite, now)
    former = former_sinks(before, now, given.names, given.looks)
    known_as = target_names(now.sinks, former, given.names)
    was = {spec.name: spec for spec in before.sinks}
    made = []
    for spec in now.sinks:
        edit = SinkEdit(spec, former.get(spec.name), known_as[spec.name])
        if spec.name.lower() in {name.lower() for name in given.rewrite}:
            made.append(_rewritten(edit, now, given))
        elif edit.former is None:
            made.append(_new(edit, now, given, moved=spec.name in was))
        else:
            made.append(_going_on(edit, edit.former, before, now, given))
    return tuple(made)


def begun_sinks(now: PhysicalPlan, given: Given) -> tuple[SinkEdit, ...]:
    """The sinks of a state directory that begins with a savepoint: all are new, and get the answer that the state has.

    One to rewrite of which the state has none is given what the sources have had for it. Raises as `sink_edits`.
    """
    check_rewrite(given.rewrite, now)
    wanted = {name.lower() for name in given.rewrite}
    return tuple(
        SinkEdit(spec, None, spec.name, beginning(spec, now, given) if spec.name.lower() in wanted else None)
        for spec in now.sinks
    )


def untouched_sinks(now: PhysicalPlan, given: Given) -> tuple[SinkEdit, ...]:
    """The sinks of a state directory in which no epoch was committed."""
    check_rewrite(given.rewrite, now)
    names = target_names(now.sinks, {spec.name: spec for spec in now.sinks}, given.names)
    return tuple(SinkEdit(spec, spec, names[spec.name]) for spec in now.sinks)


def still_to_rewrite(
    names: Collection[str], last: Manifest, now: PhysicalPlan, looks: Looks
) -> tuple[str, ...]:
    """Those that the last epoch has not begun anew; one that it has, and that is not empty any more, goes on."""
    specs = {spec.name.lower(): spec for spec in now.sinks}

    def is_done(name: str) -> bool:
        spec = specs.get(name.lower())
        if spec is None or last.sink_edits.get(spec.name) != TargetEdit.REWRITE:
            return False
        return not looks.is_vacant(spec, last.sink_names.get(spec.name, spec.name))

    return tuple(name for name in names if not is_done(name))


def check_rewrite(names: Collection[str], now: PhysicalPlan) -> None:
    """Raises DiagnosticError (STA026, exit code 2) for a sink to rewrite that the query does not have."""
    there = {spec.name.lower() for spec in now.sinks}
    for name in names:
        if name.lower() not in there:
            near = did_you_mean(name, [spec.name for spec in now.sinks])
            raise DiagnosticError(
                Diagnostic(
                    "STA026",
                    f"--rewrite: the query writes no table `{name}`",
                    help=f"did you mean `{near}`?" if near else None,
                ),
                exit_code=2,
            )


def beginning(spec: SinkSpec, now: PhysicalPlan, given: Given) -> Begins:
    """What a sink begins with of which nothing is there."""
    if answer_is_kept(now, spec, given.forgotten):
        return Begins.ANSWER
    if all(source.name in given.unread for source in cut_down(now, (), (spec.name,)).sources):
        return Begins.NOTHING_READ
    if given.accepts("fresh", spec.name) and spec.changelog == "append":
        return Begins.NOW
    return Begins.HISTORY


def answer_is_kept(now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten) -> bool:
    """Whether a new sink is given its answer from the state: all of it, or what state that has forgotten keys still has.

    That is what such state will take back; rows that are never taken back are whole only in the sources' history.
    """
    forgetful = () if spec.changelog == "retract" else forgotten.now
    return not missing_answers(now, spec.name, forgetful=forgetful)


def _whole(now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten) -> tuple[str, ...]:
    """What is said of a sink that gets its answer from the state."""
    if not missing_answers(now, spec.name, forgetful=forgotten.now):
        return ("its whole answer is in the state: it gets that first, exactly once",)
    return (
        "it gets what the state has of its answer first, exactly once",
        "keys that the state has forgotten, by its time to live, are not in it until a row of theirs comes",
    )


def without_history(missing: Diagnostic, sinks: Collection[str]) -> Diagnostic:
    """What is told of history that is gone, of which tables that are kept up to date need all."""
    which = ", ".join(f"`{name}`" for name in sinks)
    return replace(
        missing,
        notes=(*missing.notes, f"the answer of {which} is not in the state, and can't be had without it"),
        help=f"put the files back as they were, or leave {which} out; {_NOTHING_CHANGED}",
    )


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


# ------------------------------------------------------------------------------------------- what begins anew


def _rewritten(edit: SinkEdit, now: PhysicalPlan, given: Given) -> SinkEdit:
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    edit = replace(edit, begins=beginning(spec, now, given), target=TargetEdit.REWRITE)
    if not given.looks.is_vacant(spec, edit.known_as):
        told = Diagnostic(
            "STA026",
            f"the table `{spec.name}` is to be written anew, and its place is not empty",
            at.table,
            ("what is there would stand beside what it is given",),
            f"empty it, or name another place; without --rewrite it goes on with what it has; {_NOTHING_CHANGED}",
        )
        return replace(edit, told=(told,))
    what = {
        Begins.ANSWER: _whole(now, spec, given.forgotten),
        Begins.NOTHING_READ: ("nothing was read for it so far",),
        Begins.NOW: ("what was read so far is not in it, which was accepted",),
        Begins.HISTORY: ("what was read is read again for it, up to where the sources are",),
    }[edit.begins or Begins.HISTORY]
    code = "STA016" if edit.begins is Begins.NOW else "STA017"
    told = Diagnostic(code, f"the table `{spec.name}` is written anew", at.query, what, severity="warning")
    return replace(edit, told=(told,))


def _new(edit: SinkEdit, now: PhysicalPlan, given: Given, *, moved: bool) -> SinkEdit:
    """A sink that nothing was given to; with `moved` a table of its name was written in another place."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    begins = beginning(spec, now, given)
    edit = replace(edit, begins=begins)
    if moved and begins is Begins.HISTORY and spec.changelog == "append":
        descriptor = descriptor_of(spec)
        if descriptor is not None and descriptor.sink.past is Past.DROPPED:
            return replace(edit, begins=Begins.NOW)
        why = Diagnostic(
            "STA013",
            f"the table `{spec.name}` is written in another place than before",
            at.table,
            ("the rows that it was given so far are in the former place, and stay there",),
            f"have the whole history of the query in the new place, with `--rewrite {spec.name}`",
        )
        then = "will have only what is read from now on"
        asked = Consent(f"fresh:{spec.name}", f"`{spec.name}`", why, then, "let it begin there now")
        return replace(edit, asked=(asked,))
    place = "in another place than before, and begins there anew" if moved else "new"
    table = f"the table `{spec.name}` is {place}"
    match begins:
        case Begins.ANSWER:
            told = Diagnostic(
                "STA017",
                table,
                at.query,
                _whole(now, spec, given.forgotten),
                severity="warning",
            )
        case Begins.NOW:
            told = Diagnostic(
                "STA016",
                f"{table}, and is given rows from now on",
                at.query,
                ("what was read so far is not in it, which was accepted",),
                severity="warning",
            )
        case Begins.HISTORY:
            told = Diagnostic(
                "STA017",
                f"{table}, and is given what the sources have had for it so far",
                at.query,
                ("what was read is read again for it, up to where the sources are",),
                f"to begin it with what is read from now on: --accept fresh:{spec.name}"
                if spec.changelog == "append"
                else None,
                severity="warning",
            )
        case _:
            return edit
    return replace(edit, told=(told,))


# ----------------------------------------------------------------------------------------------- what goes on


def _way(spec: SinkSpec, now: PhysicalPlan) -> str:
    """How to have what a sink would hold by the new query."""
    source = "from the sources' history" if missing_answers(now, spec.name) else "from the state"
    return (
        f"run the file that wrote this state; or give the table another, empty place (or empty it) and run with "
        f"`--rewrite {spec.name}`: it is given all of it, {source}; {_NOTHING_CHANGED}"
    )


def _going_on(
    edit: SinkEdit, former: SinkSpec, before: PhysicalPlan, now: PhysicalPlan, given: Given
) -> SinkEdit:
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    old, new = read_sink_identity(former.identity), read_sink_identity(spec.identity)
    if old is None or new is None:
        if given.same_text:
            return edit
        return replace(edit, told=tuple(_unknown(former, spec, before.stages == now.stages, at)))
    moved = [*place_changes(old, new)]
    if moved:
        return _refused(
            edit,
            "STA015",
            f"the table `{spec.name}` is written in another way than before",
            at,
            (*moved, "what it was given so far would not be read as the rest is"),
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
    """A table in a database, which can be altered."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    declared = [*table_changes(old, new)]
    updates = "retract" in (spec.changelog, former.changelog)
    other = (old.queries, old.conflict) != (new.queries, new.conflict)
    if not (declared or other or spec.changelog != former.changelog):
        return edit
    if not declared and not updates:
        stays = _rows_stay(old, new)
        return _from_now_on(edit, old, new, now, at) if stays else _other_answer(edit, old, new, now, at)
    both = spec.changelog == former.changelog == "retract" and old.conflict == new.conflict
    if both and not declared and _both_kept(before, former, now, spec, given.forgotten):
        return _brought(edit, old, new, at, forgot=_has_forgotten(before, former, given))
    wrong = [*_not_altered(old, new, updates=updates)]
    if wrong:
        return _refused(
            edit,
            "STA015",
            f"the table `{spec.name}` is declared otherwise than before",
            at,
            (*declared, *wrong),
            f"give the column another name, or {_way(spec, now)}",
            declared=True,
        )
    if updates:
        # What a state has forgotten is in the table still, and would go.
        if _has_forgotten(before, former, given) and not missing_answers(now, spec.name, forgetful=()):
            return _other_answer(edit, old, new, now, at, (*declared, _FORGOT_TWICE))
        edit = _replaced(edit, old, new, at, beginning(spec, now, given), declared)
        what = "its rows are replaced by the new answer, in one transaction"
        if former.changelog == "append":
            what += "; what others have written there goes, too"
    elif not _rows_stay(old, new):
        return _other_answer(edit, old, new, now, at, tuple(declared))
    else:
        edit = _from_now_on(edit, old, new, now, at, tuple(declared))
        if any(d.severity == "error" for d in edit.told):
            return edit
        edit = replace(edit, target=TargetEdit.ALTER)
        what = "rows that it has stay, with NULL in new columns"
    if given.accepts("alter", spec.name):
        return edit
    why = Diagnostic(
        "STA019",
        f"the table `{spec.name}` would be {'altered' if declared else 'written anew'} in its database",
        at.table,
        (*declared, *answer_changes(old, new), *_left_columns(old, new), what),
    )
    then = f"will be {'altered' if declared else 'written anew'} in its database"
    return replace(
        edit,
        asked=(Consent(f"alter:{spec.name}", f"the table `{spec.name}`", why, then, "let that be done"),),
    )


def _replaced(
    edit: SinkEdit, old: SinkIdentity, new: SinkIdentity, at: Written, begins: Begins, declared: list[str]
) -> SinkEdit:
    source = "is in the state" if begins is Begins.ANSWER else "is computed from the sources' history"
    told = Diagnostic(
        "STA017",
        f"the table `{edit.spec.name}` is {'altered, and ' if declared else ''}given its answer anew",
        at.query,
        (
            *declared,
            *answer_changes(old, new),
            f"its whole answer {source}: it gets that first, exactly once",
        ),
        severity="warning",
    )
    return replace(edit, begins=begins, target=TargetEdit.REPLACE, told=(told,))


def _left_columns(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    left = [name for name, _ in old.columns if name not in dict(new.columns)]
    if left:
        yield f"no column is dropped: {', '.join(f'`{name}`' for name in left)} would be NULL from now on"


def _not_altered(old: SinkIdentity, new: SinkIdentity, *, updates: bool) -> Iterator[str]:
    """Why a table in a database can't be altered so."""
    names = dict(new.columns)
    for name, type_ in old.columns:
        if name in names and names[name] != type_ and not widens(parse_type(type_), parse_type(names[name])):
            yield f"a column is altered to a wider type only, so that every value stays as it is (`{name}`)"
    if not updates and old.primary_key != new.primary_key:
        yield "the rows that it has stay, and may not have the new PRIMARY KEY"


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
    if declared and not _may_differ(old, new):
        return _refused(
            edit,
            "STA015",
            f"the table `{spec.name}` is declared otherwise than before",
            at,
            (*declared, "what it has was written as it was declared before"),
            _way(spec, now),
            declared=True,
        )
    other = (old.queries, old.conflict, old.holds) != (new.queries, new.conflict, new.holds)
    if Holds.ANSWER in (old.holds, new.holds):
        if not other:
            return edit
        both = "append" not in (spec.changelog, former.changelog) and old.holds is new.holds
        same_table = (old.columns, old.primary_key, old.conflict) == (
            new.columns,
            new.primary_key,
            new.conflict,
        )
        forgot = _has_forgotten(before, former, given)
        if both and same_table and _both_kept(before, former, now, spec, given.forgotten):
            return _brought(edit, old, new, at, forgot=forgot)
        return _other_answer(edit, old, new, now, at, (_FORGOT_TWICE,) if forgot else ())
    if other or declared:
        return _from_now_on(edit, old, new, now, at, tuple(declared))
    return edit


def _both_kept(
    before: PhysicalPlan, former: SinkSpec, now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten
) -> bool:
    """Whether the former answer and the new one are in the state; of forgotten keys there are rows that were given."""
    if forgotten.stays_twice(before, former, now, spec):
        return False
    return not missing_answers(before, former.name, forgetful=()) and not missing_answers(
        now, spec.name, forgetful=()
    )


def _has_forgotten(before: PhysicalPlan, former: SinkSpec, given: Given) -> bool:
    return not given.forgotten.before.isdisjoint(answering_states(before, former.name))


def _brought(edit: SinkEdit, old: SinkIdentity, new: SinkIdentity, at: Written, *, forgot: bool) -> SinkEdit:
    told = Diagnostic(
        "STA017",
        f"the table `{edit.spec.name}` is brought to the answer of another query",
        at.query,
        (
            *answer_changes(old, new),
            "both answers are in the state: it gets the difference first, exactly once",
            *([_FORGOT] if forgot else []),
        ),
        severity="warning",
    )
    return replace(edit, restated=True, told=(told,))


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
        f"the table `{edit.spec.name}` holds the answer of another query",
        at,
        (
            *more,
            *answer_changes(old, new),
            "only rows that change from now on would be written anew: the others would stay as the former query gave them",
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
) -> SinkEdit:
    name = edit.spec.name
    answer = [*answer_changes(old, new)]
    other = (old.queries, old.conflict) != (new.queries, new.conflict)
    if other and not (old.lasting and new.lasting):
        return _refused(
            edit,
            "STA014",
            f"the table `{name}` was given rows of another query",
            at,
            (
                *answer,
                "the query gives a row once, and would not give those again that were read before and "
                "left out by the former query",
            ),
            _way(edit.spec, now),
        )
    told = Diagnostic(
        "STA016",
        f"the table `{name}` is given the rows of another query from now on",
        at.query,
        (*declared, *answer, "what it was given before stays as it is"),
        f"to have all of it by the new query, give it another, empty place, and run with --rewrite {name}",
        severity="warning",
    )
    return replace(edit, told=(told,))


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
    return replace(edit, told=(Diagnostic(code, what, at.table if declared else at.query, notes, way),))


def _unknown(old: SinkSpec, new: SinkSpec, same_stages: bool, at: Written) -> Iterator[Diagnostic]:
    """A sink of which it was not kept what it holds."""
    if replace(old, name=new.name) != new or not same_place(old, new):
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
