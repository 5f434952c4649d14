"""What is checked after every rule, so that a rule that breaks a plan is named at once."""

from __future__ import annotations

from collections.abc import Sequence, Set

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import (
    Aggregate,
    Apply,
    AsOfJoin,
    Fields,
    Join,
    LateralJoin,
    Node,
    OrderLimit,
    OverWindow,
    Scan,
    SessionFunction,
    SetOperation,
    Sink,
    columns_of,
    walk,
)
from sqlstream_planner.logical.algebra import EmitOnClose
from sqlstream_planner.properties.facts import Facts


class Check:
    """Remembers what a plan was before, to compare.

    Of every node: each column that it reads is given by its inputs, no two of its own have one id, and an event time is
    bounded by the watermarks of tables that are read below it. Of every sink: it gets the same columns; and once the plan is
    a streaming one, the same changelog mode and no key less.
    """

    def __init__(self, roots: Sequence[Sink], facts: Facts) -> None:
        self._schemas = {r.label: _schema(r.fields) for r in roots}
        self._sound: dict[int, Node] = {}
        self._timed: dict[int, frozenset[str]] = {}
        self._facts = facts
        self._before: dict[str, tuple[bool, frozenset[frozenset[int]]]] = {}
        self.after("bind", roots)

    def after(self, rule: str, roots: Sequence[Sink]) -> None:
        """Raises InternalError that names `rule`."""
        if {r.label: _schema(r.fields) for r in roots} != self._schemas:
            raise InternalError(f"rule {rule} changed the columns of a sink")
        nodes = walk(roots)
        outer = {id_ for node in nodes if isinstance(node, Apply | LateralJoin) for id_ in node.outer}
        for node in nodes:
            if id(node) not in self._sound:
                _check_node(rule, node, outer)
                self._check_times(rule, node)
                self._sound[id(node)] = node
        if any(_is_relational(node) for node in nodes):
            return
        for root in roots:
            positions = {f.id: n for n, f in enumerate(root.fields)}
            known = frozenset(
                frozenset(positions[id_] for id_ in key)
                for key in self._facts.keys(root)
                if all(id_ in positions for id_ in key)
            )
            mode = self._facts.changes(root)
            before = self._before.get(root.label)
            if root.conflict is not None:
                before = None  # ON CONFLICT is there to change them
            if before is not None and before[0] != mode:
                raise InternalError(f"rule {rule} changed the changelog mode of {root.label}")
            if before is not None and not before[1] <= known:
                raise InternalError(f"rule {rule} lost a key of {root.label}")
            self._before[root.label] = (mode, known)

    def _check_times(self, rule: str, node: Node) -> None:
        """Event times go by watermarks of tables below; of one that is not read, no watermark would ever come."""
        below = frozenset[str]().union(*(self._timed[id(i)] for i in node.inputs))
        if isinstance(node, Scan):
            # Of a dimension no column is an event time behind the join that looks it up.
            timed = node.is_dimension or node.source.watermark is not None
            below = frozenset({node.source.name} if timed else ())
        self._timed[id(node)] = below
        times = (time for f in node.fields for time in (f.time, f.window and f.window.time) if time)
        unknown = {source for time in times for source in time.sources} - below - {EPOCH_RELATION}
        if unknown:
            kind = type(node).__name__
            raise InternalError(
                f"rule {rule} made a {kind} whose event time waits for {sorted(unknown)}, not read there"
            )


def _is_relational(node: Node) -> bool:
    """Whether a node is algebra that the streaming rules have not yet replaced."""
    return isinstance(
        node,
        Aggregate
        | Apply
        | AsOfJoin
        | Join
        | LateralJoin
        | OverWindow
        | OrderLimit
        | EmitOnClose
        | SessionFunction,
    ) or (isinstance(node, SetOperation) and not node.is_union_all)


def _check_node(rule: str, node: Node, outer: Set[str]) -> None:
    own = [f.id for f in node.fields]
    if len(set(own)) != len(own):
        raise InternalError(f"rule {rule} made a {type(node).__name__} with two columns of one id")
    given = {f.id for i in node.inputs for f in i.fields}
    read = set().union(*(columns_of(e) for e in node.expressions()), node.references())
    # The columns of a scan are its own.
    unknown = read - given - outer - (set(own) if not node.inputs else set())
    if unknown:
        raise InternalError(f"rule {rule} made a {type(node).__name__} that reads unknown {sorted(unknown)}")


def _schema(fields: Fields) -> list[str]:
    """Columns by position, as a sink takes them; what they are called is the sink's own."""
    return [str(f.type) for f in fields]
