"""Math, conditional and conversion functions of Flink and Spark."""

from __future__ import annotations

from sqlstream_planner.expressions.functions.translate.entry import FLINK, SPARK, entry

MATH = (
    entry("LOG(x)", "ln(x)", "natural logarithm (DuckDB: base 10); LOG(base, x) is the same everywhere"),
    entry("TRUNCATE(x)", "trunc(x)", "without the fraction", FLINK),
    entry("TRUNCATE(x, places)", "trunc(x, places)", "cut after a number of places", FLINK),
    entry("BROUND(x, places)", "round_even(x, places)", "rounded, half to even", SPARK),
    entry("E()", "exp(1)", "Euler's number"),
    entry("LOG1P(x)", "ln(1 + x)", "natural logarithm of 1 + x", SPARK),
    entry("EXPM1(x)", "(exp(x) - 1)", "exponential less 1", SPARK),
    entry("SHIFTLEFT(x, bits)", "(x << bits)", "shifted to the left", SPARK),
    entry("SHIFTRIGHT(x, bits)", "(x >> bits)", "shifted to the right", SPARK),
    entry("BIT_GET(x, position)", "((x >> position) & 1)", "one bit, counted from the right, from 0", SPARK),
    entry("NEGATIVE(x)", "(-x)", "the negation", SPARK),
    entry("POSITIVE(x)", "(+x)", "the number itself", SPARK),
    entry(
        "PMOD(a, b)",
        "CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
        "the rest of a division, 0 or more if b is more than 0; NULL if b is 0",
        SPARK,
    ),
    entry("NANVL(a, b)", "CASE WHEN isnan(a) THEN b ELSE a END", "a, or b if it is NaN", SPARK),
    entry("ISNULL(a)", "(a IS NULL)", "whether a is NULL", SPARK),
    entry("ISNOTNULL(a)", "(a IS NOT NULL)", "whether a is not NULL", SPARK),
    entry("EQUAL_NULL(a, b)", "(a IS NOT DISTINCT FROM b)", "whether both are equal, or both NULL", SPARK),
    entry("ZEROIFNULL(x)", "coalesce(x, 0)", "x, or 0 if it is NULL", SPARK),
    entry("NULLIFZERO(x)", "nullif(x, 0)", "x, or NULL if it is 0", SPARK),
    entry("IFNULL(a, b)", "coalesce(a, b)", "a, or b if it is NULL"),
    entry("NVL(a, b)", "coalesce(a, b)", "a, or b if it is NULL", SPARK),
    entry("NVL2(a, b, c)", "CASE WHEN a IS NOT NULL THEN b ELSE c END", "b if a is not NULL, else c", SPARK),
    entry(
        "IF(condition, a, b)", "CASE WHEN condition THEN a ELSE b END", "a if the condition is true, else b"
    ),
)
