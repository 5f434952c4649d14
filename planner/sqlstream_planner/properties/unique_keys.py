"""The sets of columns that are known to be unique."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.expressions.passed_on import passed_on
from sqlstream_planner.logical import (
    EpochValues,
    Filter,
    LookupJoin,
    Node,
    Project,
    Scan,
    Sink,
    StreamingOperator,
    Unnest,
    Values,
    Versions,
    WindowColumn,
    columns_of,
    dimension_scan,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.logical.operator import Key
from sqlstream_planner.properties.analysis import Analysis, is_stateless, unknown
from sqlstream_planner.properties.constants import Constants


class UniqueKeys(Analysis[tuple[Key, ...]]):
    """The sets of column ids that are known to be unique in a node's output, the best first; of a streaming plan."""

    def __init__(self, constants: Constants) -> None:
        super().__init__()
        self._constants = constants

    def of(self, node: Node) -> tuple[Key, ...]:
        """Computed of a node from its inputs."""
        found = self._of(node)
        return tuple(dict.fromkeys((*found, *(_by_end(key, node) for key in found))))

    def _of(self, node: Node) -> tuple[Key, ...]:
        match node:
            case StreamingOperator():
                return tuple(node.unique_keys(self, self._constants))
            case Project():
                return self._of_projection(node)
            case LookupJoin():
                return self(node.left) if _finds_one(node) else ()
            case Values():
                return ((),) if len(node.rows) == 1 else ()
            case Unnest() if node.ordinality is not None:
                return tuple((*key, node.ordinality.id) for key in self(node.input))
            case EpochValues() | Filter() | Sink():
                return self(node.input)
            case Scan() | Versions():
                return ()
            case _ if is_stateless(node):
                return ()
        raise unknown(node, "by which columns its rows are unique")

    def _of_projection(self, node: Project) -> tuple[Key, ...]:
        kept = passed_on(node.fields, node.items, node.input)
        below = self(node.input)
        found = [tuple(kept[id_] for id_ in key) for key in below if all(id_ in kept for id_ in key)]
        for end, instead in _stand_ins(node, kept):
            known = {**kept, end: instead}
            found += [
                tuple(known[id_] for id_ in key)
                for key in below
                if end in key and all(id_ in known for id_ in key)
            ]
        return tuple(found)


def _finds_one(node: LookupJoin) -> bool:
    """Whether a row finds one row at most: ON says what each column of the table's PRIMARY KEY is.

    That is checked when the table is read.
    """
    scan = dimension_scan(node.right)
    if scan is None or not scan.source.primary_key:
        return False
    mine, theirs = ({f.id for f in side.fields} for side in node.inputs)
    compared: set[str] = set()
    for term in conjuncts(node.condition):
        if isinstance(bare := term.unnest(), exp.EQ):
            for one, other in ((bare.this, bare.expression), (bare.expression, bare.this)):
                if (
                    isinstance(one.unnest(), exp.Column)
                    and columns_of(one) <= theirs
                    and columns_of(other) <= mine
                ):
                    compared |= columns_of(one)
    below = node.right
    while isinstance(below, Project | Filter):
        if isinstance(below, Project):
            items = zip(below.fields, below.items, strict=True)
            compared = {
                e.unnest().name for f, e in items if f.id in compared and isinstance(e.unnest(), exp.Column)
            }
        below = below.input
    key = {name.lower() for name in scan.source.primary_key}
    return key <= {f.name.lower() for f in scan.fields if f.id in compared}


def _by_end(key: Key, node: Node) -> Key:
    """The key without the start and the time of windows whose end is in it: the end says which window it is.

    It does of a CUMULATE, too: where one cycle ends the next one has no window that ends.
    """
    windows = {f.id: f.window for f in node.fields if f.window is not None}
    ends = {windows[id_].window for id_ in key if id_ in windows and windows[id_].role == "end"}
    return tuple(id_ for id_ in key if id_ not in windows or not _follows_from(windows[id_], ends))


def _follows_from(bound: WindowColumn, ends: set[WindowSpec]) -> bool:
    """Whether the ends of windows in `ends` say this bound; sessions of two partitions may have one end and two starts."""
    follows = bound.role == "time" or (bound.role == "start" and bound.window.kind is not WindowKind.SESSION)
    return bound.window in ends and follows


def _stand_ins(node: Project, kept: Mapping[str, str]) -> list[tuple[str, str]]:
    """Columns of the input with a window's end, and of the output what distinguishes windows as well: start or time.

    They are such columns of the input that `kept` says are given so that values that differ still do (as a text, too), or
    were computed from one of its bounds.
    """
    bounds = {f.id: f.window for f in node.input.fields if f.window is not None}
    ends = {bound.window: id_ for id_, bound in bounds.items() if bound.role == "end"}
    found = [
        (ends[bound.window], kept[id_])
        for id_, bound in bounds.items()
        if id_ in kept and bound.window in ends and _says_which(bound)
    ]
    for f, e in zip(node.fields, node.items, strict=True):
        from_ = columns_of(e)
        if f.window is None or len(from_) != 1 or not from_ <= bounds.keys() or f.window.window not in ends:
            continue
        bare = isinstance(e, exp.Column)
        if bare and bounds[e.name].role == "end":
            continue
        if _says_which(f.window):
            found.append((ends[f.window.window], f.id))
    return list(dict.fromkeys(found))


def _says_which(bound: WindowColumn) -> bool:
    """Whether it says which window it is: those of one CUMULATE cycle have one start, and sessions of two partitions may."""
    return bound.role == "time" or (
        bound.role == "start" and bound.window.kind not in (WindowKind.CUMULATE, WindowKind.SESSION)
    )
