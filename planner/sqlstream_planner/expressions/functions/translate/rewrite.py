"""Apply the translations to an expression, from the inside out; the expression given is not changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import sqlglot
from sqlglot import exp

from sqlstream_planner.aggregates import registry as aggregates
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.translate.aggregates import AGGREGATES
from sqlstream_planner.expressions.functions.translate.entry import Context, Translation, TypeOf
from sqlstream_planner.expressions.functions.translate.growth import LARGEST, refuse_growth, size
from sqlstream_planner.expressions.functions.translate.json_ import is_json
from sqlstream_planner.expressions.functions.translate.similar import similar_to
from sqlstream_planner.expressions.functions.translate.table import TRANSLATIONS
from sqlstream_planner.sql.as_written import as_written, marked
from sqlstream_planner.sql.dialect import SqlStream
from sqlstream_planner.sql.problems import WRONG_ARGUMENTS, TypeProblem
from sqlstream_planner.sql.written_calls import WrittenCall, written_call

ANY_NUMBER = ("...",)


@cache
def _by_name() -> Mapping[str, tuple[Translation, ...]]:
    table: dict[str, list[Translation]] = {}
    for translation in TRANSLATIONS:
        table.setdefault(translation.name.lower(), []).append(translation)
    return {name: tuple(entries) for name, entries in table.items()}


def is_translated(name: str) -> bool:
    """Whether some call of `name` is rewritten."""
    return name.lower() in _by_name()


def translations(name: str) -> tuple[Translation, ...]:
    """The calls of `name` that are rewritten."""
    return _by_name().get(name.lower(), ())


def translated_names() -> tuple[str, ...]:
    """The lower-case names that have a translation, sorted."""
    return tuple(sorted(_by_name()))


def translate(expression: exp.Expr, type_of: TypeOf | None = None) -> exp.Expr:
    """A copy of `expression` with every call in DuckDB's own form.

    `type_of` gives the types of arguments where the meaning depends on them (TO_TIMESTAMP of a number is
    DuckDB's). Raises TypeProblem where there is no exact translation: a date pattern that is no literal.

    >>> import sqlglot
    >>> translate(sqlglot.parse_one("NVL(UPPER(a), LOCATE('x', b))", dialect=SqlStream)).sql("duckdb")
    "COALESCE(UPPER(a), STRPOS(b, 'x'))"
    """
    return _Translation(type_of, marks=False).inside_out(expression.copy(), expression)


def translate_marked(expression: exp.Expr, type_of: TypeOf | None = None) -> exp.Expr:
    """Like `translate`; calls that it changes remember how they were written, see functions/as_written.py.

    >>> by = translate_marked(sqlglot.parse_one("1 + NVL(LOG(a), 2)", dialect=SqlStream)).expression
    >>> print(by.sql("duckdb"), [a.sql() for a in as_written(by).arguments])
    (COALESCE(LN(a), 2)) ['LOG(a)', '2']
    """
    translation = _Translation(type_of, marks=True)
    return translation.marked(translation.inside_out(expression.copy(), expression))


class _Translation:
    """The translation of one expression; it knows what its calls were before until they are marked with it."""

    def __init__(self, type_of: TypeOf | None, *, marks: bool) -> None:
        self._type_of = type_of
        self._marks = marks
        # By the id of what became of it, which stands here so that the id stays its own: the call before.
        self._before: dict[int, tuple[exp.Expr, exp.Expr]] = {}
        # By the id of what became of a call, how many parts it has.
        self._sizes: dict[int, tuple[int, exp.Expr]] = {}

    def inside_out(self, node: exp.Expr, before: exp.Expr) -> exp.Expr:
        """Translate `node`, which is a copy of `before`, in place; only arguments of aggregates get their marks."""
        if as_written(before) is not None:
            return node  # translated before: it is what a name of the SELECT list stands for
        for key, value in before.args.items():
            if isinstance(value, list):
                pairs = list(zip(node.args[key], value, strict=True))
                node.set(key, [self.inside_out(n, b) if isinstance(b, exp.Expr) else n for n, b in pairs])
            elif isinstance(value, exp.Expr):
                node.set(key, self.inside_out(node.args[key], value))
        aggregate = _is_aggregate(before)
        if aggregate and self._marks:
            _each_child(node, self.marked)
        rewritten = _rewrite(node, self._type_of)
        if rewritten is node:
            return node
        rewritten.meta.update(node.meta)
        self._check_size(rewritten, before)
        if not aggregate:
            self._before[id(rewritten)] = (rewritten, before)
        return rewritten

    def _check_size(self, rewritten: exp.Expr, before: exp.Expr) -> None:
        found, stack = 0, [rewritten]
        while stack:
            node = stack.pop()
            known = self._sizes.get(id(node))
            found += 1 if known is None else known[0]
            if known is None:
                stack.extend(node.iter_expressions())
        if found > LARGEST:
            refuse_growth(before, found, size(before))
        self._sizes[id(rewritten)] = (found, rewritten)

    def marked(self, node: exp.Expr) -> exp.Expr:
        """`node` with marks around the outermost calls that were changed, put there in place."""
        if as_written(node) is not None:
            return node
        found = self._before.get(id(node))
        if found is None:
            _each_child(node, self.marked)
            return node
        name, arguments = _name_and_arguments(found[1])
        return marked(node, name, [self._with_aggregates(a.copy(), a) for a in arguments])

    def _with_aggregates(self, node: exp.Expr, before: exp.Expr) -> exp.Expr:
        """`node`, a copy of `before`, as it is written but for its aggregates, which are as in the translation."""
        if _is_aggregate(before):
            return self.inside_out(node, before)
        for key, value in before.args.items():
            if isinstance(value, list):
                pairs = zip(list(node.args[key]), value, strict=True)
                node.set(
                    key, [self._with_aggregates(n, b) if isinstance(b, exp.Expr) else n for n, b in pairs]
                )
            elif isinstance(value, exp.Expr):
                node.set(key, self._with_aggregates(node.args[key], value))
        return node


def _each_child(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> None:
    for key, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(key, [change(v) if isinstance(v, exp.Expr) else v for v in value])
        elif isinstance(value, exp.Expr):
            node.set(key, change(value))


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        return catalogue.is_aggregate(name) or name in _aggregate_names()
    around = exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls
    return isinstance(node, around | exp.FirstValue | exp.LastValue)


@cache
def _aggregate_names() -> frozenset[str]:
    return frozenset(t.name.lower() for t in AGGREGATES)


def _name_and_arguments(before: exp.Expr) -> tuple[str, Sequence[exp.Expr]]:
    if isinstance(before, exp.Escape):
        return "similar to", (before.this.this, before.this.expression, before.expression)
    if isinstance(before, exp.SimilarTo):
        return "similar to", (before.this, before.expression)
    if isinstance(before, exp.Is):
        return f"is json {before.expression.args.get('this') or ''}".strip(), (before.this,)
    call = written_call(before)
    assert call is not None
    return call.name, call.arguments


def _rewrite(node: exp.Expr, type_of: TypeOf | None) -> exp.Expr:
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.JSON):
        return is_json(node, Context(node, type_of))
    if isinstance(node, exp.SimilarTo):
        return node if isinstance(node.parent, exp.Escape) else similar_to(node, Context(node, type_of))
    if isinstance(node, exp.Escape) and isinstance(node.this, exp.SimilarTo):
        return similar_to(node.this, Context(node, type_of), node.expression)
    if isinstance(node, exp.Overlaps):
        raise Context(node, type_of).refuse(
            "OVERLAPS has no counterpart in DuckDB", "compare the ends: start_1 < end_2 AND start_2 < end_1"
        )
    if isinstance(node, exp.Filter) and isinstance(node.this, exp.Filter):
        inner = node.this
        both = exp.And(
            this=exp.Paren(this=node.expression.this), expression=exp.Paren(this=inner.expression.this)
        )
        return exp.Filter(this=inner.this, expression=exp.Where(this=both))
    if isinstance(node, exp.WithinGroup) and isinstance(node.expression, exp.Order):
        return _within_group(node)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and not isinstance(node.parent, exp.Window):
        return _nulls(node, type_of)
    if isinstance(node, exp.FirstValue | exp.LastValue) and not isinstance(node.parent, exp.Window):
        whole = written_call(node)
        assert whole is not None
        return _apply(node, whole, type_of)
    if not isinstance(node, exp.Anonymous) or isinstance(node.parent, exp.Dot):
        return node
    for argument in node.expressions:
        marked = argument.this if isinstance(argument, exp.Order) else argument
        if isinstance(marked, exp.IgnoreNulls | exp.RespectNulls):
            marked.replace(marked.this)
            return _rewrite(type(marked)(this=_rewrite(node.copy(), type_of)), type_of)
    call = written_call(node)
    assert call is not None
    if call.order is not None:
        within = _as_within_group(call)
        if within is not None:
            return _within_group(within)
    rewritten = _apply(node, call, type_of)
    if (
        rewritten is node
        and call.distinct
        and len(call.arguments) > 1
        and not _takes_any_arguments(call.name)
    ):
        return _with_modifiers(exp.Anonymous(this=node.this, expressions=list(call.arguments)), call)
    return rewritten


def _takes_any_arguments(name: str) -> bool:
    function = aggregates.find(name)
    return function is not None and function.takes_any_arguments


def _nulls(node: exp.Expr, type_of: TypeOf | None) -> exp.Expr:
    """IGNORE NULLS and RESPECT NULLS, behind a call or behind its argument: only ARRAY_AGG keeps NULLs."""
    inner = node.this
    if not isinstance(inner, exp.Anonymous | exp.Filter):
        return node  # behind an argument: the call around it is rewritten next
    call = written_call(inner)
    function = aggregates.find(call.name) if call is not None else None
    # Where NULLs are left out anyway IGNORE NULLS says nothing.
    keeps = function is not None and function.keeps_nulls
    if isinstance(node, exp.IgnoreNulls):
        if call is None or not keeps:
            return inner
        return exp.Filter(
            this=inner,
            expression=exp.Where(
                this=exp.Not(this=exp.Is(this=_grouped(call.arguments[0].copy()), expression=exp.Null()))
            ),
        )
    if not keeps:
        raise Context(node, type_of).refuse(
            "RESPECT NULLS can only follow ARRAY_AGG: all other aggregates skip NULLs",
            "leave it out, or keep NULLs with ARRAY_AGG",
        )
    return inner


def _as_within_group(call: WrittenCall) -> exp.WithinGroup | None:
    """QUANTILE_CONT(x, p ORDER BY x) as PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x), None of another call or order."""
    function = aggregates.find(call.name)
    if function is None or function.within_group is None or function.arguments.orders_itself or call.distinct:
        return None
    assert call.order is not None
    x, *share = call.arguments
    if [ordered.this for ordered in call.order.expressions] != [x]:
        return None
    percentile = exp.Anonymous(this=function.within_group.name, expressions=share)
    return exp.WithinGroup(this=percentile, expression=call.order.copy())


def _within_group(node: exp.WithinGroup) -> exp.Expr:
    """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x) takes x first; LISTAGG's order goes inside."""
    call = written_call(node.this)
    if call is None:
        return node
    function = aggregates.before_within_group(call.name)
    if function is None or function.within_group is None:
        plain = exp.Anonymous(this=call.name, expressions=list(call.arguments))
        return _with_modifiers(plain, WrittenCall(call.name, (), call.distinct, node.expression))
    if len(node.expression.expressions) != 1 or call.distinct:
        what = "DISTINCT" if call.distinct else "more than one column to order by"
        raise Context(node, None).refuse(
            f"{call.name.upper()} … WITHIN GROUP takes no {what}",
            f"write {call.name.upper()}(0.5) WITHIN GROUP (ORDER BY x)",
        )
    ordered = node.expression.expressions[0]
    if function.arguments.orders_itself:
        plain = exp.Anonymous(this=function.name, expressions=[ordered.this.copy(), *call.arguments])
        return _with_modifiers(plain, WrittenCall(function.name, (), False, node.expression))
    share = list(call.arguments)
    if share and isinstance(share[0].unnest(), exp.Neg):
        raise TypeProblem(
            share[0],
            WRONG_ARGUMENTS,
            f"the share of {call.name.upper()} can't be {share[0].sql()}",
            help="write a number from 0 to 1; ORDER BY x DESC counts from the top",
        )
    if ordered.args.get("desc") and share:
        wrong = function.arguments.check((ordered.this, *share)) if function.arguments.check else None
        if wrong is not None:
            raise TypeProblem(wrong.argument, WRONG_ARGUMENTS, wrong.message, help=wrong.help)
        share = [_from_top(share[0], function.within_group.from_top, node)]
    return exp.Anonymous(this=function.name, expressions=[ordered.this, *share])


def _from_top(share: exp.Expr, template: str, node: exp.Expr) -> exp.Expr:
    """A share, or a list of them, counted from the top."""
    inner = share.unnest()
    if isinstance(inner, exp.Array):
        if "CASE" in template and any(e.is_number and float(e.name) == 0 for e in inner.expressions):
            raise Context(node, None).refuse(
                "a list of shares with 0 in it can't be counted from the top", "write MAX(x) for the share 0"
            )
        return exp.Array(expressions=[_from_top(e, template, node) for e in inner.expressions])
    if not isinstance(inner, exp.Literal | exp.Binary):
        raise Context(node, None).refuse(
            "WITHIN GROUP (ORDER BY … DESC) takes a number from 0 to 1, or a list of such numbers",
            "write PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x DESC)",
        )
    parsed = sqlglot.parse_one(f"({template})", dialect=SqlStream)
    made: exp.Expr = exp.replace_tree(parsed, lambda n: share.copy() if _named_share(n) else n)
    return made


def _named_share(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == "share"


def _apply(node: exp.Expr, call: WrittenCall, type_of: TypeOf | None) -> exp.Expr:
    for translation in _by_name().get(call.name, ()):
        if translation.parameters not in (ANY_NUMBER,) and len(translation.parameters) != len(call.arguments):
            continue
        if any(isinstance(a, exp.Star) for a in call.arguments):
            return node
        if translation.builder is not None:
            built = translation.builder(list(call.arguments), Context(node, type_of))
        else:
            built = _fill(translation, call.arguments)
        return node if built is None else _with_modifiers(built, call)
    return node


@cache
def _template(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect=SqlStream)


def _fill(translation: Translation, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """The template with the arguments in it, which are taken; copies stand where it names one again."""
    values = {name: _grouped(a) for name, a in zip(translation.parameters, arguments, strict=True)}
    template = _template(translation.template).copy()
    for part in template.walk():
        part.meta.clear()
    _rename_lambda_parameters(template, arguments)
    taken: set[str] = set()

    def fill(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column | exp.Identifier) and part.name in values and _is_name(part):
            again = part.name in taken
            taken.add(part.name)
            return values[part.name].copy() if again else values[part.name]
        return part

    return template.transform(fill, copy=False)


def _rename_lambda_parameters(template: exp.Expr, arguments: Sequence[exp.Expr]) -> None:
    """Give lambdas of the template parameter names that no argument uses, so that none is captured."""
    functions = list(template.find_all(exp.Lambda))
    if not functions:
        return
    used = {name.name.lower() for argument in arguments for name in argument.find_all(exp.Identifier)}
    for function in functions:
        for parameter in [p.name for p in function.expressions]:
            free = parameter
            while free.lower() in used:
                free += "_"
            for name in function.find_all(exp.Identifier):
                if name.name == parameter:
                    name.set("this", free)


def _is_name(part: exp.Expr) -> bool:
    """Not a part of something bigger: a column's identifier, a lambda's parameter, a field of struct_pack."""
    return not (isinstance(part, exp.Identifier) and isinstance(part.parent, exp.Column | exp.PropertyEQ))


def _grouped(argument: exp.Expr) -> exp.Expr:
    simple = (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Cast, exp.Case, exp.Array, exp.Null)
    if isinstance(argument, exp.Binary | exp.Unary | exp.Between | exp.In) and not isinstance(
        argument, simple
    ):
        return exp.Paren(this=argument)
    return argument


def _with_modifiers(built: exp.Expr, call: WrittenCall) -> exp.Expr:
    """Put DISTINCT and ORDER BY of the written call into the aggregate that it became."""
    if not call.distinct and call.order is None:
        return built
    target = built.this if isinstance(built, exp.Filter) else built
    arguments = list(target.expressions)
    if call.distinct and arguments and not isinstance(arguments[0], exp.Distinct):
        arguments[0] = exp.Distinct(expressions=[arguments[0]])
    if call.order is not None and arguments:
        order = call.order.copy()
        order.set("this", arguments[-1])
        arguments[-1] = order
    target.set("expressions", arguments)
    return built
