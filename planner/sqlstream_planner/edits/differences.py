"""What makes a state another one than an older state: the clauses that differ, in words, and where they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.edits.derivations.stored import Stored, filtered
from sqlstream_planner.explain.meaning import meaning_text
from sqlstream_planner.identity.form import Data, Form
from sqlstream_planner.identity.relation import conjuncts
from sqlstream_planner.logical import Filter, SessionFunction, WindowFunction
from sqlstream_planner.logical.tree import walk
from sqlstream_planner.physical.state_node import StateNode


@dataclass(frozen=True, slots=True)
class Difference:
    """A clause that differs, in words; `form` is what it means in the new query, if it is there."""

    text: str
    form: Form | None = None


def state_differences(old: Stored, new: Stored) -> tuple[Difference, ...]:
    """What makes `new` another state than `old`; nothing where they have too little in common to say it in few words."""
    rows = row_differences(old.rows, new.rows)
    if old.operator != new.operator or (not rows and old.rows != new.rows):
        return ()
    found = [*rows]
    if new.operator == "ranked rows":
        found += _keys("it was ranked by", "is ranked by", [*old.keys()], [*new.keys()])
        found += _order(old.attributes.get("order"), new.attributes.get("order"))
        before, now = old.attributes.get("limit"), new.attributes.get("limit")
        if before != now:
            found.append(Difference(f"{before} of them were kept, and {now} are needed"))
    if old.attributes.get("rows can go") != new.attributes.get("rows can go"):
        can = new.attributes.get("rows can go")
        found.append(Difference(f"its rows {'can' if can else 'can not'} be taken back now"))
    return tuple(found)


def row_differences(old: Form, new: Form) -> tuple[Difference, ...]:
    """What makes the rows of a relation other rows; nothing where there is too much to say it in few words."""
    found = _rows(old, new)
    return () if found is None else tuple(found)


def _rows(old: Form, new: Form) -> list[Difference] | None:
    """The differences of two relations; None if they can't be compared part by part."""
    (before, conditions), (now, new_conditions) = filtered(old), filtered(new)
    found = _parts(before, now)
    if found is None:
        return None
    was, is_ = _named(conditions - new_conditions), _named(new_conditions - conditions)
    found += [Difference(f"the condition {text} is new", f) for text, f in is_.items() if text not in was]
    found += [Difference(f"the condition {text} is gone") for text in was if text not in is_]
    return found


def _parts(old: Form, new: Form) -> list[Difference] | None:
    if old == new:
        return []
    if old.op != new.op:
        return None
    match old.op, old.args, new.args:
        case "groups", (Form() as before, *sets), (Form() as now, *new_sets):
            inside = _rows(before, now)
            return None if inside is None else [*inside, *_sets(sets, new_sets)]
        case "windows", (Form() as before, Form() as was), (Form() as now, Form() as is_):
            inside = _rows(before, now)
            texts = meaning_text(was), meaning_text(is_)
            if inside is not None and texts[0] != texts[1]:
                inside.append(Difference(f"its windows were {texts[0]} and are {texts[1]}", is_))
            return inside
        case "unnest", (Form() as before, Form() as was, *how), (Form() as now, Form() as is_, *new_how):
            inside = _rows(before, now)
            if inside is not None and how != new_how:
                kept = "are kept" if "outer" in new_how else "are left out"
                inside.append(Difference(f"rows without an element {kept} now"))
            elif inside is not None and was != is_:
                inside.append(Difference(f"{meaning_text(was)} was unnested, and {meaning_text(is_)} is"))
            return inside
        case "union", branches, new_branches:
            return _branches([*branches], [*new_branches])
    return None


def _branches(old: Sequence[object], new: Sequence[object]) -> list[Difference] | None:
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if len(gone) == len(come) == 1:
        [was], [is_] = gone, come
        return _rows(was, is_) if isinstance(was, Form) and isinstance(is_, Form) else None
    counts = f"{len(old)} queries were put together in it, and {len(new)} are"
    return [Difference(counts)] if len(old) != len(new) else None


def _sets(old: Iterable[object], new: Iterable[object]) -> Iterator[Difference]:
    """What is grouped by; of several grouping sets, each in brackets."""
    before, now = _grouping(old), _grouping(new)
    if before != now:
        yield Difference(f"it was grouped by {before} and is grouped by {now}")


def _grouping(sets: Iterable[object]) -> str:
    found = []
    for each in sets:
        if isinstance(each, Form) and each.op == "set":
            keys = sorted(meaning_text(k) for k in each.args if isinstance(k, Form) and k.op != "in window")
            found.append(", ".join(keys))
    return found[0] or "nothing" if len(found) == 1 else ", ".join(sorted(f"({keys})" for keys in found))


def _keys(was: str, is_: str, old: Iterable[Form], new: Iterable[Form]) -> Iterator[Difference]:
    before, now = (", ".join(sorted({meaning_text(k) for k in keys})) or "nothing" for keys in (old, new))
    if before != now:
        yield Difference(f"{was} {before} and {is_} {now}")


def _order(old: Data, new: Data) -> Iterator[Difference]:
    before, now = _terms(old), _terms(new)
    if before != now:
        yield Difference(f"its order was {before} and is {now}")


def _terms(order: Data) -> str:
    terms = order if isinstance(order, list | tuple) else ()
    found = []
    for term in terms:
        if isinstance(term, Form) and isinstance(term.args[0], Form):
            found.append(meaning_text(term.args[0]) + (" desc" if term.args[1] == "desc" else ""))
    return ", ".join(found) or "none"


def _named(conditions: Iterable[Form]) -> dict[str, Form]:
    return dict(sorted((meaning_text(c), c) for c in conditions))


def place_of(differences: Iterable[Difference], node: StateNode | None) -> Span | None:
    """Where the first of these that stands in the new file does; else the operator's own clause."""
    wanted = {d.form for d in differences if d.form is not None}
    if node is None or not wanted:
        return None if node is None else node.at
    places: dict[Form, Span] = {}
    for below in walk([getattr(node.node, "meaning", node.node)]):
        if isinstance(below, Filter) and below.at is not None:
            for condition in conjuncts(node.meanings.expression(below.predicate, below.input)):
                places.setdefault(condition, below.at)
        elif isinstance(below, WindowFunction) and below.at is not None:
            places.setdefault(node.meanings.window(below), below.at)
        elif isinstance(below, SessionFunction) and below.at is not None:
            places.setdefault(node.meanings.sessions(below), below.at)
    return next((places[d.form] for d in differences if d.form in places), node.at)
