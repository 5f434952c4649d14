"""Functions on arrays and maps of Flink and Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.expressions.functions.translate.entry import (
    FLINK,
    SPARK,
    Context,
    call,
    entry,
    literal_text,
    text,
)
from sqlstream_planner.logical.expressions import raw, substitute


def _array(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr:
    return exp.Array(expressions=list(arguments))


def _joined(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr:
    """Texts of an array in a row; array_to_string takes no separator that differs from row to row."""
    array, separator, *null_text = arguments
    conditions = " AND ".join(f'"{name}" IS NOT NULL' for name in ("s", "n")[: 1 + len(null_text)])
    constant = separator.find(exp.Column) is None
    texts = '"a"'
    if null_text:
        texts = 'list_transform("a", lambda __e: coalesce(CAST(__e AS VARCHAR), "n"))'
    elif not constant:
        texts = (
            'list_filter(list_transform("a", lambda __e: CAST(__e AS VARCHAR)), lambda __t: __t IS NOT NULL)'
        )
    joined = f'array_to_string({texts}, "s")'
    if not constant:
        behind = f"list_reduce({texts}, lambda __l, __r: __l || \"s\" || __r, '')"
        joined = f'substring({behind}, length("s") + 1)'
    parts = dict(zip(("a", "s", "n"), (array, separator, *null_text), strict=False))
    return substitute(
        raw(f"CASE WHEN {conditions} THEN {joined} END"), {n: e.copy() for n, e in parts.items()}
    )


def _named_struct(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    names = [literal_text(name) for name in arguments[0::2]]
    if len(arguments) % 2 or not arguments or any(name is None for name in names):
        raise context.refuse("NAMED_STRUCT takes pairs of a literal name and a value")
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(name), expression=value)
        for name, value in zip(names, arguments[1::2], strict=True)
    ]
    return call("struct_pack", *fields)


def _transform(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    array, function = arguments
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1:
        raise context.refuse(
            "TRANSFORM with positions, which Spark counts from 0",
            "write LIST_TRANSFORM(array, (x, i) -> …), which counts from 1",
        )
    return call("list_transform", array, function)


def _array_sort(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr | None:
    array, ascending = arguments
    if not isinstance(ascending, exp.Boolean):
        return None
    order = ("ASC", "NULLS FIRST") if ascending.this else ("DESC", "NULLS LAST")
    return call("list_sort", array, *(text(word) for word in order))


COLLECTIONS = (
    entry("ARRAY(...)", "[a, b, …]", "an array of its arguments", SPARK, _array),
    entry(
        "ARRAY_DISTINCT(array)",
        "list_filter(array, lambda e, i: list_position(array, e) = i)",
        "without repetition, in the order of first appearance (DuckDB: in any order, without NULL)",
    ),
    entry(
        "ARRAY_JOIN(array, separator)",
        "CASE WHEN separator IS NOT NULL THEN array_to_string(array, separator) END",
        "elements as text, NULLs left out; NULL where an argument is",
        builder=_joined,
    ),
    entry(
        "ARRAY_JOIN(array, separator, null_text)",
        "CASE WHEN separator IS NOT NULL AND null_text IS NOT NULL THEN "
        "array_to_string(list_transform(array, lambda e: coalesce(CAST(e AS VARCHAR), null_text)), separator) END",
        "elements as text, NULLs as `null_text`; NULL where an argument is",
        builder=_joined,
    ),
    entry(
        "CARDINALITY(collection)", "CAST(cardinality(collection) AS BIGINT)", "how many elements or entries"
    ),
    entry(
        "SIZE(collection)", "CAST(cardinality(collection) AS BIGINT)", "how many elements or entries", SPARK
    ),
    entry("ARRAY_SIZE(array)", "len(array)", "how many elements", SPARK),
    entry(
        "ELEMENT(array)",
        "CASE WHEN len(array) > 1 THEN error('ELEMENT: the array has more than one element') "
        "ELSE list_extract(array, 1) END",
        "the only element, NULL of an empty array; an error if there are more",
        FLINK,
    ),
    entry("SORT_ARRAY(array)", "list_sort(array, 'ASC', 'NULLS FIRST')", "in order, NULLs first", SPARK),
    entry(
        "SORT_ARRAY(array, ascending)",
        "list_sort(array, 'ASC', 'NULLS FIRST')",
        "in order by TRUE or FALSE; NULLs first if ascending, else last",
        SPARK,
        _array_sort,
    ),
    entry(
        "TRANSFORM(array, function)",
        "list_transform(array, lambda)",
        "what a lambda of one parameter gives for each element",
        SPARK,
        _transform,
    ),
    entry("ARRAY_COMPACT(array)", "list_filter(array, lambda e: e IS NOT NULL)", "without the NULLs", SPARK),
    entry("ARRAY_PREPEND(array, element)", "list_prepend(element, array)", "with `element` as the first"),
    entry(
        "ARRAY_SORT(array, ascending)",
        "list_sort(array, 'ASC', 'NULLS FIRST')",
        "in order by TRUE or FALSE; NULLs first if ascending, else last",
        FLINK,
        _array_sort,
    ),
    entry("MAP_UNION(a, b)", "map_concat(a, b)", "the entries of both; of equal keys that of `b`", FLINK),
    entry("ARRAY_MAX(array)", "list_max(array)", "the greatest element"),
    entry("ARRAY_MIN(array)", "list_min(array)", "the least element"),
    entry(
        "ARRAY_REMOVE(array, element)",
        "list_filter(array, lambda e: e IS DISTINCT FROM element)",
        "without the elements that equal `element`",
    ),
    entry(
        "ARRAY_UNION(a, b)",
        "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN "
        "list_filter(list_concat(a, b), lambda e, i: list_position(list_concat(a, b), e) = i) END",
        "elements of both without repetition, in order of first appearance; NULL where an argument is",
    ),
    entry(
        "ARRAY_EXCEPT(a, b)",
        "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN "
        "list_filter(a, lambda e, i: list_position(b, e) IS NULL AND list_position(a, e) = i) END",
        "elements of `a` that are not in `b`, without repetition; NULL where an argument is",
    ),
    entry(
        "ARRAY_INTERSECT(a, b)",
        "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN "
        "list_filter(a, lambda e, i: list_position(b, e) IS NOT NULL AND list_position(a, e) = i) END",
        "elements of `a` that are in `b`, without repetition, in the order of `a`; NULL where an argument is",
    ),
    entry(
        "ARRAY_POSITION(array, element)",
        "CASE WHEN array IS NOT NULL AND element IS NOT NULL "
        "THEN coalesce(list_position(array, element), 0) END",
        "1-based position of the first, 0 if it is not there",
    ),
    entry(
        "ARRAY_REPEAT(element, times)",
        "list_transform(range(times), lambda i: element)",
        "`times` times",
        SPARK,
    ),
    entry(
        "MAP_FROM_ARRAYS(keys, values_)", "map(keys, values_)", "a map of an array of keys and one of values"
    ),
    entry("NAMED_STRUCT(...)", "struct_pack(name := value, …)", "a struct", SPARK, _named_struct),
)
