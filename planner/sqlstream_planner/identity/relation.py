"""What relations and columns mean: forms of the relational algebra, whatever things are called.

The form of a relation says which rows it has, without regard to its columns; the form of a column says what it holds in
each of these rows. Both are read together: a column's form is understood in the relation that it is a column of. So
that it can be understood in one way only, everything that makes rows or values of its own (an element of an UNNEST, a
window, a branch of a UNION, a group, a rank) is named with its *nesting depth*, the number of such things on the way down to
the sources: the same array unnested twice is two things. Projections make nothing, and filters commute with what
copies rows, so that a view or a sub-query around a part of a query changes no form.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.identity.parts import (
    NO_COLUMNS,
    Columns,
    Rows,
    call_form,
    cast_columns,
    conjuncts,
    form_over,
    key_forms,
    order_forms,
    source_column_form,
    source_form,
    window_form,
)
from sqlstream_planner.logical import (
    Aggregate,
    AggregateCall,
    Apply,
    AsOfJoin,
    EmitOnClose,
    EpochValues,
    Filter,
    Join,
    LateralJoin,
    LookupJoin,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SessionFunction,
    SetOperation,
    Sink,
    StreamingOperator,
    Unnest,
    Values,
    Versions,
    WindowFunction,
)
from sqlstream_planner.logical.operator import StandIn
from sqlstream_planner.logical.parts import PEER_FUNCTIONS, WindowCall
from sqlstream_planner.properties.analysis import Analysis


class Meanings:
    """The forms of the relations and columns of one plan, computed once per node."""

    def __init__(self) -> None:
        self._depths = _Depths()
        self._columns = _ColumnForms(self)
        self._rows = _RowForms(self)

    def relation(self, node: Node) -> Form:
        """Which rows a node of the algebra has."""
        return self._rows(node).form

    def columns(self, node: Node) -> Columns:
        """What each of a node's columns holds, by the column's id."""
        return self._columns(node)

    def expression(self, expression: exp.Expr, node: Node) -> Form:
        """What an expression over `node`'s columns computes."""
        return form_over(expression, self.columns(node))

    def call(self, call: AggregateCall, node: Node) -> Form:
        """What an aggregate call over `node`'s rows computes."""
        return call_form(call, self.columns(node))

    def nesting_depth(self, node: Node) -> int:
        """How many things that make rows or values of their own are on the longest way from `node` to a source."""
        return self._depths(node)

    def rows(self, node: Node) -> Rows:
        """As `relation`, its conditions apart."""
        return self._rows(node)

    def window(self, node: WindowFunction) -> Form:
        """Which windows a window function makes."""
        return window_form(node.window, self.columns(node.input)[node.time_column])

    def sessions(self, node: SessionFunction) -> Form:
        """Which sessions a SESSION makes of the rows of its input."""
        columns = self.columns(node.input)
        partition = sort_forms({columns[id_] for id_ in node.partition})
        return form("session", node.window.size_us, columns[node.time_column], form("partition", *partition))


class _Depths(Analysis[int]):
    def of(self, node: Node) -> int:
        if isinstance(node, StreamingOperator):
            return self(node.stand_in.node) + node.stand_in.nesting
        if node.makes_own is None:
            raise InternalError(
                f"it is not defined whether a {type(node).__name__} makes rows or values of its own"
            )
        return max((self(i) for i in node.inputs), default=0) + node.makes_own


class _RowForms(Analysis[Rows]):
    def __init__(self, meanings: Meanings) -> None:
        super().__init__()
        self._meanings = meanings

    def of(self, node: Node) -> Rows:
        meanings = self._meanings
        match node:
            case Scan():
                return Rows(source_form(node))
            case Values():
                rows = (form("row", *(form_over(e, NO_COLUMNS) for e in row)) for row in node.rows)
                return Rows(form("values", *rows))
            case OverWindow() if node.waits_for_time and node.closed_by is not None:
                # Rows that are late, or have no time, are not given.
                below = self(node.input)
                time = meanings.columns(node.input)[node.closed_by.id]
                return Rows(form("given by time", below.base, time), below.conditions)
            case Project() | Sink() | EmitOnClose() | OverWindow() | EpochValues():
                return self(node.input)
            case Filter():
                below = self(node.input)
                predicate = meanings.expression(node.predicate, node.input)
                return Rows(below.base, below.conditions | set(conjuncts(predicate)))
            case WindowFunction():
                below = self(node.input)
                return Rows(form("windows", below.base, meanings.window(node)), below.conditions)
            case SessionFunction():
                # A row that is left out before makes other sessions: conditions stay where they are.
                given = (form("given", "early", node.emission.lateness_us),) if node.early else ()
                return Rows(form("sessions", self(node.input).form, meanings.sessions(node), *given))
            case Unnest():
                below = self(node.input)
                array = meanings.expression(node.array, node.input)
                kind = "outer" if node.outer else "inner"
                return Rows(form("unnest", below.base, array, kind), below.conditions)
            case SetOperation() if node.is_union_all:
                return Rows(form("union", *(self(b).form for b in node.branches)))
            case SetOperation():
                branches = (
                    form("branch", self(b).form, *cast_columns(b.fields, node.fields, meanings.columns(b)))
                    for b in node.branches
                )
                return Rows(form(node.operator.lower(), "all" if node.all_ else "distinct", *branches))
            case Aggregate():
                sets = sort_forms(
                    form("set", *sort_forms(set(keys))) for keys in _grouping_sets(node, meanings)
                )
                return Rows(form("groups", self(node.input).form, *_given(node), *sets))
            case OrderLimit():
                columns = meanings.columns(node.input)
                terms = order_forms(node.order, columns)
                ties = form("ties", *(columns[t] for t in node.ties or ()))
                return Rows(form("limit", self(node.input).form, node.limit, node.offset, ties, *terms))
            case Join():
                condition = form_over(node.condition, _joined(node, meanings)) if node.condition else None
                return Rows(
                    form("join", node.kind.value, self(node.left).form, self(node.right).form, condition)
                )
            case LookupJoin():
                sides = (self(node.left).form, self(node.right).form)
                condition = form_over(node.condition, _joined(node, meanings))
                return Rows(form("lookup", node.kind.value, *sides, condition))
            case Versions():
                inside = meanings.columns(node.input)
                keys = sort_forms(inside[id_] for id_ in node.keys)
                return Rows(form("versions", self(node.input).form, form_over(node.time, inside), *keys))
            case AsOfJoin():
                return Rows(_as_of_rows(node, meanings))
            case Apply():
                return self(node.input)
            case LateralJoin():
                return Rows(form("lateral", node.kind.value, self(node.input).form, self(node.query).form))
        raise InternalError(f"a {type(node).__name__} has no rows of its own")


class _ColumnForms(Analysis[Columns]):
    def __init__(self, meanings: Meanings) -> None:
        super().__init__()
        self._meanings = meanings

    def of(self, node: Node) -> Columns:
        return Columns.of(node, self._forms(node))

    def _forms(self, node: Node) -> Mapping[str, Form]:
        meanings = self._meanings
        depth = meanings.nesting_depth(node)
        match node:
            case Scan():
                source = source_form(node)
                return {f.id: source_column_form(node, source, f.name) for f in node.fields}
            case Values():
                return {f.id: form("value", depth, n) for n, f in enumerate(node.fields)}
            case Project():
                inside = self(node.input)
                return {f.id: form_over(e, inside) for f, e in zip(node.fields, node.items, strict=True)}
            case EpochValues():
                # The epoch is that in which a row passes here, which what is below decides.
                rows = meanings.rows(node.input).base
                new = {v.field.id: form(f"epoch {v.kind}", depth, v.call or None, rows) for v in node.values}
                return {**self(node.input), **new}
            case WindowFunction():
                window = meanings.window(node)
                bounds = {"start": node.start, "end": node.end, "time": node.time}
                new = {f.id: form(f"window {role}", depth, window) for role, f in bounds.items()}
                return {**self(node.input), **new}
            case SessionFunction():
                sessions = meanings.sessions(node)
                bounds = {"start": node.start, "end": node.end, "time": node.time}
                new = {f.id: form(f"session {role}", depth, sessions) for role, f in bounds.items()}
                return {**self(node.input), **new}
            case Unnest():
                return {**self(node.input), **self._elements(node, depth)}
            case SetOperation() if node.is_union_all:
                branches = [cast_columns(b.fields, node.fields, self(b)) for b in node.branches]
                return {
                    f.id: forms[0] if len(set(forms)) == 1 else form("either", depth, *forms)
                    for f, forms in zip(node.fields, zip(*branches, strict=True), strict=True)
                }
            case SetOperation():
                return {f.id: form("set column", depth, n) for n, f in enumerate(node.fields)}
            case Aggregate():
                return self._groups(node, depth)
            case OverWindow():
                return {**self(node.input), **{c.field.id: self._over(node, c, depth) for c in node.calls}}
            case Join():
                joined = _joined(node, meanings)
                return {f.id: joined[f.id] for f in node.fields}
            case AsOfJoin() | LookupJoin():
                joined = _joined(node, meanings)
                return {f.id: joined[f.id] for f in node.fields}
            case Versions():
                inside = self(node.input)
                return {**inside, **({node.gone.id: form("gone", depth)} if node.gone is not None else {})}
            case LateralJoin():
                return {**self(node.input), **self(node.query)}
            case Apply():
                inside = self(node.query)
                value = form(
                    "sub-query",
                    depth,
                    node.kind.value,
                    node.comparison,
                    meanings.relation(node.query),
                    form("gives", *(inside[f.id] for f in node.query.fields)),
                    *(form_over(e, self(node.input)) for e in node.operand),
                )
                return {**self(node.input), node.result.id: value}
            case StreamingOperator():
                return self._operator(node, node.stand_in)
            case Filter() | EmitOnClose() | OrderLimit() | Sink():
                return self(node.input)
        raise InternalError(f"the meaning of the columns of a {type(node).__name__} is not defined")

    def _elements(self, node: Unnest, depth: int) -> Mapping[str, Form]:
        array = self._meanings.expression(node.array, node.input)
        new = {
            f.id: form("element", depth, array, n if node.spread else None)
            for n, f in enumerate(node.element)
        }
        if node.ordinality is not None:
            new[node.ordinality.id] = form("ordinality", depth, array)
        return new

    def _groups(self, node: Aggregate, depth: int) -> Mapping[str, Form]:
        inside = self(node.input)
        found: dict[str, Form] = {}
        forms = key_forms(node.keys, node.key_expressions, node.grouping, inside)
        for f, key in zip(node.keys, forms, strict=True):
            # In a grouping set that has it not, a key is NULL: it is not what it is grouped by then.
            bound = f.window is not None
            found[f.id] = key if node.grouping is None or bound else form("key", depth, key)
        if node.grouping is not None:
            found[node.grouping.id] = form("grouping", depth, *_plain_keys(node, inside))
        for call in node.calls:
            found[call.field.id] = form("aggregate", depth, call_form(call, inside))
        return found

    def _over(self, node: OverWindow, call: WindowCall, depth: int) -> Form:
        inside = self(node.input)
        by_ties = call.name not in PEER_FUNCTIONS or call.by_rows
        return form(
            "over",
            depth,
            self._meanings.relation(node.input),
            call.name,
            "distinct" if call.distinct else None,
            "ignore nulls" if call.ignore_nulls else None,
            call.frame,
            *((form("bounds", *(form_over(b, inside) for b in call.bounds)),) if call.bounds else ()),
            *((form("order inside", *order_forms(call.order_by, inside)),) if call.order_by else ()),
            *((form("given", "early"),) if node.emission.changes and _in_window(node) else ()),
            *((form("given", "by time"),) if node.waits_for_time else ()),
            form("arguments", *(form_over(a, inside) for a in call.arguments)),
            form_over(call.filter, inside) if call.filter is not None else None,
            form("partition", *sort_forms({inside[id_] for id_ in node.partition})),
            form("ties", *(inside[id_] for id_ in node.ties or ())) if by_ties else None,
            *order_forms(node.order, inside),
        )

    def _operator(self, node: StreamingOperator, stand_in: StandIn) -> Mapping[str, Form]:
        """Columns of an operator's own are those of what it was made of; it may give a few more."""
        own = {f.id for f in stand_in.columns}
        passed = [f.id for f in node.fields if f.id not in own]
        inside = self(node.inputs[0])
        found = {id_: inside[id_] for id_ in passed}
        if not own:
            return found
        known = self(node.meaning)
        depth = self._meanings.nesting_depth(node)
        for f in stand_in.columns:
            if f.id in known:
                found[f.id] = known[f.id]
            elif f.window is not None:
                spec = f.window.window
                found[f.id] = form(
                    f"window {f.window.role}", depth, spec.kind.value, spec.size_us, spec.slide_us
                )
        for call in stand_in.calls:
            found.setdefault(call.field.id, form("aggregate", depth, call_form(call, inside)))
        return found


def _joined(node: Join | AsOfJoin | LookupJoin, meanings: Meanings) -> Columns:
    """The columns of both sides, each as one of its side."""
    depth = meanings.nesting_depth(node)
    left, right = (
        Columns({id_: form(side, depth, f) for id_, f in columns.items()}, columns.types)
        for side, columns in (
            ("left", meanings.columns(node.left)),
            ("right", meanings.columns(node.right)),
        )
    )
    return left.and_of(right)


#: By whether a join goes forward in time, and strictly, what its times say.
_WHEN = {(False, False): "from", (False, True): "after", (True, False): "until", (True, True): "before"}


def _as_of_rows(node: AsOfJoin, meanings: Meanings) -> Form:
    """Which rows a join with versions gives: those of its sides, and all that decides which of them meet."""
    joined = _joined(node, meanings)
    equal = (form("equal", form_over(key.left, joined), form_over(key.right, joined)) for key in node.keys)
    return form(
        "as of",
        node.kind.value,
        meanings.relation(node.left),
        meanings.relation(node.right),
        form(_WHEN[node.forward, node.strict], joined[node.left_time], joined[node.right_time]),
        "latest" if node.latest else form("ties", *(joined[id_] for id_ in node.ties or ())),
        joined[node.gone] if node.gone is not None else None,
        form_over(node.condition, joined) if node.condition is not None else None,
        *sort_forms(set(equal)),
    )


def _plain_keys(node: Aggregate, inside: Columns) -> list[Form]:
    """What is grouped by, in the query's order, without bounds of windows."""
    forms = key_forms(node.keys, node.key_expressions, node.grouping, inside)
    return [key for f, key in zip(node.keys, forms, strict=True) if f.window is None]


def _grouping_sets(node: Aggregate, meanings: Meanings) -> list[list[Form]]:
    """What each grouping set groups by; any bound of a window stands for the window."""
    inside = meanings.columns(node.input)
    forms = key_forms(node.keys, node.key_expressions, node.grouping, inside)
    keys = [
        form("in window", *found.args) if f.window is not None and _is_bound(found) else found
        for f, found in zip(node.keys, forms, strict=True)
    ]
    return [[keys[i] for i in chosen] for chosen in node.sets]


def _given(node: Aggregate) -> tuple[Form, ...]:
    """When groups of windows are given: what reads them early has seen other rows than what reads them once."""
    emission = node.emission
    windowed = any(f.window is not None for f in node.keys)
    if not windowed or (not emission.changes and not emission.lateness_us):
        return ()
    return (form("given", "early" if emission.changes else "on close", emission.lateness_us),)


def _in_window(node: OverWindow) -> bool:
    ends = {f.id for f in node.input.fields if f.window is not None and f.window.role == "end"}
    return bool(ends & set(node.partition))


def _is_bound(found: Form) -> bool:
    return found.op in ("window start", "window end", "window time")
