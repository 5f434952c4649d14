"""Aggregate functions of Flink and Spark. DISTINCT, ORDER BY and FILTER of the call stay."""

from __future__ import annotations

from sqlstream_planner.functions.translate.entry import FLINK, SPARK, entry

AGGREGATES = (
    entry("LISTAGG(x)", "string_agg(x, ',')", "values as text with commas between, NULLs left out", FLINK),
    entry("LISTAGG(x, separator)", "string_agg(x, separator)", "values as text, NULLs left out"),
    entry(
        "COLLECT(x)",
        "list(x) FILTER (WHERE x IS NOT NULL)",
        "all values but NULL (Flink gives a MULTISET, here it is an array)",
        FLINK,
    ),
    entry("COLLECT_LIST(x)", "list(x) FILTER (WHERE x IS NOT NULL)", "all values but NULL", SPARK),
    entry(
        "COLLECT_SET(x)",
        "list(DISTINCT x) FILTER (WHERE x IS NOT NULL)",
        "different values, in any order",
        SPARK,
    ),
    entry(
        "FIRST_VALUE(x)", "first(x) FILTER (WHERE x IS NOT NULL)", "the first value that is not NULL", FLINK
    ),
    entry("LAST_VALUE(x)", "last(x) FILTER (WHERE x IS NOT NULL)", "the last value that is not NULL", FLINK),
    entry("EVERY(condition)", "bool_and(condition)", "whether all are true"),
    entry("SOME(condition)", "bool_or(condition)", "whether any is true", SPARK),
    entry("PERCENTILE(x, share)", "quantile_cont(x, share)", "the interpolated value at a share from 0 to 1"),
    entry("VAR(x)", "var_samp(x)", "sample variance"),
)
