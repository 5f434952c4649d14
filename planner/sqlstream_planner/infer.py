"""The type and nullability of a scalar expression, as DuckDB 2.0 gives them, without DuckDB.

`infer` raises `TypeProblem` (or hands it to a callback and goes on with UNKNOWN). Where DuckDB binds an
expression that can only fail at a row (`CAST(1 AS DATE)`, `date = 1`, `text = number`), we refuse it: a
stream must not find out at run time. tests/planner/test_infer.py compares random expressions with DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    JSON,
    NULL,
    UNKNOWN,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from sqlstream_planner import problems
from sqlstream_planner.casts import TypedExpr, can_cast_explicitly, common_type, literal_type
from sqlstream_planner.datatypes import sql_type_of
from sqlstream_planner.diagnostics import did_you_mean
from sqlstream_planner.functions import catalogue
from sqlstream_planner.functions.calls import WrittenCall, written_call
from sqlstream_planner.functions.catalogue import Function, FunctionKind
from sqlstream_planner.functions.generics import (
    LIST_CALLS,
    Call,
    NotTypableError,
    check_constants,
    element_of,
    field_of,
    join,
    part_type,
    return_type,
)
from sqlstream_planner.functions.nullability import COUNTS, nullable
from sqlstream_planner.functions.resolve import Argument, LambdaArgument, Resolved, Unresolved, resolve
from sqlstream_planner.functions.suggestions import cast_help, sql_text, suggest_cast
from sqlstream_planner.problems import TypeProblem

Scope = Mapping[str, tuple[SqlType, bool]]
OnError = Callable[[TypeProblem], None]


def infer(
    expression: exp.Expr,
    scope: Scope,
    on_error: OnError | None = None,
    *,
    aggregates: bool = False,
    windows: bool = False,
) -> TypedExpr:
    """The type of `expression` over columns `scope` (name -> type, nullable; names ignore case).

    `aggregates` and `windows` say whether SUM … and … OVER may appear here. Each problem raises TypeProblem,
    or, with `on_error`, is passed to it and the part that has it is UNKNOWN. A qualified column `b.price` is
    looked up as "b.price"; if `b` is a column itself it is its field; else as "price".

    >>> import sqlglot
    >>> from sqlstream_operators.types import INTEGER
    >>> print(infer(sqlglot.parse_one("a + 1.5"), {"a": (INTEGER, False)}).type)
    DECIMAL(12,1)
    """
    lowered = {name.lower(): typed for name, typed in scope.items()}
    return _Inference(lowered, on_error, aggregates, windows).type_of(expression)


def require_boolean(
    expression: exp.Expr, scope: Scope, what: str, on_error: OnError | None = None
) -> TypedExpr:
    """Type a condition (`what`: "WHERE", "JOIN … ON") refuse what can't become a BOOLEAN."""
    inference = _Inference({name.lower(): typed for name, typed in scope.items()}, on_error, False, False)
    return inference.condition(expression, what)


_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Like: "~~",
    exp.ILike: "~~*",
    exp.Glob: "~~~",
    exp.SimilarTo: "regexp_full_match",
    exp.RegexpLike: "regexp_matches",
    exp.RegexpILike: "regexp_matches",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
}
_UNARY: dict[type[exp.Expr], str] = {exp.BitwiseNot: "~", exp.Abs: "abs"}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_LITERAL_DIGITS = 38
_SHOWN_SIGNATURES = 8


@dataclass(slots=True)
class _Inference:
    scope: Mapping[str, tuple[SqlType, bool]]
    on_error: OnError | None
    aggregates: bool
    windows: bool
    lambdas: list[dict[str, SqlType]] = field(default_factory=list)

    def type_of(self, node: exp.Expr) -> TypedExpr:
        try:
            return self._dispatch(node)
        except TypeProblem as problem:
            if self.on_error is None:
                raise
            self.on_error(problem)
            return TypedExpr(UNKNOWN)

    def _dispatch(self, node: exp.Expr) -> TypedExpr:
        kind = type(node)
        if kind in _BINARY:
            return self._operator(node, _BINARY[kind], [node.this, node.expression])
        if kind in _UNARY:
            return self._operator(node, _UNARY[kind], [node.this])
        if isinstance(node, _COMPARISONS):
            return self._comparison(node)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, node)
        call = written_call(node)
        if call is not None:
            return self._call(node, call)
        return TypedExpr(UNKNOWN)

    def condition(self, node: exp.Expr, what: str) -> TypedExpr:
        """Type a condition; a problem if it can't be a boolean."""
        typed = self.type_of(node)
        if not can_cast_explicitly(typed.type, BOOLEAN):
            self._report(
                TypeProblem(
                    node,
                    problems.NOT_BOOLEAN,
                    f"{what} needs a BOOLEAN, this is {typed.type}",
                    help="compare it with something, as in `… IS NOT NULL` or `… = …`",
                )
            )
        return TypedExpr(BOOLEAN, typed.nullable)

    def _report(self, problem: TypeProblem) -> None:
        if self.on_error is None:
            raise problem
        self.on_error(problem)

    # Names

    def _column(self, node: exp.Expr) -> TypedExpr:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            return TypedExpr(UNKNOWN)
        parts = [part.name for part in node.parts]
        for local in reversed(self.lambdas):
            if parts[0].lower() in local:
                return self._fields(node, TypedExpr(local[parts[0].lower()]), parts[1:])
        for length in range(len(parts), 0, -1):
            found = self.scope.get(".".join(parts[:length]).lower())
            if found is not None:
                return self._fields(node, TypedExpr(*found), parts[length:])
        if len(parts) > 1:
            for start in range(1, len(parts)):
                found = self.scope.get(parts[start].lower())
                if found is not None:
                    return self._fields(node, TypedExpr(*found), parts[start + 1 :])
        near = did_you_mean(parts[-1], self.scope)
        raise TypeProblem(
            node,
            problems.UNKNOWN_COLUMN,
            f"unknown column `{'.'.join(parts)}`",
            ("known columns: " + ", ".join(sorted(self.scope)),) if self.scope else (),
            f"did you mean `{near}`?" if near else None,
        )

    def _identifier(self, node: exp.Expr) -> TypedExpr:
        for local in reversed(self.lambdas):
            if node.name.lower() in local:
                return TypedExpr(local[node.name.lower()])
        found = self.scope.get(node.name.lower())
        return TypedExpr(*found) if found is not None else TypedExpr(UNKNOWN)

    def _fields(self, node: exp.Expr, typed: TypedExpr, names: Sequence[str]) -> TypedExpr:
        for name in names:
            typed = self._field(node, typed, name)
        return typed

    def _field(self, node: exp.Expr, typed: TypedExpr, name: str) -> TypedExpr:
        type_ = typed.type
        if type_.kind is Kind.UNKNOWN:
            return TypedExpr(UNKNOWN)
        if type_.kind is Kind.JSON:
            return TypedExpr(JSON)
        if type_.kind is Kind.MAP:
            assert type_.value is not None
            return TypedExpr(type_.value)
        if type_.kind is not Kind.STRUCT:
            raise TypeProblem(node, problems.UNKNOWN_FIELD, f"`{name}` is no field: {type_} has no fields")
        found = field_of(type_, name)
        if found is None:
            names = [n for n, _ in type_.fields]
            near = did_you_mean(name, names)
            raise TypeProblem(
                node,
                problems.UNKNOWN_FIELD,
                f"there is no field `{name}` in {type_}",
                ("its fields: " + ", ".join(names),),
                f"did you mean `{near}`?" if near else None,
            )
        return TypedExpr(found, nullable=True)

    def _dot(self, node: exp.Expr) -> TypedExpr:
        if isinstance(node.expression, exp.Identifier):
            return self._field(node, self.type_of(node.this), node.expression.name)
        return TypedExpr(UNKNOWN)

    # Literals and constructors

    def _literal(self, node: exp.Expr) -> TypedExpr:
        text = str(node.this)
        if node.args.get("is_string"):
            return TypedExpr(VARCHAR, False, text)
        if text.isdigit():
            return TypedExpr(literal_type(int(text)), False, int(text))
        if "e" in text.lower():
            return TypedExpr(DOUBLE, False)
        whole, _, fraction = text.partition(".")
        digits = len(whole) + len(fraction)
        return TypedExpr(decimal(digits, len(fraction)) if digits <= _LITERAL_DIGITS else DOUBLE, False)

    def _negative(self, node: exp.Expr) -> TypedExpr:
        typed = self.type_of(node.this)
        if isinstance(typed.literal, int):
            return TypedExpr(literal_type(-typed.literal), False, -typed.literal)
        return self._operator(node, "-", [node.this])

    def _null(self, _: exp.Expr) -> TypedExpr:
        return TypedExpr(NULL)

    def _boolean_literal(self, _: exp.Expr) -> TypedExpr:
        return TypedExpr(BOOLEAN, False)

    def _blob(self, _: exp.Expr) -> TypedExpr:
        return TypedExpr(BLOB, False)

    def _text(self, _: exp.Expr) -> TypedExpr:
        return TypedExpr(VARCHAR, False)

    def _interval(self, node: exp.Expr) -> TypedExpr:
        return TypedExpr(INTERVAL, node.this is None or self.type_of(node.this).nullable)

    def _array(self, node: exp.Expr) -> TypedExpr:
        items = node.expressions
        if len(items) == 1 and isinstance(items[0], exp.Comprehension):
            return self.type_of(items[0])
        types = [self.type_of(item) for item in items]
        return TypedExpr(array(self._join(node, types, "the list", keep_literals=True)), False)

    def _comprehension(self, node: exp.Expr) -> TypedExpr:
        source = self.type_of(node.args["iterator"])
        names = [node.expression.name] + ([node.args["position"].name] if node.args.get("position") else [])
        with self._local(dict(zip(names, [element_of(source.type), BIGINT], strict=False))):
            if node.args.get("condition") is not None:
                self.condition(node.args["condition"], "a condition")
            return TypedExpr(array(self.type_of(node.this).type), source.nullable)

    def _struct(self, node: exp.Expr) -> TypedExpr:
        fields = [(name, self.type_of(value).type) for name, value in _named(node.expressions)]
        return TypedExpr(_struct_type(fields), False)

    def _to_map(self, node: exp.Expr) -> TypedExpr:
        pairs = node.this.expressions if isinstance(node.this, exp.Struct) else []
        keys = [self._key(p.this) for p in pairs]
        values = [self.type_of(p.expression) for p in pairs]
        return TypedExpr(
            map_of(self._join(node, keys, "the keys"), self._join(node, values, "the values")), False
        )

    def _key(self, node: exp.Expr) -> TypedExpr:
        return self.type_of(exp.column(node.copy()) if isinstance(node, exp.Identifier) else node)

    def _join(
        self, node: exp.Expr, types: Sequence[TypedExpr], what: str, *, keep_literals: bool = False
    ) -> SqlType:
        try:
            return join(types, what, keep_literals=keep_literals)
        except NotTypableError as reason:
            raise TypeProblem(
                node, problems.INCOMPATIBLE_TYPES, str(reason), help="CAST them to one type"
            ) from None

    # Operators

    def _operator(self, node: exp.Expr, name: str, operands: Sequence[exp.Expr]) -> TypedExpr:
        function = catalogue.lookup(name)
        assert function is not None, name
        typed = [self.type_of(operand) for operand in operands]
        return self._resolved(node, function, typed, operands)

    def _comparison(self, node: exp.Expr) -> TypedExpr:
        sides = [self.type_of(node.this), self.type_of(node.expression)]
        self._comparable(node, sides, [node.this, node.expression])
        null_safe = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
        return TypedExpr(BOOLEAN, not null_safe and any(s.nullable for s in sides))

    def _comparable(self, node: exp.Expr, sides: Sequence[TypedExpr], nodes: Sequence[exp.Expr]) -> None:
        if common_type(sides) is not None:
            return
        first = sides[0]
        index = next(
            i for i in range(1, len(sides)) if common_type([first, sides[i]]) is None or i == len(sides) - 1
        )
        other = sides[index]
        help_ = None
        for value, written, target in ((first, nodes[0], other), (other, nodes[index], first)):
            if value.type.kind is Kind.VARCHAR and can_cast_explicitly(value.type, target.type):
                help_ = (
                    f"CAST({sql_text(written)} AS {target.type}), or TRY_CAST to get NULL where it is none"
                )
                break
            if target.type.kind is Kind.VARCHAR:
                help_ = f"CAST({sql_text(written)} AS VARCHAR)"
        raise TypeProblem(
            node, problems.INCOMPATIBLE_TYPES, f"{first.type} can't be compared with {other.type}", help=help_
        )

    def _is(self, node: exp.Expr) -> TypedExpr:
        if isinstance(node.expression, exp.Null):
            self.type_of(node.this)
        else:
            self.condition(node.this, "IS TRUE")
        return TypedExpr(BOOLEAN, False)

    def _connector(self, node: exp.Expr) -> TypedExpr:
        word = type(node).__name__.upper()
        sides = [self.condition(node.this, word), self.condition(node.expression, word)]
        return TypedExpr(BOOLEAN, any(s.nullable for s in sides))

    def _not(self, node: exp.Expr) -> TypedExpr:
        return self.condition(node.this, "NOT")

    def _between(self, node: exp.Expr) -> TypedExpr:
        nodes = [node.this, node.args["low"], node.args["high"]]
        types = [self.type_of(n) for n in nodes]
        self._comparable(node, types, nodes)
        # A third operand may hide that the other two don't mix: JSON goes with BOOLEAN and with FLOAT.
        self._comparable(node, [types[0], types[2]], [nodes[0], nodes[2]])
        self._comparable(node, types[1:], nodes[1:])
        return TypedExpr(BOOLEAN, any(t.nullable for t in types))

    def _in(self, node: exp.Expr) -> TypedExpr:
        if node.args.get("query") is not None:
            self.type_of(node.this)
            return TypedExpr(BOOLEAN)
        if node.args.get("unnest") is not None:
            return TypedExpr(BOOLEAN)
        nodes = [node.this, *node.expressions]
        types = [self.type_of(n) for n in nodes]
        self._comparable(node, types, nodes)
        return TypedExpr(BOOLEAN, any(t.nullable for t in types))

    def _exists(self, _: exp.Expr) -> TypedExpr:
        return TypedExpr(BOOLEAN, False)

    def _case(self, node: exp.Expr) -> TypedExpr:
        results, nodes = [], []
        operand = self.type_of(node.this) if node.this is not None else None
        for branch in node.args["ifs"]:
            if operand is None:
                self.condition(branch.this, "WHEN")
            else:
                self._comparable(branch, [operand, self.type_of(branch.this)], [node.this, branch.this])
            nodes.append(branch.args["true"])
        default = node.args.get("default")
        # ELSE first, as in DuckDB: two literals that meet first would no longer adapt to it.
        nodes = [default, *nodes] if default is not None else nodes
        results = [self.type_of(n) for n in nodes]
        return self._one_of(node, results, default is None, "CASE")

    def _if(self, node: exp.Expr) -> TypedExpr:
        self.condition(node.this, "IF")
        otherwise = node.args.get("false")
        nodes = [node.args["true"]] + ([otherwise] if otherwise is not None else [])
        return self._one_of(node, [self.type_of(n) for n in nodes], otherwise is None, "IF")

    def _one_of(self, node: exp.Expr, results: list[TypedExpr], open_: bool, what: str) -> TypedExpr:
        return TypedExpr(self._join(node, results, what), open_ or any(r.nullable for r in results))

    def _paren(self, node: exp.Expr) -> TypedExpr:
        return self.type_of(node.this)

    def _tuple(self, node: exp.Expr) -> TypedExpr:
        for item in node.expressions:
            self.type_of(item)
        return TypedExpr(UNKNOWN, False)

    def _bracket(self, node: exp.Expr) -> TypedExpr:
        typed = self.type_of(node.this)
        (index,) = node.expressions[:1] or [None]
        if isinstance(index, exp.Slice):
            for bound in (index.this, index.expression):
                if bound is not None:
                    self.type_of(bound)
            if typed.type.kind is Kind.JSON:
                return TypedExpr(VARCHAR)
            if typed.type.kind in (Kind.ARRAY, Kind.VARCHAR, Kind.BLOB, Kind.UNKNOWN, Kind.NULL):
                return TypedExpr(typed.type)
            raise TypeProblem(node, problems.WRONG_ARGUMENTS, f"{typed.type} can't be sliced")
        at = self.type_of(index) if index is not None else TypedExpr(UNKNOWN)
        if typed.type.kind is Kind.JSON:
            return TypedExpr(JSON)
        if typed.type.kind is Kind.MAP:
            assert typed.type.key is not None
            assert typed.type.value is not None
            if common_type([typed.type.key, at]) is None:
                raise TypeProblem(
                    node,
                    problems.INCOMPATIBLE_TYPES,
                    f"the keys are {typed.type.key}, {at.type} can't be looked up among them",
                )
            return TypedExpr(typed.type.value)
        if typed.type.kind is Kind.STRUCT:
            if isinstance(at.literal, str):
                return self._field(node, typed, at.literal)
            raise TypeProblem(node, problems.UNKNOWN_FIELD, "a field of a struct is chosen by a literal name")
        return TypedExpr(
            self._resolved(node, _function("array_extract"), [typed, at], [node.this, node]).type
        )

    def _cast(self, node: exp.Expr) -> TypedExpr:
        from_ = self.type_of(node.this)
        to = sql_type_of(node.args["to"])
        if not can_cast_explicitly(from_.type, to):
            raise TypeProblem(
                node,
                problems.BAD_CAST,
                f"{from_.type} can't be cast to {to}",
                help=cast_help(from_.type, to, node.this),
            )
        return TypedExpr(to, from_.nullable or isinstance(node, exp.TryCast))

    def _extract(self, node: exp.Expr) -> TypedExpr:
        typed = self.type_of(node.expression)
        part = TypedExpr(VARCHAR, False, node.this.name.lower())
        self._resolved(node, _function("date_part"), [part, typed], [node.this, node.expression])
        try:
            return TypedExpr(part_type(str(part.literal)), typed.nullable)
        except NotTypableError as reason:
            raise TypeProblem(node, problems.WRONG_ARGUMENTS, str(reason)) from None

    def _at_time_zone(self, node: exp.Expr) -> TypedExpr:
        operands = [node.args["zone"], node.this]
        return self._resolved(node, _function("timezone"), [self.type_of(o) for o in operands], operands)

    def _json_extract(self, node: exp.Expr) -> TypedExpr:
        self.type_of(node.this)
        return TypedExpr(VARCHAR if isinstance(node, exp.JSONExtractScalar) else JSON)

    # Calls

    def _call(self, node: exp.Expr, call: WrittenCall) -> TypedExpr:
        name = call.name
        if name in ("if", "iff") and len(call.arguments) == 3:
            self.condition(call.arguments[0], "IF")
            return self._one_of(node, [self.type_of(a) for a in call.arguments[1:]], False, "IF")
        if name == "nullif" and len(call.arguments) == 2:
            sides = [self.type_of(a) for a in call.arguments]
            self._comparable(node, sides, call.arguments)
            return TypedExpr(sides[0].type)
        if name == "date_add" and len(call.arguments) == 2:
            return self._operator(node, "+", call.arguments)
        if name in _STRUCT_CALLS:
            return self._struct_call(name, call.arguments)
        function = catalogue.lookup(name)
        if function is None:
            raise self._unknown_function(node, name)
        self._check_place(node, function)
        if function.kind is FunctionKind.AGGREGATE:
            return self._aggregate(node, function, call)
        if name in LIST_CALLS:
            return self._list_aggregate(node, name, call.arguments)
        if any(isinstance(a, exp.Lambda) for a in call.arguments):
            return self._lambda_call(node, function, call.arguments)
        arguments = [a for a in call.arguments if not isinstance(a, exp.Star)]
        return self._resolved(node, function, [self.type_of(a) for a in arguments], arguments)

    def _unknown_function(self, node: exp.Expr, name: str) -> TypeProblem:
        near = did_you_mean(name, catalogue.names())
        notes = tuple(_function(near).signatures()[:_SHOWN_SIGNATURES]) if near else ()
        return TypeProblem(
            node,
            problems.UNKNOWN_FUNCTION,
            f"there is no function `{name}`",
            notes,
            f"did you mean `{near}`?"
            if near
            else "docs/functions.md lists the functions of DuckDB, Flink and Spark",
        )

    def _check_place(self, node: exp.Expr, function: Function) -> None:
        if function.kind is FunctionKind.AGGREGATE and not self.aggregates:
            self._report(
                TypeProblem(
                    node,
                    problems.MISPLACED_AGGREGATE,
                    f"the aggregate function `{function.name}` is not allowed here",
                    help="filter on aggregates with HAVING, or compute it in a subquery first",
                )
            )
        if function.kind is FunctionKind.WINDOW:
            raise TypeProblem(
                node,
                problems.MISPLACED_AGGREGATE,
                f"`{function.name}` needs an OVER clause",
                help=f"{function.name}(…) OVER (PARTITION BY … ORDER BY …)",
            )

    def _aggregate(self, node: exp.Expr, function: Function, call: WrittenCall) -> TypedExpr:
        arguments = [a for a in call.arguments if not isinstance(a, exp.Star)]
        with self._places(aggregates=False, windows=False):
            typed = [self.type_of(a) for a in arguments]
            for ordered in call.order.expressions if call.order is not None else ():
                self.type_of(ordered.this)
        result = self._resolved(node, function, typed, arguments)
        return TypedExpr(result.type, function.name not in COUNTS)

    def _filter(self, node: exp.Expr) -> TypedExpr:
        result = self.type_of(node.this)
        with self._places(aggregates=False, windows=False):
            self.condition(node.expression.this, "FILTER (WHERE …)")
        return result

    def _within_group(self, node: exp.Expr) -> TypedExpr:
        call = written_call(node.this)
        if call is None:
            return TypedExpr(UNKNOWN)
        ordered = [o.this for o in node.expression.expressions]
        names = {"percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc"}
        name = names.get(call.name, call.name)
        arguments = (*ordered, *call.arguments) if name in (*names.values(), "mode") else call.arguments
        return self._call(node, WrittenCall(name, tuple(arguments)))

    def _window(self, node: exp.Expr) -> TypedExpr:
        if not self.windows:
            raise TypeProblem(
                node,
                problems.MISPLACED_AGGREGATE,
                "OVER is not allowed here",
                help="compute it in a subquery first, or filter on it with QUALIFY",
            )
        inner = node.this
        while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
            inner = inner.this
        call = written_call(inner)
        function = catalogue.lookup(call.name) if call is not None else None
        if call is None or function is None:
            raise self._unknown_function(node, call.name if call is not None else sql_text(inner))
        if function.kind not in (FunctionKind.AGGREGATE, FunctionKind.WINDOW):
            raise TypeProblem(node, problems.MISPLACED_AGGREGATE, f"`{call.name}` can't be used with OVER")
        with self._places(aggregates=self.aggregates, windows=False):
            arguments = [a for a in call.arguments if not isinstance(a, exp.Star)]
            typed = [self.type_of(a) for a in arguments]
            for part in node.args.get("partition_by") or ():
                self.type_of(part)
            for ordered in node.args["order"].expressions if node.args.get("order") is not None else ():
                self.type_of(ordered.this)
        result = self._resolved(node, function, typed, arguments)
        return TypedExpr(result.type, call.name not in COUNTS)

    def _list_aggregate(self, node: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> TypedExpr:
        typed = [self.type_of(a) for a in arguments]
        if not typed or typed[0].type.kind not in (Kind.ARRAY, Kind.NULL, Kind.UNKNOWN):
            raise self._no_match(node, _function(name), typed, arguments)
        extra = 1
        folded: int | str | None = name.removeprefix("list_")
        if name.removeprefix("list_").removeprefix("array_") in ("aggregate", "aggr"):
            folded, extra = (typed[1].literal if len(typed) > 1 else None), 2
        if not isinstance(folded, str) or typed[0].type.kind is not Kind.ARRAY:
            return TypedExpr(UNKNOWN)
        function = catalogue.lookup(folded)
        if function is None or function.kind is not FunctionKind.AGGREGATE:
            raise self._unknown_function(node, folded)
        element = TypedExpr(element_of(typed[0].type))
        return TypedExpr(
            self._resolved(node, function, [element, *typed[extra:]], [arguments[0], *arguments[extra:]]).type
        )

    def _struct_call(self, name: str, arguments: Sequence[exp.Expr]) -> TypedExpr:
        if name == "struct_pack":
            for argument in arguments:
                if not isinstance(argument, exp.PropertyEQ | exp.Alias | exp.Column):
                    raise TypeProblem(
                        argument,
                        problems.WRONG_ARGUMENTS,
                        "a field of struct_pack needs a name: struct_pack(a := …)",
                    )
            return TypedExpr(_struct_type([(n, self.type_of(v).type) for n, v in _named(arguments)]), False)
        base = self.type_of(arguments[0]) if arguments else TypedExpr(UNKNOWN)
        fields = dict(base.type.fields)
        for field_name, value in _named(arguments[1:]):
            known = next((n for n in fields if n.lower() == field_name.lower()), field_name)
            fields[known] = self.type_of(value).type
        if base.type.kind is not Kind.STRUCT:
            return TypedExpr(UNKNOWN)
        return TypedExpr(_struct_type(list(fields.items())), base.nullable)

    def _lambda_call(self, node: exp.Expr, function: Function, arguments: Sequence[exp.Expr]) -> TypedExpr:
        typed: list[Argument] = [
            LambdaArgument(tuple(p.name for p in a.expressions))
            if isinstance(a, exp.Lambda)
            else self.type_of(a)
            for a in arguments
        ]
        if isinstance(resolve(function, typed), Unresolved):
            shown = [a for a in typed if isinstance(a, TypedExpr)]
            raise self._no_match(node, function, shown, arguments)
        source = typed[0]
        assert isinstance(source, TypedExpr)
        self._check_lambda(function, arguments)
        element = element_of(source.type)
        body = next(a for a in arguments if isinstance(a, exp.Lambda))
        kinds = [element, BIGINT]
        if function.name.endswith("reduce"):
            start = typed[2] if len(typed) > 2 else TypedExpr(element)
            assert isinstance(start, TypedExpr)
            kinds = [start.type, element, BIGINT]
        with self._local(dict(zip((p.name for p in body.expressions), kinds, strict=False))):
            if function.name.endswith("filter"):
                self.condition(body.this, "the filter")
                return TypedExpr(source.type, source.nullable)
            result = self.type_of(body.this)
        if source.type.kind is Kind.NULL:
            return TypedExpr(NULL)
        if function.name.endswith("reduce"):
            return TypedExpr(result.type)
        return TypedExpr(array(result.type), source.nullable)

    def _check_lambda(self, function: Function, arguments: Sequence[exp.Expr]) -> None:
        least, most = (2, 3) if function.name.endswith("reduce") else (1, 2)
        for argument in arguments:
            if isinstance(argument, exp.Lambda) and not least <= len(argument.expressions) <= most:
                raise TypeProblem(
                    argument,
                    problems.WRONG_ARGUMENTS,
                    f"the lambda of `{function.name}` has {least} or {most} parameters",
                )

    @contextmanager
    def _local(self, names: dict[str, SqlType]) -> Iterator[None]:
        self.lambdas.append({name.lower(): type_ for name, type_ in names.items()})
        try:
            yield
        finally:
            self.lambdas.pop()

    @contextmanager
    def _places(self, *, aggregates: bool, windows: bool) -> Iterator[None]:
        before = self.aggregates, self.windows
        self.aggregates, self.windows = aggregates, windows
        try:
            yield
        finally:
            self.aggregates, self.windows = before

    def _resolved(
        self,
        node: exp.Expr,
        function: Function,
        typed: Sequence[TypedExpr],
        nodes: Sequence[exp.Expr],
    ) -> TypedExpr:
        found = resolve(function, typed)
        if isinstance(found, Unresolved):
            raise self._no_match(node, function, typed, nodes, found)
        returns = found.returns
        generic = Call(function.name, tuple(typed), tuple(nodes), found.overload.returns)
        try:
            check_constants(generic)
            if returns is None or function.kind is FunctionKind.MACRO or _overridden(function.name, found):
                returns = return_type(generic)
        except NotTypableError as reason:
            raise TypeProblem(
                node,
                problems.INCOMPATIBLE_TYPES,
                str(reason),
                help="write CAST(… AS …) to make the types agree",
            ) from None
        return TypedExpr(returns, nullable(function.name, typed))

    def _no_match(
        self,
        node: exp.Expr,
        function: Function,
        typed: Sequence[TypedExpr],
        nodes: Sequence[exp.Expr],
        found: Unresolved | None = None,
    ) -> TypeProblem:
        shown = ", ".join(str(t.type) for t in typed)
        name = function.name
        notes = function.signatures()
        more = len(notes) - _SHOWN_SIGNATURES
        notes = notes[:_SHOWN_SIGNATURES] + ([f"… and {more} more"] if more > 0 else [])
        if not any(o.accepts(len(typed)) for o in function.overloads):
            message = f"`{name}` does not take {len(typed)} argument{'s' if len(typed) != 1 else ''}"
            return TypeProblem(node, problems.WRONG_ARGUMENTS, message, tuple(notes))
        if found is not None and found.reason == "several":
            message = f"`{name}({shown})` could mean several functions"
            return TypeProblem(
                node,
                problems.WRONG_ARGUMENTS,
                message,
                tuple(notes),
                "CAST the literal to the type that you mean",
            )
        if found is not None and found.reason == "filled":
            message = f"the types in `{name}({shown})` do not go together"
        else:
            message = f"no `{name}` takes ({shown})"
        return TypeProblem(
            node, problems.WRONG_ARGUMENTS, message, tuple(notes), suggest_cast(function, typed, nodes)
        )


_STRUCT_CALLS = frozenset({"struct_pack", "struct_insert", "struct_update"})

_HANDLERS: dict[type[exp.Expr], Callable[[_Inference, exp.Expr], TypedExpr]] = {
    exp.Column: _Inference._column,
    exp.Identifier: _Inference._identifier,
    exp.Dot: _Inference._dot,
    exp.Literal: _Inference._literal,
    exp.Neg: _Inference._negative,
    exp.Null: _Inference._null,
    exp.Boolean: _Inference._boolean_literal,
    exp.HexString: _Inference._blob,
    exp.ByteString: _Inference._text,
    exp.National: _Inference._text,
    exp.RawString: _Inference._text,
    exp.UnicodeString: _Inference._text,
    exp.Interval: _Inference._interval,
    exp.Array: _Inference._array,
    exp.Comprehension: _Inference._comprehension,
    exp.Struct: _Inference._struct,
    exp.ToMap: _Inference._to_map,
    exp.Is: _Inference._is,
    exp.And: _Inference._connector,
    exp.Or: _Inference._connector,
    exp.Not: _Inference._not,
    exp.Between: _Inference._between,
    exp.In: _Inference._in,
    exp.Exists: _Inference._exists,
    exp.Case: _Inference._case,
    exp.If: _Inference._if,
    exp.Paren: _Inference._paren,
    exp.Alias: _Inference._paren,
    exp.Collate: _Inference._paren,
    exp.Escape: _Inference._paren,
    exp.Tuple: _Inference._tuple,
    exp.Bracket: _Inference._bracket,
    exp.Cast: _Inference._cast,
    exp.TryCast: _Inference._cast,
    exp.Extract: _Inference._extract,
    exp.AtTimeZone: _Inference._at_time_zone,
    exp.JSONExtract: _Inference._json_extract,
    exp.JSONExtractScalar: _Inference._json_extract,
    exp.Filter: _Inference._filter,
    exp.WithinGroup: _Inference._within_group,
    exp.Window: _Inference._window,
}

# Their overloads give a type, but DuckDB then binds another one.
_REBOUND = frozenset({"quantile_cont", "date_part", "datepart", "struct_keys"})


def _overridden(name: str, found: Resolved) -> bool:
    return name in _REBOUND and found.returns is not None and found.returns.kind is not Kind.UNKNOWN


def _function(name: str) -> Function:
    function = catalogue.lookup(name)
    assert function is not None, name
    return function


def _named(expressions: Sequence[exp.Expr]) -> list[tuple[str, exp.Expr]]:
    named = []
    for index, item in enumerate(expressions):
        if isinstance(item, exp.PropertyEQ | exp.Kwarg | exp.EQ):
            named.append((item.this.name, item.expression))
        elif isinstance(item, exp.Alias):
            named.append((item.alias, item.this))
        elif isinstance(item, exp.Column):
            named.append((item.name, item))
        else:
            named.append((f"v{index + 1}", item))
    return named


def _struct_type(fields: list[tuple[str, SqlType]]) -> SqlType:
    return struct(*fields) if fields else UNKNOWN
