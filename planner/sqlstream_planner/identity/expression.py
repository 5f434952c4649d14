"""What a scalar expression means: its form in operators and names of our own.

A form holds names of our function catalogue, the operators below and types as `SqlType` writes them, and nothing
of how expressions are parsed or how functions are translated for DuckDB. The rule is that *different is safe*:
two expressions get one form only where it is said here that they are one. What has no operator here is the
text that DuckDB would run, with what it is applied to taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp
from sqlglot.expressions import apply_index_offset

from sqlstream_operators.plan.types import UNKNOWN, Kind, SqlType
from sqlstream_planner.datatypes import sql_type_of
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.dialect import SqlStream, constant_value
from sqlstream_planner.functions.as_written import as_written, without_marks
from sqlstream_planner.functions.calls import WrittenCall, written_call
from sqlstream_planner.functions.translate.rewrite import is_translated
from sqlstream_planner.identity.conditions import compare, junction, negation
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.identity.synonyms import SYNONYMS
from sqlstream_planner.infer import infer
from sqlstream_planner.problems import TypeProblem

#: Raise it with every change of what form an expression gets, and say then how older forms are read.
FORM_VERSION = 1

#: Every operator that a form of an expression can have, beside those of the forms of columns.
OPERATORS = frozenset(
    {
        # names and literals
        "parameter", "string", "number", "boolean", "null", "bytes", "interval", "interval of", "star",
        # conditions
        "=", "<>", "<", "<=", "is not distinct from", "and", "or", "not", "between", "in", "in one",
        "is null", "is true", "is false", "like", "ilike", "glob", "similar to", "~", "~*",
        "is json", "is json value", "is json object", "is json array", "is json scalar", "case",
        # arithmetic, bits, text
        "+", "+ in order", "-", "*", "/", "//", "%", "negative", "&", "|", "xor", "~ bits", "<<", ">>", "||",
        # types and times
        "cast", "try cast", "type", "extract", "at time zone",
        # arrays, maps, structs
        "array", "map", "struct", "row", "field", "element", "slice", "@>", "<@", "&&", "lambda",
        # calls
        "call", "named", "distinct", "order by", "ascending", "descending", "filter", "within group",
        "ignore nulls", "respect nulls",
        # what has none: DuckDB's text
        "sql",
    }
)  # fmt: skip


def expression_form(
    expression: exp.Expr, columns: Mapping[str, Form], types: Mapping[str, SqlType] | None = None
) -> Form:
    """The form of a bound expression, whose columns are ids; `columns` says what each of them is.

    `types` are the columns' types. Without them fewer expressions are known to be the same: a + b is b + a unless
    they are arrays, and a BETWEEN b AND c is two comparisons if b and c have one type. Raises InternalError for a
    column that is not in `columns`.

    >>> from sqlstream_planner.dialect import parse_expression
    >>> from sqlstream_planner.identity.form import text
    >>> columns = {name: form("column", name) for name in ("a", "b")}
    >>> def of(sql): return expression_form(parse_expression(sql), columns)
    >>> of("NOT (a >= b OR b IS NULL)") == of("(b is not null) and a < b")
    True
    >>> print(text(of("CAST(a AS DECIMAL(10, 2)) > 5")))
    (< (number "5") (cast (column "a") (type "DECIMAL(10,2)")))
    >>> of("CAST(a AS DECIMAL(10, 0))") == of("CAST(a AS DECIMAL(10, 2))"), of("a + 1.0") == of("a + 1")
    (False, False)
    """
    return _Expression(columns, types or {}).form(expression)


#: Operators of two operands; none of them may be exchanged.
_BINARY: Mapping[type[exp.Expr], str] = {
    exp.Sub: "-",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Glob: "glob",
    exp.SimilarTo: "similar to",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
}
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from",
    exp.NullSafeNEQ: "is distinct from",
}
_UNARY: Mapping[type[exp.Expr], str] = {exp.Neg: "negative", exp.BitwiseNot: "~ bits"}
#: Operators whose two operands may be exchanged. More than two are not: sums of floating-point numbers depend
#: on their grouping.
_COMMUTATIVE: Mapping[type[exp.Expr], str] = {
    exp.Mul: "*",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
}
_JUNCTIONS: Mapping[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or"}
_LIKES: Mapping[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike"}
#: Calls that have an operator of their own in the grammar.
_OPERATOR_CALLS: Mapping[type[exp.Expr], str] = {
    exp.Pow: "power",
    exp.Abs: "abs",
    exp.StartsWith: "starts_with",
}
#: Arguments of nodes that change nothing, or repeat what the node is.
_IGNORED: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.DPipe: frozenset({"safe"}),
    exp.TryCast: frozenset({"safe"}),
}
_EXACT_DIGITS = 18  # of a literal that is kept as a DECIMAL or an integer, whatever it is compared with
_LIMITS = (exp.Limit, exp.HavingMax, exp.IgnoreNulls, exp.RespectNulls)


class _Expression:
    """The forms of one expression's parts."""

    def __init__(self, columns: Mapping[str, Form], types: Mapping[str, SqlType]) -> None:
        self._columns = columns
        self._types = types
        self._scope = {id_: (type_, True) for id_, type_ in types.items()}
        # The parameters of the lambdas around, the innermost last.
        self._parameters: list[list[str]] = []

    def form(self, node: exp.Expr) -> Form:
        """The form of a part."""
        written = as_written(node)
        if written is not None:
            return self._written(written)
        if isinstance(node, exp.Paren | exp.Alias):
            return self.form(node.this)
        found = self._known(node)
        return found if found is not None else self._sql(node)

    def _known(self, node: exp.Expr) -> Form | None:
        """The form of what has an operator here, None of anything else."""
        kind = type(node)
        if kind in _COMPARISONS and _has_only(node, "this", "expression"):
            if _is_quantified(node.this) or _is_quantified(node.expression):
                return None  # NOT a = ANY(b) is not a <> ANY(b)
            return compare(_COMPARISONS[kind], self.form(node.this), self.form(node.expression))
        if kind in _JUNCTIONS:
            return junction(_JUNCTIONS[kind], [self.form(o) for o in _operands(node, kind)])
        if kind in _BINARY and _has_only(node, "this", "expression"):
            return form(_BINARY[kind], self.form(node.this), self.form(node.expression))
        if kind in _COMMUTATIVE and _has_only(node, "this", "expression"):
            return Form(_COMMUTATIVE[kind], sort_forms((self.form(node.this), self.form(node.expression))))
        if kind in _UNARY and _has_only(node, "this"):
            return form(_UNARY[kind], self.form(node.this))
        if kind in _OPERATOR_CALLS:
            operands = [node.args[key] for key in ("this", "expression") if node.args.get(key) is not None]
            return form("call", _OPERATOR_CALLS[kind], *(self.form(o) for o in operands))
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, node)
        if isinstance(node, exp.Func) and not isinstance(node.parent, exp.Dot):
            call = written_call(node)
            return self._call(call) if call is not None else None
        return None

    # ---- names and literals ------------------------------------------------------------------------------

    def _column(self, node: exp.Expr) -> Form | None:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        head, *fields = [part.name for part in node.parts]
        found = self._parameter(head)
        if found is None:
            if fields or head not in self._columns:
                known = ", ".join(sorted(self._columns)) or "none"
                raise InternalError(
                    f"column `{'.'.join((head, *fields))}` has no form (there are forms of: {known})"
                )
            return self._columns[head]
        for name in fields:
            found = form("field", found, name)
        return found

    def _identifier(self, node: exp.Expr) -> Form | None:
        return self._parameter(node.name)

    def _parameter(self, name: str) -> Form | None:
        """A parameter of a lambda: how many lambdas out it belongs to, and which one it is there."""
        for depth, names in enumerate(reversed(self._parameters)):
            if name.lower() in names:
                return form("parameter", depth, names.index(name.lower()))
        return None

    def _literal(self, node: exp.Expr) -> Form:
        written = str(node.this)
        if node.args.get("is_string"):
            return form("string", written)
        if written.isascii() and written.isdigit():
            return form("number", written.lstrip("0") or "0")
        return form("number", written.lower())

    def _boolean(self, node: exp.Expr) -> Form:
        return form("boolean", bool(node.this))

    def _null(self, _: exp.Expr) -> Form:
        return form("null")

    def _star(self, node: exp.Expr) -> Form | None:
        return form("star") if _has_only(node) else None

    def _text(self, node: exp.Expr) -> Form:
        return form("string", str(node.this))

    def _bytes(self, node: exp.Expr) -> Form:
        return form("bytes", str(node.this).lower())

    def _interval(self, node: exp.Expr) -> Form | None:
        try:
            value = constant_value(node)
        except ValueError:
            return None
        if value is not None:
            return form("interval", value.months, value.days, value.micros)
        unit = node.args.get("unit")
        if node.this is None or not isinstance(unit, exp.Var) or not _has_only(node, "this", "unit"):
            return None
        return form("interval of", unit.name.lower(), self.form(node.this))

    # ---- conditions --------------------------------------------------------------------------------------

    def _not(self, node: exp.Expr) -> Form:
        return negation(self.form(node.this))

    def _is(self, node: exp.Expr) -> Form | None:
        match node.expression:
            case exp.Null():
                return form("is null", self.form(node.this))
            case exp.Boolean():
                return form("is true" if node.expression.this else "is false", self.form(node.this))
        return None

    def _between(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "low", "high"):
            return None
        low, high = node.args["low"], node.args["high"]
        value, least, greatest = self.form(node.this), self.form(low), self.form(high)
        if not self._compared_alike(low, high):
            # DuckDB compares all three in one type: with a DOUBLE above, a BIGINT below is rounded, too.
            return form("between", value, least, greatest)
        return junction("and", (compare(">=", value, least), compare("<=", value, greatest)))

    def _in(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "expressions") or not node.expressions:
            return None
        value = self.form(node.this)
        listed = set(map(self.form, node.expressions))
        if len(node.expressions) == 1 and not self._is_no_array(node.expressions[0]):
            return form("in one", value, *listed)  # x IN (array) looks into the array
        if len(listed) == 1 and not isinstance(node.this, exp.Tuple):
            return compare("=", value, listed.pop())
        return form("in", value, *sort_forms(listed))

    def _like(self, node: exp.Expr, escape: exp.Expr | None = None) -> Form | None:
        if not _has_only(node, "this", "expression", "negate") or isinstance(node.expression, exp.Any):
            return None
        operands = [node.this, node.expression, *([escape] if escape is not None else [])]
        found = form(_LIKES[type(node)], *(self.form(o) for o in operands))
        return negation(found) if node.args.get("negate") else found

    def _escape(self, node: exp.Expr) -> Form | None:
        return self._like(node.this, node.expression) if type(node.this) in _LIKES else None

    def _case(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "ifs", "default"):
            return None
        parts = []
        chosen = self.form(node.this) if node.this is not None else None
        for branch in node.args["ifs"]:
            condition = self.form(branch.this)
            parts += [condition if chosen is None else compare("=", chosen, condition)]
            parts += [self.form(branch.args["true"])]
        default = node.args.get("default")
        return form("case", *parts, form("null") if default is None else self.form(default))

    # ---- values ------------------------------------------------------------------------------------------

    def _add(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "expression"):
            return None
        operands = self.form(node.this), self.form(node.expression)
        if any(
            self._is_no_array(o) and self._type(o).kind is not Kind.VARCHAR
            for o in (node.expression, node.this)
        ):
            return Form("+", sort_forms(operands))  # (a string beside an array becomes one)
        return form("+ in order", *operands)  # arrays are concatenated

    def _cast(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "to"):
            return None
        type_ = _type_form(node.args["to"])
        if type_ is None:
            return None
        return form("try cast" if type(node) is exp.TryCast else "cast", self.form(node.this), type_)

    def _extract(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "expression"):
            return None
        return form("extract", node.this.name.lower(), self.form(node.expression))

    def _at_time_zone(self, node: exp.Expr) -> Form | None:
        if not _has_only(node, "this", "zone"):
            return None
        return form("at time zone", self.form(node.this), self.form(node.args["zone"]))

    def _dot(self, node: exp.Expr) -> Form | None:
        if not isinstance(node.expression, exp.Identifier):
            return None
        return form("field", self.form(node.this), node.expression.name)

    def _bracket(self, node: exp.Expr) -> Form | None:
        if len(node.expressions) != 1 or not _has_only(node, "this", "expressions"):
            return None
        [at] = node.expressions
        if isinstance(at, exp.Slice):
            if not _has_only(at, "this", "expression", "step"):
                return None
            bounds = (at.args.get(key) for key in ("this", "expression", "step"))
            return form("slice", self.form(node.this), *(None if b is None else self.form(b) for b in bounds))
        return form("element", self.form(node.this), self.form(_position(node.this, at)))

    def _array(self, node: exp.Expr) -> Form | None:
        if any(isinstance(e, exp.Comprehension | exp.Query) for e in node.expressions):
            return None
        return form("array", *(self.form(e) for e in node.expressions))

    def _struct(self, node: exp.Expr) -> Form | None:
        return self._fields(node.expressions)

    def _fields(self, fields: Sequence[exp.Expr]) -> Form | None:
        """A struct of named fields; None if one has no name."""
        parts: list[str | Form] = []
        for field in fields:
            match field:
                case exp.PropertyEQ(this=exp.Identifier() | exp.Literal() as name):
                    parts += [name.name, self.form(field.expression)]
                case exp.Alias():
                    parts += [field.alias, self.form(field.this)]
                case exp.Column():
                    parts += [field.name, self.form(field)]  # DuckDB names the field after it
                case _:
                    return None
        return form("struct", *parts)

    def _map(self, node: exp.Expr) -> Form | None:
        keys, values = node.args.get("keys"), node.args.get("values")
        if keys is None or values is None:
            return form("call", "map") if keys is values else None
        return form("map", self.form(keys), self.form(values))

    def _to_map(self, node: exp.Expr) -> Form | None:
        pairs: list[exp.Expr] = node.this.expressions
        named = all(isinstance(p, exp.PropertyEQ) and not isinstance(p.this, exp.Identifier) for p in pairs)
        if not isinstance(node.this, exp.Struct) or not named:
            return None
        keys = form("array", *(self.form(p.this) for p in pairs))
        return form("map", keys, form("array", *(self.form(p.expression) for p in pairs)))

    def _tuple(self, node: exp.Expr) -> Form:
        return form("row", *(self.form(e) for e in node.expressions))

    def _lambda(self, node: exp.Expr) -> Form | None:
        if not all(isinstance(p, exp.Identifier) for p in node.expressions):
            return None
        self._parameters.append([p.name.lower() for p in node.expressions])
        try:
            return form("lambda", len(node.expressions), self.form(node.this))
        finally:
            self._parameters.pop()

    # ---- calls -------------------------------------------------------------------------------------------

    def _anonymous(self, node: exp.Expr) -> Form | None:
        if isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
            return None
        call = written_call(node)
        return self._call(call) if call is not None and _unwrapped_whole(node) else None

    def _written(self, call: WrittenCall) -> Form:
        """A call that is something else in DuckDB, as it was written."""
        arguments = [self._argument(a) for a in call.arguments]
        if call.name == "cast":
            return arguments[0]
        if call.name in ("if", "iff") and len(arguments) == 3:
            return form("case", *arguments)
        if call.name in ("ifnull", "nvl") and len(arguments) == 2:
            return form("call", "coalesce", *arguments)
        if call.name == "similar to" or call.name.startswith("is json"):
            return form(call.name, *arguments)
        return form("call", call.name, *arguments)

    def _call(self, call: WrittenCall) -> Form | None:
        if any(isinstance(a, _LIMITS) for a in call.arguments):
            return None
        if call.name == "struct_pack":
            return self._fields(call.arguments)
        name = call.name if is_translated(call.name) else SYNONYMS.get(call.name, call.name)
        arguments = [self._argument(a) for a in call.arguments]
        if name == "map" and len(arguments) == 2:
            return form("map", *arguments)
        if name == "xor" and len(arguments) == 2:
            return Form("xor", sort_forms(arguments))
        if call.distinct:
            arguments.append(form("distinct"))
        if call.order is not None:
            arguments.append(form("order by", *(self._ordered(o) for o in call.order.expressions)))
        return form("call", name, *arguments)

    def _argument(self, node: exp.Expr) -> Form:
        if isinstance(node, exp.PropertyEQ | exp.Kwarg):
            return form("named", node.this.name, self.form(node.expression))
        if isinstance(node, exp.Alias):
            return form("named", node.alias, self.form(node.this))
        return self.form(node)

    def _ordered(self, node: exp.Expr) -> Form:
        if not isinstance(node, exp.Ordered):
            return form("ascending", self.form(node), "nulls last")
        nulls = "nulls first" if node.args.get("nulls_first") else "nulls last"
        return form("descending" if node.args.get("desc") else "ascending", self.form(node.this), nulls)

    def _filter(self, node: exp.Expr) -> Form | None:
        if not isinstance(node.expression, exp.Where):
            return None
        return form("filter", self.form(node.this), self.form(node.expression.this))

    def _within_group(self, node: exp.Expr) -> Form | None:
        if not isinstance(node.expression, exp.Order):
            return None
        order = form("order by", *(self._ordered(o) for o in node.expression.expressions))
        return form("within group", self.form(node.this), order)

    def _nulls(self, node: exp.Expr) -> Form:
        return form(
            "ignore nulls" if isinstance(node, exp.IgnoreNulls) else "respect nulls", self.form(node.this)
        )

    # ---- the rest ----------------------------------------------------------------------------------------

    def _sql(self, node: exp.Expr) -> Form:
        """What DuckDB would run, with `$1`, `$2` … for what it is applied to: the safe form of what is not known."""
        inputs: list[Form] = []

        def place(part: exp.Expr) -> exp.Expr:
            found: Form | None = None
            written = as_written(part)
            if written is not None and part.find_ancestor(exp.Lambda, exp.Comprehension) is None:
                found = self._written(written)
            elif isinstance(part, exp.Column) and not _is_bound(part, part.parts[0].name):
                found = self._column(part)
            elif isinstance(part, exp.Identifier) and _is_value(part) and not _is_bound(part, part.name):
                found = self._parameter(part.name)
            if found is None:
                return part
            if found not in inputs:
                inputs.append(found)
            return exp.Placeholder(this=str(inputs.index(found) + 1))

        template = exp.Paren(this=node.copy()).transform(place, copy=False)
        return form("sql", without_marks(template.this).sql(dialect=SqlStream, comments=False), *inputs)

    def _is_no_array(self, node: exp.Expr) -> bool:
        """Whether a value is certainly something else than an array."""
        type_ = self._type(node)
        return type_.kind not in (Kind.UNKNOWN, Kind.ARRAY, Kind.NULL)

    def _compared_alike(self, low: exp.Expr, high: exp.Expr) -> bool:
        """Whether a value is compared with both in the same type, whatever its own is."""
        kinds = [_literal_kind(b) for b in (low, high)]
        if None not in kinds:
            return kinds[0] == kinds[1]
        if any(kinds):
            return False
        type_ = self._type(low)
        return type_.is_known and type_ == self._type(high)

    def _type(self, node: exp.Expr) -> SqlType:
        """The type of a part as far as it is known."""
        names = {c.parts[0].name for c in node.find_all(exp.Column)}
        if not names <= self._types.keys():
            return UNKNOWN
        try:
            return infer(node, self._scope, aggregates=True).type
        except TypeProblem:
            return UNKNOWN


_Handler = Callable[[_Expression, exp.Expr], Form | None]
_HANDLERS: Mapping[type[exp.Expr], _Handler] = {
    exp.Column: _Expression._column,
    exp.Identifier: _Expression._identifier,
    exp.Literal: _Expression._literal,
    exp.Boolean: _Expression._boolean,
    exp.Null: _Expression._null,
    exp.Star: _Expression._star,
    exp.RawString: _Expression._text,
    exp.HexString: _Expression._bytes,
    exp.Interval: _Expression._interval,
    exp.Not: _Expression._not,
    exp.Is: _Expression._is,
    exp.Between: _Expression._between,
    exp.In: _Expression._in,
    exp.Like: _Expression._like,
    exp.ILike: _Expression._like,
    exp.Escape: _Expression._escape,
    exp.Case: _Expression._case,
    exp.Add: _Expression._add,
    exp.Cast: _Expression._cast,
    exp.TryCast: _Expression._cast,
    exp.Extract: _Expression._extract,
    exp.AtTimeZone: _Expression._at_time_zone,
    exp.Dot: _Expression._dot,
    exp.Bracket: _Expression._bracket,
    exp.Array: _Expression._array,
    exp.Struct: _Expression._struct,
    exp.Map: _Expression._map,
    exp.ToMap: _Expression._to_map,
    exp.Tuple: _Expression._tuple,
    exp.Lambda: _Expression._lambda,
    exp.Anonymous: _Expression._anonymous,
    exp.Filter: _Expression._filter,
    exp.WithinGroup: _Expression._within_group,
    exp.IgnoreNulls: _Expression._nulls,
    exp.RespectNulls: _Expression._nulls,
}


def _has_only(node: exp.Expr, *keys: str) -> bool:
    """Whether a node has no arguments but these, and those that change nothing."""
    ignored = _IGNORED.get(type(node), frozenset())
    given = {
        key for key, value in node.args.items() if value is not None and value is not False and value != []
    }
    return given <= {*keys, *ignored}


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of ANDs, or of ORs, that stand in each other, from left to right."""
    found: list[exp.Expr] = []
    stack = [node]
    while stack:
        at = stack.pop()
        while isinstance(at, exp.Paren) and as_written(at) is None:
            at = at.this
        if type(at) is kind:
            stack += [at.args["expression"], at.this]
        else:
            found.append(at)
    return found


def _type_form(type_: exp.Expr) -> Form | None:
    """The type as `SqlType` writes it, with digits of seconds where fewer than six are asked for."""
    try:
        known = sql_type_of(type_)
    except TypeProblem:
        return None
    digits = [
        part.expressions[0].name
        for part in type_.find_all(exp.DataType)
        if part.expressions and part.is_type(*_TIMES) and part.expressions[0].name != "6"
    ]
    return form("type", str(known), *digits)


_TIMES = (
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPLTZ,
    exp.DType.DATETIME,
    exp.DType.TIME,
)


def _literal_kind(node: exp.Expr) -> str | None:
    """The kind of a literal for which all values that it is compared with are taken alike; None if there is none."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        node = node.this.unnest()
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return "string"
    written = str(node.this)
    if sum(c.isdigit() for c in written) > _EXACT_DIGITS:
        return None
    if written.isdigit():
        return "integer"
    return "double" if "e" in written.lower() else "decimal"


def _is_quantified(node: exp.Expr) -> bool:
    """Whether a comparison with this is one with some or all of many."""
    inner = node.unnest()
    if isinstance(inner, exp.Anonymous):
        return inner.name.lower() in ("any", "all", "some")
    return isinstance(inner, exp.Any | exp.All)


def _position(of: exp.Expr, at: exp.Expr) -> exp.Expr:
    """What stands in brackets as DuckDB gets it: the parser counts positions in arrays from 0."""
    [shifted] = apply_index_offset(of.copy(), [at.copy()], 1, dialect=SqlStream)
    if shifted == at:
        return at
    if isinstance(at, exp.Add) and at.expression == exp.Literal.number(-1):
        computed: exp.Expr = at.this
        return computed
    return shifted


def _is_bound(node: exp.Expr, name: str) -> bool:
    """Whether a name is a parameter of a lambda that stands around it in the same tree."""
    around = node.parent
    while around is not None:
        if isinstance(around, exp.Lambda) and any(p.name.lower() == name.lower() for p in around.expressions):
            return True
        if isinstance(around, exp.Comprehension):
            named = (around.expression, around.args.get("position"))
            if any(p is not None and p.name.lower() == name.lower() for p in named):
                return True
        around = around.parent
    return False


def _is_value(node: exp.Identifier) -> bool:
    """Whether an identifier stands for a value, and is no part of a longer name or the name of something."""
    parent = node.parent
    if isinstance(parent, exp.Column | exp.Alias | exp.TableAlias | exp.ColumnDef):
        return False
    if isinstance(parent, exp.PropertyEQ | exp.Kwarg):
        return node.arg_key != "this"
    if isinstance(parent, exp.Dot):
        return node.arg_key == "this"
    return not (isinstance(parent, exp.Lambda) and node.arg_key == "expressions")


def _unwrapped_whole(node: exp.Expr) -> bool:
    """Whether `written_call` keeps all that the arguments have around them."""
    for argument in node.expressions:
        inner = argument
        if isinstance(inner, _LIMITS):
            return False
        if isinstance(inner, exp.Order):
            inner = inner.this
        if isinstance(inner, exp.Distinct) and inner.args.get("on") is not None:
            return False
        if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
            return False
    return True
