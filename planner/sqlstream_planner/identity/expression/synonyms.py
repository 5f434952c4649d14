"""Names of functions that are one function.

Only what DuckDB's own list of functions says is an alias (tests/identity/test_expression_form.py compares), and
two names of Flink's and Spark's. Functions that are translated under their name are none of these: what
they mean is what they are written as.
"""

from __future__ import annotations

from collections.abc import Mapping

_GROUPS = (
    ("arg_max", "argmax", "max_by"),
    ("arg_min", "argmin", "min_by"),
    ("avg", "mean"),
    ("ceil", "ceiling"),
    ("count_if", "countif"),
    ("gcd", "greatest_common_divisor"),
    ("hex", "to_hex"),
    ("strpos", "instr"),
    ("kahan_sum", "fsum", "sumkahan"),
    ("lcm", "least_common_multiple"),
    ("length", "len", "char_length", "character_length"),
    ("list", "array_agg"),
    ("list_aggregate", "array_aggr", "array_aggregate", "list_aggr", "aggregate"),
    ("list_concat", "array_concat", "list_cat", "array_cat"),
    ("list_contains", "list_has", "array_contains", "array_has"),
    ("list_extract", "list_element"),
    ("list_filter", "array_filter", "filter"),
    ("list_has_all", "array_has_all"),
    ("list_has_any", "array_has_any"),
    ("list_reduce", "array_reduce", "reduce"),
    ("list_resize", "array_resize"),
    ("list_reverse_sort", "array_reverse_sort"),
    ("list_slice", "array_slice"),
    ("list_transform", "list_apply", "array_apply", "array_transform"),
    ("list_unique", "array_unique"),
    ("list_value", "list_pack"),
    ("list_where", "array_where"),
    ("list_zip", "array_zip"),
    ("lower", "lcase"),
    ("power", "pow"),
    ("quantile_disc", "quantile"),
    ("stddev_samp", "stddev"),
    ("string_split_regex", "str_split_regex", "regexp_split_to_array"),
    ("substring", "substr"),
    ("suffix", "ends_with"),
    ("unhex", "from_hex"),
    ("unicode", "ord"),
    ("upper", "ucase"),
    ("var_samp", "variance"),
)

#: A lower-case name -> the name that stands for it in forms.
SYNONYMS: Mapping[str, str] = {name: group[0] for group in _GROUPS for name in group[1:]}
