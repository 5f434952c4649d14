"""What a state is for, in a few words of the query: the heading of its lines in a plan."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_planner.explain.meaning import NO_KEY, description_text, field_meaning, field_meanings
from sqlstream_planner.identity.stored_identity import read_identity
from sqlstream_planner.logical.text import duration

_DISTINCT = "distinct value("


def title_of(state: StateSchema) -> str:
    """The operator's description without its fields; columns are called as the query calls them, if the state records it."""
    title = (description_text(state) or state.operator.replace("_", " ")).partition(":")[0]
    if not state.identity or not state.tables:
        return title
    meanings = field_meanings(state)
    keys = [field_meaning(f, meanings) for f in state.tables[0].key]
    values = [key[len(_DISTINCT) : -1] for key in keys if key.startswith(_DISTINCT)]
    if values:
        return f"DISTINCT {', '.join(values)}"
    what, by, named = title.partition(" by ")
    keys = [key for key in keys if not key.startswith("grouping(")]
    if by and keys == [NO_KEY]:
        return f"{what} without a key"
    # A key that is computed has a name that only the plan knows.
    if by and len(keys) == len(named.split(", ")) and set(keys) != set(named.split(", ")):
        named = ", ".join(keys)
    return f"{what}{_length(state) if what.endswith(' window') else ''}{by}{named}"


def _length(state: StateSchema) -> str:
    """How long windows are, and how far apart."""
    window = read_identity(state.identity).attributes.get("window")
    match window:
        case Sequence() if len(window) == 3:
            _, size, slide = window
            if isinstance(size, int) and isinstance(slide, int):
                every = "" if size == slide else f" every {duration(slide)}"
                return f" of {duration(size)}{every}"
    return ""
