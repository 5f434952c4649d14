"""Semantic fingerprints: what a column or a relation *means*, whatever it is called or how it is spelled.

The canonical form of an expression traces its columns through projections, views and CTEs to source columns,
directs comparisons one way, sorts the operands of commutative operators, and drops parentheses and aliases.
Two expressions with one canonical form have one meaning; the converse need not hold (an unrecognised
equivalence only costs state that could have been kept, never a wrong result).
"""

from __future__ import annotations

import hashlib

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowSpec
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.source import compact
from sqlstream_planner.logical import (
    AggregateCall,
    Filter,
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Project,
    Rank,
    Scan,
    Sink,
    TopN,
    Union,
    Unnest,
    Window,
    WindowAggregate,
    WindowGate,
)

_FLIPPED: dict[type[exp.Expr], str] = {exp.GT: "<", exp.GTE: "<="}
_COMPARE: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<="}
_COMMUTATIVE: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "is",
    exp.NullSafeNEQ: "is not",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
}
_FLATTENED: dict[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or", exp.Mul: "*", exp.Add: "+"}
_LEAF_KEYS = ("this", "expression", "expressions")


def digest(text: str) -> str:
    """A short stable hash of a canonical form, 16 hex digits."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def canonical(expression: exp.Expr, columns: dict[str, str]) -> str:
    """The canonical form of an expression; `columns` maps column ids to the canonical forms of columns.

    >>> from sqlglot import parse_one
    >>> canonical(parse_one("b = 1 AND a >= 2"), {}) == canonical(parse_one("(2 <= a) and (1 = b)"), {})
    True
    >>> canonical(parse_one("x BETWEEN 1 AND 2"), {}) == canonical(parse_one("x <= 2 AND x >= 1"), {})
    True
    >>> canonical(parse_one("x + 1"), {}) == canonical(parse_one("x - 1"), {})
    False
    """
    node = expression
    while isinstance(node, exp.Paren | exp.Alias):
        node = node.this
    kind = type(node)

    def form(child: exp.Expr) -> str:
        return canonical(child, columns)

    if isinstance(node, exp.Column):
        return columns.get(node.name, f"col({'.'.join(part.name for part in node.parts)})")
    if isinstance(node, exp.Literal):
        return f"'{node.this}'" if node.is_string else node.this.lower()
    if isinstance(node, exp.Identifier):
        return f"id({node.name})"
    if isinstance(node, exp.DataType):
        return f"type({node.sql(dialect='duckdb')})"
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        bounds = [
            f"(<= {form(node.args['low'])} {form(node.this)})",
            f"(<= {form(node.this)} {form(node.args['high'])})",
        ]
        return f"(and {' '.join(sorted(bounds))})"
    if isinstance(node, exp.In) and len(node.expressions) == 1 and not node.args.get("query"):
        return f"(= {' '.join(sorted((form(node.this), form(node.expressions[0]))))})"
    if isinstance(node, exp.In) and node.expressions:
        return f"(in {form(node.this)} {' '.join(sorted({form(e) for e in node.expressions}))})"
    if kind in _FLIPPED:
        return f"({_FLIPPED[kind]} {form(node.args['expression'])} {form(node.this)})"
    if kind in _COMPARE:
        return f"({_COMPARE[kind]} {form(node.this)} {form(node.args['expression'])})"
    if kind in _COMMUTATIVE:
        return f"({_COMMUTATIVE[kind]} {' '.join(sorted((form(node.this), form(node.args['expression']))))})"
    if kind in _FLATTENED:
        # + and * are reordered only pairwise: floating-point sums of more terms depend on their grouping.
        operands = _flat(node, kind) if kind in (exp.And, exp.Or) else [node.this, node.args["expression"]]
        forms = [form(o) for o in operands]
        unique = sorted(set(forms)) if kind in (exp.And, exp.Or) else sorted(forms)
        return f"({_FLATTENED[kind]} {' '.join(unique)})"
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    parts = []
    for key, value in sorted(node.args.items()):
        if value is None or value is False or value == [] or key == "comments":
            continue
        if isinstance(node, exp.Anonymous) and key == "this":
            continue
        items = value if isinstance(value, list) else [value]
        inner = " ".join(form(i) if isinstance(i, exp.Expr) else repr(i) for i in items)
        parts.append(f"{key}={inner}" if key not in _LEAF_KEYS else inner)
    return f"({name} {' '.join(parts)})"


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    while isinstance(node, exp.Paren):
        node = node.this
    if type(node) is not kind:
        return [node]
    return _flat(node.this, kind) + _flat(node.args["expression"], kind)


def conjuncts(predicate: exp.Expr) -> list[exp.Expr]:
    """The operands of the top-level ANDs of a predicate."""
    return _flat(predicate, exp.And)


class Provenance:
    """Canonical forms of the columns and relations of one plan, computed once a node."""

    def __init__(self) -> None:
        self._columns: dict[int, dict[str, str]] = {}
        self._relations: dict[int, str] = {}
        self._kept: list[Node] = []  # ids are only unique while their nodes live

    def columns(self, node: Node) -> dict[str, str]:
        """For each column id of `node`'s output, the canonical form of its meaning."""
        if id(node) not in self._columns:
            self._kept.append(node)
            self._columns[id(node)] = self._trace(node)
        return self._columns[id(node)]

    def relation(self, node: Node) -> str:
        """The canonical form of the multiset of rows that `node` stands for, without regard to its columns."""
        if id(node) not in self._relations:
            self._kept.append(node)
            self._relations[id(node)] = self._rows(node)
        return self._relations[id(node)]

    def call(self, call: AggregateCall, input_: Node) -> str:
        """The canonical form of an aggregate call over `input_`."""
        columns = self.columns(input_)
        arguments = " ".join(canonical(a, columns) for a in call.arguments)
        order = " ".join(f"{canonical(e, columns)}:{desc}:{nulls}" for e, desc, nulls in call.order_by)
        filter_ = canonical(call.filter, columns) if call.filter is not None else ""
        return (
            f"{call.name}({'distinct ' if call.distinct else ''}{arguments} order[{order}] filter[{filter_}])"
        )

    def _trace(self, node: Node) -> dict[str, str]:
        match node:
            case Scan():
                return {f.id: compact(node.identity.column(f.name)) for f in node.fields}
            case Project():
                inside = self.columns(node.input)
                return {
                    f.id: canonical(e, inside) for f, e in zip(node.fields, node.expressions, strict=True)
                }
            case Filter() | Sink() | Normalize() | WindowGate() | KeepFirst():
                return self.columns(node.input)
            case Rank():
                raise InternalError("a rank that no condition bounds was planned")
            case TopN():
                inside = self.columns(node.input)
                if node.rank is None:
                    return inside
                return {**inside, node.rank.id: f"{node.function}({self._ranking(node)})"}
            case Window():
                inside = self.columns(node.input)
                window = self.window(node.input, node.window, node.time_column)
                roles = {node.start.id: "start", node.end.id: "end", node.time.id: "time"}
                return {**inside, **{id_: f"{window}.{role}" for id_, role in roles.items()}}
            case Unnest():
                inside = self.columns(node.input)
                array = canonical(node.array, inside)
                new = {
                    f.id: f"unnest({array}).{i if node.spread else ''}" for i, f in enumerate(node.element)
                }
                if node.ordinality is not None:
                    new[node.ordinality.id] = f"unnest({array}).ordinality"
                return {**inside, **new}
            case Union():
                branches = [self.columns(b) for b in node.branches]
                merged = {}
                for position, f in enumerate(node.fields):
                    forms = [c[b.fields[position].id] for c, b in zip(branches, node.branches, strict=True)]
                    merged[f.id] = forms[0] if len(set(forms)) == 1 else f"union({' | '.join(forms)})"
                return merged
            case WindowAggregate():
                inside = self.columns(node.input)
                relation = self.relation(node)
                traced = {
                    f.id: canonical(e, inside) for f, e in zip(node.keys, node.key_expressions, strict=True)
                }
                for f, role in ((node.start, "start"), (node.end, "end"), (node.window_time, "time")):
                    traced[f.id] = f"{self.window(node.input, node.window, node.slice_column)}.{role}"
                if node.grouping is not None:
                    traced[node.grouping.id] = "grouping"
                for c in node.calls:
                    traced[c.field.id] = f"{digest(relation)}.{self.call(c, node.input)}"
                return traced

            case GroupAggregate():
                inside = self.columns(node.input)
                relation = self.relation(node)
                traced = {
                    f.id: canonical(e, inside) for f, e in zip(node.keys, node.key_expressions, strict=True)
                }
                if node.grouping is not None:
                    traced[node.grouping.id] = "grouping"
                for c in node.calls:
                    traced[c.field.id] = f"{digest(relation)}.{self.call(c, node.input)}"
                return traced

    def _ranking(self, node: TopN) -> str:
        """The canonical form of what a Top-N ranks by."""
        inside = self.columns(node.input)
        partition = " ".join(sorted(inside[id_] for id_ in node.partition))
        return f"partition {partition} order {self.order(node)}"

    def order(self, node: TopN) -> str:
        """The canonical form of a Top-N's ORDER BY."""
        inside = self.columns(node.input)
        return ", ".join(
            f"{inside[t.column]} {'desc' if t.descending else 'asc'} {'first' if t.nulls_first else 'last'}"
            for t in node.order
        )

    def window(self, input_: Node, window: WindowSpec, time_column: str) -> str:
        """The canonical form of a window over a time column."""
        lengths = f"{window.kind} {window.size_us} {window.slide_us} {window.offset_us % window.slide_us}"
        slices = "slices" if window.shared_slices else "windows"
        return f"window({lengths} {slices} over {self.columns(input_)[time_column]})"

    def _rows(self, node: Node) -> str:
        match node:
            case Scan():
                return compact(node.identity.rows)
            case Project() | Sink():
                return self.relation(node.input)
            case Filter():
                columns = self.columns(node.input)
                below = node.input
                predicates = [canonical(c, columns) for c in conjuncts(node.predicate)]
                while isinstance(below, Filter | Project):
                    if isinstance(below, Filter):
                        inside = self.columns(below.input)
                        predicates += [canonical(c, inside) for c in conjuncts(below.predicate)]
                    below = below.input
                return f"filter({self.relation(below)} where {' and '.join(sorted(set(predicates)))})"
            case Window():
                return f"windows({self.relation(node.input)} {self.window(node.input, node.window, node.time_column)})"
            case Unnest():
                array = canonical(node.array, self.columns(node.input))
                return f"unnest({self.relation(node.input)} {array} {'outer' if node.outer else 'inner'})"
            case Union():
                return f"union({' '.join(sorted(self.relation(b) for b in node.branches))})"
            case WindowAggregate():
                inside = self.columns(node.input)
                forms = [canonical(e, inside) for e in node.key_expressions]
                sets = sorted(",".join(sorted(forms[i] for i in s)) for s in node.sets)
                window = self.window(node.input, node.window, node.slice_column)
                return f"aggregate({self.relation(node.input)} {window} by {' ; '.join(sets)})"
            case GroupAggregate():
                inside = self.columns(node.input)
                forms = [canonical(e, inside) for e in node.key_expressions]
                sets = sorted(",".join(sorted(forms[i] for i in s)) for s in node.sets)
                by_id = {f.id: form for f, form in zip(node.keys, forms, strict=True)}
                expiry = f" expires {by_id[node.expiry.column]}" if node.expiry else ""
                return f"group({self.relation(node.input)} by {' ; '.join(sets)}{expiry})"
            case WindowGate():
                return f"gate({self.relation(node.input)})"
            case KeepFirst():
                inside = self.columns(node.input)
                by = " ".join(sorted(inside[k] for k in node.keys))
                return f"keep first({self.relation(node.input)} by {by})"
            case Rank():
                raise InternalError("a rank that no condition bounds was planned")
            case TopN():
                window = f" window {self.columns(node.input)[node.window_end]}" if node.window_end else ""
                bounds = f"{node.function} {node.offset} {node.limit}"
                return f"top({self.relation(node.input)} {self._ranking(node)} {bounds}{window})"
            case Normalize():
                inside = self.columns(node.input)
                return f"normalize({self.relation(node.input)} by {' '.join(sorted(inside[k] for k in node.keys))})"
