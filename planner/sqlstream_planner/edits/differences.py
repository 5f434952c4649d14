"""What makes a state another one than an older state: the clauses that differ, in words, and where they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.edits.derivations.stored import Stored, filtered
from sqlstream_planner.explain.meaning import meaning_text, names_of_set_columns
from sqlstream_planner.identity.canonical import Canonical
from sqlstream_planner.identity.form import Data, Form
from sqlstream_planner.identity.parts import conjuncts
from sqlstream_planner.logical import Filter, SessionFunction, WindowFunction
from sqlstream_planner.logical.tree import walk
from sqlstream_planner.physical.state_node import StateNode

_SET_OPERATIONS = frozenset({"intersect", "except"})


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
    if new.operator == "distinct values":
        found += _values(old, new)
    if new.operator == "joined rows":
        found += _joined(old, new)
    if new.operator == "arranged rows":
        found += _keys("it was kept by", "is kept by", [*old.keys()], [*new.keys()])
        found += _lost(old, new, "payload")
    if old.attributes.get("rows can go") != new.attributes.get("rows can go"):
        can = new.attributes.get("rows can go")
        found.append(Difference(f"its rows {'can' if can else 'can not'} be retracted now"))
    return tuple(found)


def lost_values(old: Stored, new: Stored) -> tuple[Difference, ...]:
    """The distinct values that `old` has not kept of the very rows and groups; nothing of any other state."""
    canonical = Canonical()
    alike = old.operator == new.operator == "distinct values" and canonical(old.rows) == canonical(new.rows)
    return tuple(_values(old, new)) if alike else ()


def _values(old: Stored, new: Stored) -> Iterator[Difference]:
    kept, needed = (s.distinct_values().keys() for s in (old, new))
    lost = sorted(meaning_text(a) for k in needed - kept for a in k.args if isinstance(a, Form))
    if lost:
        yield Difference(f"the values of {', '.join(lost)} were not kept")


def _joined(old: Stored, new: Stored) -> Iterator[Difference]:
    """What a join keeps of its sides: by which keys, which columns, and of an INNER JOIN only rows that have a key."""
    keys = [[*state.keys()] for state in (old, new)]
    yield from _keys("it was joined by", "is joined by", *keys)
    for side in ("left", "right"):
        yield from _lost(old, new, f"{side} payload", f"of the {side} side ")
    was, is_ = (str(state.attributes.get("kind")) for state in (old, new))
    if was != is_ and keys[0] and set(keys[0]) == set(keys[1]):
        listed = ", ".join(sorted({meaning_text(k) for k in keys[1]}))
        yield Difference(
            f"rows whose {listed} is NULL were not kept by the {was} JOIN, and the {is_} JOIN gives them"
        )
    elif was != is_:
        yield Difference(f"it was a join of the kind {was} and is {is_}")


def _lost(old: Stored, new: Stored, attribute: str, where: str = "") -> Iterator[Difference]:
    """The columns of rows that the old state has not kept."""
    kept, needed = (_payload(state.attributes.get(attribute)) for state in (old, new))
    keys = set(map(meaning_text, new.keys()))  # these are reported as keys
    lost = [name for name in needed if name not in kept and name not in keys]
    if lost:
        yield Difference(f"{where}{', '.join(lost)} {'was' if len(lost) == 1 else 'were'} not kept")


def _payload(columns: Data) -> list[str]:
    listed = columns if isinstance(columns, list | tuple) else ()
    return [meaning_text(c.args[0]) for c in listed if isinstance(c, Form) and isinstance(c.args[0], Form)]


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
    spelled = Canonical()
    meant, new_meant = (frozenset(map(spelled, c)) for c in (conditions, new_conditions))
    was = _named(c for c in conditions if spelled(c) not in new_meant)
    is_ = _named(c for c in new_conditions if spelled(c) not in meant)
    found += [Difference(f"the condition {text} is new", f) for text, f in is_.items() if text not in was]
    found += [Difference(f"the condition {text} is gone") for text in was if text not in is_]
    return found


def _parts(old: Form, new: Form) -> list[Difference] | None:
    if old == new:
        return []
    if {old.op, new.op} <= _SET_OPERATIONS and old.args[1:] == new.args[1:]:
        return [Difference(f"it was {old.op.upper()} and is {new.op.upper()}")]
    if old.op != new.op:
        return None
    match old.op, old.args, new.args:
        case "groups", (Form() as before, *sets), (Form() as now, *new_sets):
            inside = _rows(before, now)
            names = names_of_set_columns([old, new])
            return None if inside is None else [*inside, *_sets(sets, new_sets, names)]
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
        case "sides", sides, new_sides:
            return _all_rows([*sides], [*new_sides])
    return None


def _all_rows(old: Sequence[object], new: Sequence[object]) -> list[Difference] | None:
    found: list[Difference] = []
    for was, is_ in zip(old, new, strict=True):
        inside = _rows(was, is_) if isinstance(was, Form) and isinstance(is_, Form) else None
        if inside is None:
            return None
        found += inside
    return found


def _branches(old: Sequence[object], new: Sequence[object]) -> list[Difference] | None:
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if len(gone) == len(come) == 1:
        [was], [is_] = gone, come
        return _rows(was, is_) if isinstance(was, Form) and isinstance(is_, Form) else None
    counts = f"{len(old)} queries were put together in it, and {len(new)} are"
    return [Difference(counts)] if len(old) != len(new) else None


def _sets(old: Iterable[object], new: Iterable[object], names: Mapping[str, str]) -> Iterator[Difference]:
    """What is grouped by; of several grouping sets, each in brackets."""
    before, now = _grouping(old, names), _grouping(new, names)
    if before != now:
        yield Difference(f"it was grouped by {before} and is grouped by {now}")


def _grouping(sets: Iterable[object], names: Mapping[str, str]) -> str:
    found = []
    for each in sets:
        if isinstance(each, Form) and each.op == "set":
            keys = sorted(
                meaning_text(k, names) for k in each.args if isinstance(k, Form) and k.op != "in window"
            )
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
