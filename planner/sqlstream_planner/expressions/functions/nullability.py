"""Which calls can give NULL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.text.name_lists import names_in

# With no NULL among the arguments these never give NULL.
_NEVER_NULL = frozenset(
    names_in(
        """
    abs upper lower length char_length character_length concat trim ltrim rtrim lpad rpad
    replace reverse repeat left right substring substr strpos instr position starts_with ends_with
    prefix suffix contains regexp_matches regexp_full_match regexp_replace round ceil ceiling floor
    trunc sign greatest least hash md5 sha1 sha256 to_json json_object json_array list_value list_pack
    string_split str_split struct_pack date_trunc year month day hour minute second dayofweek dayofyear
    week quarter epoch epoch_ms epoch_us strftime to_hex hex encode list_contains array_contains len
    ascii chr add subtract multiply + - * || & | xor ~ << >> ~~ !~~ ~~* !~~* @ typeof to_timestamp
    make_timestamp count count_star approx_count_distinct regr_count row_number rank dense_rank
    cume_dist percent_rank ntile datediff date_diff map list_distinct list_sort list_concat
    split_part date_add
    """
    )
)
# NULL of an infinite time.
_OF_FINITE_TIMES = frozenset(
    names_in(
        """
    year month day hour minute second dayofweek dayofyear week quarter epoch epoch_ms epoch_us datediff date_diff
    """
    )
)
#: Types with infinite values.
INFINITE_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
# These skip NULL arguments: the result is NULL only if all are.
_SKIP_NULLS = frozenset({"coalesce", "ifnull", "greatest", "least"})
# These are not NULL, whatever the arguments are.
COUNTS = frozenset(
    names_in(
        """
    count count_star approx_count_distinct regr_count concat typeof hash struct_pack list_value
    list_pack json_object json_array row_number rank dense_rank rank_dense cume_dist percent_rank ntile
    """
    )
)


def nullable(name: str, typed: Sequence[TypedExpr]) -> bool:
    """Whether a call of `name` with these arguments can be NULL."""
    if name in COUNTS:
        return False
    if name in _SKIP_NULLS:
        return all(t.nullable for t in typed)
    if name == "concat_ws":  # skips NULLs too, but its separator can't be one
        return typed[0].nullable
    if name in _OF_FINITE_TIMES and any(t.type.kind in INFINITE_TIMES for t in typed):
        return True
    return name not in _NEVER_NULL or any(t.nullable for t in typed)
