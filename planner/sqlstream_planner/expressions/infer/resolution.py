"""What a call gives, as the type oracle says; which type values have in common; and the problem for a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.diagnostics import counted, did_you_mean
from sqlstream_planner.expressions.casts import TypedExpr, common_type, fails
from sqlstream_planner.expressions.constants import TRIED
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.catalogue import Function
from sqlstream_planner.expressions.functions.nullability import nullable
from sqlstream_planner.expressions.functions.refused import why_refused
from sqlstream_planner.expressions.functions.suggestions import sql_text, suggest_cast, suggest_other
from sqlstream_planner.expressions.functions.translate.rewrite import translated_names, translations
from sqlstream_planner.expressions.infer.inference import Inference
from sqlstream_planner.expressions.infer.question import ask
from sqlstream_planner.expressions.oracle import Refused
from sqlstream_planner.expressions.plain_values import instead_of
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.written_calls import written_call

_SHOWN_SIGNATURES = 8
#: What DuckDB says of a call, and what to do about it; the first that is found in its words.
_HELPS = (
    ("must be a constant", "write it as a literal"),
    ("has to be a constant", "write it as a literal"),
    ("explicit cast is required", "CAST them to one type"),
    ("explicit type casts", "CAST the literal to the type that you mean"),
    ("cast", "write CAST(… AS …) to make the types agree"),
)
_NO_MATCH = "No function matches"


def resolved(
    inference: Inference,
    node: exp.Expr,
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
    names: Sequence[str | None] = (),
) -> TypedExpr:
    """What a function gives for some arguments; `nodes` are how they are written, `names` those that some of them have.

    Raises TypeProblem.
    """
    answer = ask(inference, function, typed, nodes, names=names)
    if isinstance(answer, Refused) and answer.value and function.name in TRIED:
        later = ask(inference, function, typed, nodes, texts=False, names=names)
        answer = answer if isinstance(later, Refused) else later  # all such constants are reported at once
    if isinstance(answer, Refused):
        raise refusal(inference, node, function, typed, nodes, answer)
    return TypedExpr(answer, nullable(function.name, typed))


def refusal(
    inference: Inference,
    node: exp.Expr,
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
    answer: Refused,
) -> TypeProblem:
    """The problem with a call that DuckDB refuses."""
    if answer.words.startswith(_NO_MATCH):
        return _no_match(inference, node, function, typed, nodes)
    if "Could not choose a best candidate" in answer.words:
        shown = ", ".join(str(t.type) for t in typed)
        message = f"`{function.name}({shown})` could mean several functions"
        help_ = "CAST the literal to the type that you mean"
        return TypeProblem(node, problems.WRONG_ARGUMENTS, message, _shown(function, typed), help_)
    if answer.text:
        return _wrong_text(node, function, answer)
    if answer.value:
        return TypeProblem(
            node, problems.FAILING_CONSTANT, f"this expression fails with every row: {answer.words}"
        )
    what_to_do = next((help_ for words, help_ in _HELPS if words in answer.words), None)
    return TypeProblem(node, problems.INCOMPATIBLE_TYPES, answer.words, help=what_to_do)


def _no_match(
    inference: Inference,
    node: exp.Expr,
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
) -> TypeProblem:
    name, notes = function.name, _shown(function, typed)
    if not any(o.accepts(len(typed)) for o in function.overloads):
        message = f"`{name}` does not take {counted(len(typed), 'argument')}"
        return TypeProblem(node, problems.WRONG_ARGUMENTS, message, notes)
    shown = ", ".join(str(t.type) for t in typed)

    def fits(casted: Sequence[TypedExpr]) -> bool:
        return not isinstance(ask(inference, function, casted, nodes), Refused)

    help_ = suggest_other(function, typed) or suggest_cast(function, typed, nodes, fits)
    return TypeProblem(node, problems.WRONG_ARGUMENTS, f"no `{name}` takes ({shown})", notes, help_)


def _shown(function: Function, typed: Sequence[TypedExpr]) -> tuple[str, ...]:
    notes = _nearest(function, typed)
    more = len(notes) - _SHOWN_SIGNATURES
    return tuple(notes[:_SHOWN_SIGNATURES] + ([f"… and {more} more"] if more > 0 else []))


def _wrong_text(node: exp.Expr, function: Function, answer: Refused) -> TypeProblem:
    texts = [n for n in node.find_all(exp.Literal) if n.is_string]
    at = next((n for n in texts if n.name in answer.words), node)
    return TypeProblem(
        at,
        problems.INCOMPATIBLE_TYPES,
        f"{sql_text(at)} is no value of the type that {function.name.upper()} makes of it: {answer.words}",
        help="write a value of that type, or CAST the other values to VARCHAR",
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


#: Types that are functions in Spark.
_CASTS = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "timestamp",
)
#: What to write for functions of other systems that have no counterpart of their own.
_ELSEWHERE = {
    "explode": "write CROSS JOIN UNNEST(t.items) AS u (item) after FROM",
    "explode_outer": "write LEFT JOIN UNNEST(t.items) AS u (item) ON TRUE after FROM",
    "struct": "name its fields: NAMED_STRUCT('x', a, 'y', b) or {'x': a, 'y': b}",
    "approx_distinct": "write COUNT(DISTINCT x)",
    "months_between": "DATE_DIFF('month', b, a) counts months, DATE_SUB('month', b, a) whole ones",
    **{name: f"write CAST(x AS {name.upper()})" for name in _CASTS},
    "bitand": "write a & b",
    "bitor": "write a | b",
    "bitxor": "write XOR(a, b)",
    "bitnot": "write ~a",
    "hash_code": "HASH(x) is DuckDB's; MD5(x) is the same in all systems",
    "format_number": "FORMAT('{:,.2f}', x) is DuckDB's",
    "group_id": "GROUP_ID() is for a SELECT with GROUP BY GROUPING SETS (…)",
    "json_agg": "write JSON_GROUP_ARRAY(x)",
    "jsonb_agg": "write JSON_GROUP_ARRAY(x)",
    "json_object_agg": "write JSON_GROUP_OBJECT(k, v)",
    "jsonb_object_agg": "write JSON_GROUP_OBJECT(k, v)",
    "convert_from": "write DECODE(x): the text of bytes in UTF-8",
    "convert_to": "write ENCODE(x): the bytes of a text in UTF-8",
    "get_byte": "write TO_HEX(x[2:2]): the second byte as hexadecimal digits",
    "make_interval": "write INTERVAL '3' DAY, or TO_DAYS(n), TO_HOURS(n) and so on, which can be added",
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
    reason = why_refused(name)
    if reason is not None:
        message = f"`{name}` is refused: {reason}"
        return TypeProblem(node, problems.UNSUPPORTED_EXPRESSION, message)
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


def joined(node: exp.Expr, types: Sequence[TypedExpr], what: str, *, as_list: bool = False) -> SqlType:
    """The one type that all of `what` can have. Raises TypeProblem."""
    found = common_type(types, as_list=as_list)
    if found is None:
        shown = ", ".join(dict.fromkeys(str(t.type) for t in types))
        message = f"{what} mixes {shown}, which have no common type"
        raise TypeProblem(node, problems.INCOMPATIBLE_TYPES, message, help="CAST them to one type")
    for typed in types:
        check_text(node, typed, found, what)
    return found


def check_text(node: exp.Expr, typed: TypedExpr, type_: SqlType, what: str) -> None:
    """Raise TypeProblem if `typed` is a text inside `node` that `what` makes a value of `type_`, and can't."""
    text = typed.literal
    if not isinstance(text, str) or not fails(text, type_):
        return
    at = next((n for n in node.find_all(exp.Literal) if n.is_string and n.name == text), node)
    raise TypeProblem(
        at,
        problems.INCOMPATIBLE_TYPES,
        f"'{text}' is no {type_}, which {what} makes of it",
        help=f"{instead_of(type_)}, or CAST the other values to VARCHAR",
    )


def known_function(name: str) -> Function:
    """A function that is there for certain."""
    function = catalogue.lookup(name)
    assert function is not None, name
    return function
