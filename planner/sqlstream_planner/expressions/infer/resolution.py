"""Which overload takes some arguments, which type some values have in common, and what to say where none does."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import counted, did_you_mean
from sqlstream_planner.expressions import problems
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.call import Call, NotTypableError
from sqlstream_planner.expressions.functions.calls import written_call
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.expressions.functions.constant_arguments import JSON_PATHS, STRPTIMES, check_constants
from sqlstream_planner.expressions.functions.generics import check_part, join, return_type
from sqlstream_planner.expressions.functions.nullability import nullable
from sqlstream_planner.expressions.functions.resolve import Resolved, Unresolved, pattern, resolve
from sqlstream_planner.expressions.functions.suggestions import suggest_cast
from sqlstream_planner.expressions.functions.translate.rewrite import translated_names, translations
from sqlstream_planner.expressions.infer.texts import instead_of, never
from sqlstream_planner.expressions.problems import TypeProblem
from sqlstream_planner.name_lists import names_in

_SHOWN_SIGNATURES = 8
#: Their arguments are made values of the type that they give.
_OF_ONE_TYPE = frozenset({"coalesce", "greatest", "least"})
# Their overloads give a type, but DuckDB then binds another one.
_REBOUND = (
    JSON_PATHS
    | STRPTIMES
    | frozenset(
        names_in(
            """
    quantile_cont median date_part datepart struct_keys regexp_extract regexp_extract_all json_object struct_concat
    arg_min arg_max argmin argmax min_by max_by arg_min_null arg_max_null arg_min_nulls_last
    arg_max_nulls_last
    """
        )
    )
)


def resolved(
    node: exp.Expr,
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
) -> TypedExpr:
    """What a function gives for some arguments; `nodes` are how they are written. Raises TypeProblem."""
    found = resolve(function, typed)
    if isinstance(found, Unresolved):
        raise no_match(node, function, typed, nodes, found)
    for index, argument in enumerate(typed):
        wanted = pattern(found.overload.parameter(index))
        type_ = wanted.type if wanted.form == "type" else found.holes.get(wanted.name)
        if wanted.form in ("type", "hole") and type_ is not None:
            check_text(node, argument, type_, function.name)
    returns = found.returns
    generic = Call(function.name, tuple(typed), tuple(nodes), found.overload.returns)
    try:
        check_part(generic)
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
    if function.name in _OF_ONE_TYPE:
        for argument in typed:
            check_text(node, argument, returns, function.name.upper())
    return TypedExpr(returns, nullable(function.name, typed))


def no_match(
    node: exp.Expr,
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
    found: Unresolved | None = None,
) -> TypeProblem:
    """The problem that no overload takes the arguments; `found` says why if that is known."""
    shown = ", ".join(str(t.type) for t in typed)
    name = function.name
    notes = _nearest(function, typed)
    more = len(notes) - _SHOWN_SIGNATURES
    notes = notes[:_SHOWN_SIGNATURES] + ([f"… and {more} more"] if more > 0 else [])
    if not any(o.accepts(len(typed)) for o in function.overloads):
        message = f"`{name}` does not take {counted(len(typed), 'argument')}"
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


def _nearest(function: Function, typed: Sequence[TypedExpr]) -> list[str]:
    """The signatures for a message: those that take one of the arguments as it is, if there are any, else all."""
    signatures = function.signatures()
    near = [
        signature
        for signature, overload in zip(signatures, function.overloads, strict=True)
        if overload.accepts(len(typed))
        and any(overload.parameter(i) == t.type.kind.value for i, t in enumerate(typed))
    ]
    return near if 0 < len(near) < len(signatures) and len(signatures) > _SHOWN_SIGNATURES else signatures


def _forms(name: str) -> list[str]:
    """How a known function is called."""
    if catalogue.lookup(name) is not None:
        return known_function(name).signatures()
    return [f"{t.name}({', '.join(t.parameters)})" for t in translations(name)]


#: What to write for functions of other systems that have no counterpart of their own.
_ELSEWHERE = {
    "explode": "write CROSS JOIN UNNEST(t.items) AS u (item) behind FROM",
    "explode_outer": "write LEFT JOIN UNNEST(t.items) AS u (item) ON TRUE behind FROM",
    "struct": "name its fields: NAMED_STRUCT('x', a, 'y', b) or {'x': a, 'y': b}",
    "approx_distinct": "write COUNT(DISTINCT x)",
    "months_between": "DATE_DIFF('month', b, a) counts months, DATE_SUB('month', b, a) whole ones",
    "bitand": "write a & b",
    "bitor": "write a | b",
    "bitxor": "write XOR(a, b)",
    "bitnot": "write ~a",
    "hash_code": "HASH(x) is DuckDB's; MD5(x) is the same in all systems",
    "format_number": "FORMAT('{:,.2f}', x) is DuckDB's",
    "to_char": "write DATE_FORMAT(time, 'yyyy-MM-dd')",
    "json_agg": "ARRAY_AGG gives an array; there are no JSON aggregates yet",
    "jsonb_agg": "ARRAY_AGG gives an array; there are no JSON aggregates yet",
    "json_arrayagg": "ARRAY_AGG gives an array; there are no JSON aggregates yet",
    "grouping__id": "write GROUPING_ID(a, b)",
    "grouping": "GROUPING(k) can stand in a SELECT with GROUP BY ROLLUP (k)",
    "grouping_id": "GROUPING_ID(k) can stand in a SELECT with GROUP BY ROLLUP (k)",
}


def unknown_function(node: exp.Expr, name: str) -> TypeProblem:
    """The problem that there is no such function, with the name that comes near."""
    forms = [f"{t.name}({', '.join(t.parameters)})" for t in translations(name)]
    if forms:
        given = written_call(node)
        count = f" {len(given.arguments)}" if given is not None else " these"
        plural = "" if count == " 1" else "s"
        return TypeProblem(
            node, problems.WRONG_ARGUMENTS, f"`{name}` does not take{count} argument{plural}", tuple(forms)
        )
    if name in _ELSEWHERE:
        return TypeProblem(
            node, problems.UNKNOWN_FUNCTION, f"there is no function `{name}`", help=_ELSEWHERE[name]
        )
    near = did_you_mean(name, [*catalogue.names(), *translated_names()])
    notes = tuple(_forms(near)[:_SHOWN_SIGNATURES]) if near else ()
    return TypeProblem(
        node,
        problems.UNKNOWN_FUNCTION,
        f"there is no function `{name}`",
        notes,
        f"did you mean `{near}`?"
        if near
        else "docs/functions.md lists the functions of DuckDB, Flink and Spark",
    )


def joined(node: exp.Expr, types: Sequence[TypedExpr], what: str, *, keep_literals: bool = False) -> SqlType:
    """The one type that all of `what` can have. Raises TypeProblem."""
    try:
        found = join(types, what, keep_literals=keep_literals)
    except NotTypableError as reason:
        raise TypeProblem(
            node, problems.INCOMPATIBLE_TYPES, str(reason), help="CAST them to one type"
        ) from None
    for typed in types:
        check_text(node, typed, found, what)
    return found


def check_text(node: exp.Expr, typed: TypedExpr, type_: SqlType, what: str) -> None:
    """Raise TypeProblem if `typed` is a text inside `node` that `what` makes a value of `type_`, and can't."""
    text = typed.literal
    if not isinstance(text, str) or not never(text, type_):
        return
    at = next((n for n in node.find_all(exp.Literal) if n.is_string and n.name == text), node)
    raise TypeProblem(
        at,
        problems.INCOMPATIBLE_TYPES,
        f"'{text}' is no {type_}, which {what} makes of it",
        help=f"{instead_of(type_)}, or CAST the other values to VARCHAR",
    )


def _overridden(name: str, found: Resolved) -> bool:
    return name in _REBOUND and found.returns is not None and found.returns.kind is not Kind.UNKNOWN


def known_function(name: str) -> Function:
    """A function that is there for certain."""
    function = catalogue.lookup(name)
    assert function is not None, name
    return function
