"""Which source of a program goes on from which position: by what the data is, and not by what its table is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from sqlstream.storage.manifest import SourceState, alike
from sqlstream_operators.plan.spec import SourceSpec


def go_on(before: Sequence[SourceState], specs: Sequence[SourceSpec]) -> dict[str, SourceState]:
    """The states that sources go on from, by the names that their tables have now; one that is missing is new.

    Among tables of one identity each goes on as the one of its name did. Those whose names have changed too are matched
    where it does not matter which is which: there is one of them, or all are at one position. A table more of data that is
    known stands where the others do, if these are all at one position: it has the state of one of them, with its folder
    (`shared_data` gives it one of its own).

    >>> a, b = SourceState("a", "x", {"row": 1}, identity="A"), SourceState("b", "x", {"row": 2}, identity="B")
    >>> specs = [SourceSpec("b", "x", {}, (), (), identity="A"), SourceSpec("a", "x", {}, (), (), identity="B")]
    >>> {name: state.position for name, state in go_on([a, b], specs).items()}
    {'b': {'row': 1}, 'a': {'row': 2}}
    >>> more = [SourceSpec(name, "x", {}, (), (), identity="A") for name in ("a", "also")]
    >>> {name: state.position for name, state in go_on([a], more).items()}
    {'a': {'row': 1}, 'also': {'row': 1}}
    """
    found: dict[str, SourceState] = {}
    for identity in dict.fromkeys((spec.connector, spec.identity) for spec in specs):
        wanted = [spec.name for spec in specs if (spec.connector, spec.identity) == identity]
        known = {state.name: state for state in before if (state.connector, state.identity) == identity}
        every = list(known.values())
        found |= {name: known.pop(name) for name in wanted if name in known}
        renamed = [name for name in wanted if name not in found]
        left = list(known.values())
        anonymous = not identity[1]
        if left and not anonymous and alike(left):
            found |= {name: replace(state, name=name) for name, state in zip(renamed, left, strict=False)}
        if every and not anonymous and alike(every):
            found |= {name: replace(every[0], name=name) for name in renamed if name not in found}
    return {spec.name: found[spec.name] for spec in specs if spec.name in found}


def own_folders(
    known: Mapping[str, SourceState], specs: Iterable[SourceSpec], taken: Iterable[str] = ()
) -> dict[str, str]:
    """The folder of each source in the state directory: the one that it has, or a new one, not among `taken`.

    >>> state = SourceState("b", "x", {}, folder="sources/a")
    >>> specs = [SourceSpec("b", "x", {}, (), ()), SourceSpec("a", "x", {}, (), ())]
    >>> own_folders({"b": state}, specs)
    {'b': 'sources/a', 'a': 'sources/a.2'}
    """
    folders = {name: state.folder for name, state in known.items()}
    used = frozenset(taken)
    for spec in specs:
        if spec.name in folders:
            continue
        plain = folder = f"sources/{quote(spec.name, safe='')}"
        number = 1
        while folder in folders.values() or folder in used:
            number += 1
            folder = f"{plain}.{number}"
        folders[spec.name] = folder
    return {spec.name: folders[spec.name] for spec in specs}
