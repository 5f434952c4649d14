"""The sets of columns that are known to be unique."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowKind, WindowSpec
from sqlstream_planner.logical import (
    Arrangement,
    ChangelogNormalize,
    EpochValues,
    Filter,
    FirstRow,
    GroupAggregate,
    IntervalJoin,
    JoinKind,
    LookupJoin,
    Node,
    Over,
    Project,
    RegularJoin,
    SessionAggregate,
    SessionWindows,
    Sink,
    SuppressUntilClose,
    TemporalJoin,
    TopN,
    Unnest,
    Values,
    WindowAggregate,
    WindowColumn,
    columns_of,
    dimension_scan,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.properties.analysis import Analysis
from sqlstream_planner.properties.constants import Constants
from sqlstream_planner.properties.passed_on import passed_on

Key = tuple[str, ...]


class UniqueKeys(Analysis[tuple[Key, ...]]):
    """The sets of column ids that are known to be unique in a node's output, the best first; of a streaming plan."""

    def __init__(self) -> None:
        super().__init__()
        self._constants = Constants()

    def of(self, node: Node) -> tuple[Key, ...]:
        """Computed of a node from its inputs."""
        found = self._of(node)
        return tuple(dict.fromkeys((*found, *(_by_end(key, node) for key in found))))

    def _of(self, node: Node) -> tuple[Key, ...]:
        match node:
            case WindowAggregate():
                grouping = (node.grouping.id,) if node.grouping is not None else ()
                return ((*(f.id for f in node.keys), node.end.id, *grouping),)
            case SessionAggregate():
                # Sessions of a partition are apart, and none ends before one that is closed.
                return ((*(f.id for f in node.keys), node.end.id),)
            case GroupAggregate():
                return self._of_groups(node)
            case ChangelogNormalize():
                return (node.keys,)
            case FirstRow():
                return (node.keys, *self(node.input))
            case TopN():
                numbered = node.function == "row_number"
                found: list[Key] = [node.partition] if node.limit <= 1 and numbered else []
                if node.rank is not None and numbered:
                    found.append((*node.partition, node.rank.id))
                return (*found, *self(node.input))
            case Over():
                numbers = [(*node.partition, c.field.id) for c in node.calls if c.rank == "row_number"]
                return (*self(node.input), *numbers)
            case Project():
                return self._of_projection(node)
            case RegularJoin() | IntervalJoin():
                return self._of_join(node)
            case TemporalJoin():
                return self(node.left)
            case LookupJoin():
                return self(node.left) if _finds_one(node) else ()
            case Values() if len(node.rows) == 1:
                return ((),)
            case Unnest() if node.ordinality is not None:
                return tuple((*key, node.ordinality.id) for key in self(node.input))
            case EpochValues() | Filter() | Sink() | Arrangement() | SuppressUntilClose() | SessionWindows():
                return self(node.inputs[0])
        return ()

    def _of_groups(self, node: GroupAggregate) -> tuple[Key, ...]:
        """The group's keys; then fewer of them that are enough: those that vary, and keys of the input among them."""
        every = tuple(f.id for f in node.keys)
        if node.grouping is not None:
            return ((*every, node.grouping.id),)
        same = self._constants.among(node.keys, node.key_expressions, node.input)
        varying = tuple(id_ for id_ in every if id_ not in same)
        plain = passed_on(node.keys, node.key_expressions, node.input)
        inside = [
            tuple(plain[id_] for id_ in key) for key in self(node.input) if all(id_ in plain for id_ in key)
        ]
        return tuple(dict.fromkeys([every, varying, *inside]))

    def _of_join(self, node: RegularJoin | IntervalJoin) -> tuple[Key, ...]:
        """The keys of a side whose rows have one partner at most; else those of both sides together."""
        left, right = self(node.left), self(node.right)
        if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left
        compared = [{e.name for e in side if isinstance(e, exp.Column)} for side in _key_sides(node)]
        found: list[Key] = []
        # A side that is given whole has rows that stand beside NULLs: the other side's columns don't tell them apart.
        if node.kind in (JoinKind.INNER, JoinKind.LEFT) and any(set(key) <= compared[1] for key in right):
            found += left
        if node.kind in (JoinKind.INNER, JoinKind.RIGHT) and any(set(key) <= compared[0] for key in left):
            found += right
        if node.kind is not JoinKind.FULL or _never_null(node.left, left) or _never_null(node.right, right):
            found += [tuple(dict.fromkeys((*a, *b))) for a in left for b in right]
        if node.kind is JoinKind.INNER:
            found += _by_equals(found, node)
        return tuple(dict.fromkeys(found))

    def _of_projection(self, node: Project) -> tuple[Key, ...]:
        kept = passed_on(node.fields, node.items, node.input)
        below = self(node.input)
        found = [tuple(kept[id_] for id_ in key) for key in below if all(id_ in kept for id_ in key)]
        for end, instead in _stand_ins(node):
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
    said: set[str] = set()
    for term in conjuncts(node.condition):
        if isinstance(bare := term.unnest(), exp.EQ):
            for one, other in ((bare.this, bare.expression), (bare.expression, bare.this)):
                if (
                    isinstance(one.unnest(), exp.Column)
                    and columns_of(one) <= theirs
                    and columns_of(other) <= mine
                ):
                    said |= columns_of(one)
    below = node.right
    while isinstance(below, Project | Filter):
        if isinstance(below, Project):
            items = zip(below.fields, below.items, strict=True)
            said = {e.unnest().name for f, e in items if f.id in said and isinstance(e.unnest(), exp.Column)}
        below = below.input
    key = {name.lower() for name in scan.source.primary_key}
    return key <= {f.name.lower() for f in scan.fields if f.id in said}


def _key_sides(node: RegularJoin | IntervalJoin) -> tuple[list[exp.Expr], list[exp.Expr]]:
    return [_compared(key.left) for key in node.keys], [_compared(key.right) for key in node.keys]


def _compared(side: exp.Expr) -> exp.Expr:
    """What a join compares; of a list of one, as which NULLs are equal, the one."""
    bare = side.unnest()
    if isinstance(bare, exp.Array) and len(bare.expressions) == 1:
        return _compared(bare.expressions[0])
    return bare


def _never_null(node: Node, keys: tuple[Key, ...]) -> bool:
    """Whether every key of a node has a column that is never NULL there."""
    known = {f.id for f in node.fields if not f.nullable}
    return all(known & set(key) for key in keys)


def _by_equals(keys: list[Key], node: RegularJoin | IntervalJoin) -> list[Key]:
    """The keys with columns of the other side that are equal to theirs."""
    equal: dict[str, str] = {}
    for a, b in zip(*_key_sides(node), strict=True):
        if isinstance(a, exp.Column) and isinstance(b, exp.Column):
            equal.setdefault(a.name, b.name)
            equal.setdefault(b.name, a.name)
    return [tuple(dict.fromkeys(equal.get(id_, id_) for id_ in key)) for key in keys]


def _by_end(key: Key, node: Node) -> Key:
    """The key without the start and the time of windows whose end is in it: the end says which window it is.

    It does of a CUMULATE, too: where one cycle ends the next one has no window that ends.
    """
    windows = {f.id: f.window for f in node.fields if f.window is not None}
    told = {windows[id_].window for id_ in key if id_ in windows and windows[id_].role == "end"}
    return tuple(id_ for id_ in key if id_ not in windows or not _said(windows[id_], told))


def _said(bound: WindowColumn, told: set[WindowSpec]) -> bool:
    """Whether the ends of windows in `told` say this bound; sessions of two partitions may have one end and two starts."""
    follows = bound.role == "time" or (bound.role == "start" and bound.window.kind is not WindowKind.SESSION)
    return bound.window in told and follows


def _stand_ins(node: Project) -> list[tuple[str, str]]:
    """Columns of the input with a window's end, and of the output what tells windows apart as well: start or time."""
    bounds = {f.id: f.window for f in node.input.fields if f.window is not None}
    ends = {
        f.window.window: f.id for f in node.input.fields if f.window is not None and f.window.role == "end"
    }
    found = []
    for f, e in zip(node.fields, node.items, strict=True):
        from_ = columns_of(e)
        if f.window is None or len(from_) != 1 or not from_ <= bounds.keys() or f.window.window not in ends:
            continue
        bare = isinstance(e, exp.Column)
        if bare and bounds[e.name].role == "end":
            continue
        # The windows of one CUMULATE cycle have one start, and sessions of two partitions may.
        if f.window.role == "time" or (
            f.window.role == "start" and f.window.window.kind not in (WindowKind.CUMULATE, WindowKind.SESSION)
        ):
            found.append((ends[f.window.window], f.id))
    return found
