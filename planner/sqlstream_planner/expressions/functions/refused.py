"""Functions of DuckDB's that are refused on purpose, and why: what they give is no function of the row."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlstream_planner.expressions.oracle import Listed
from sqlstream_planner.text.name_lists import names_in


@dataclass(frozen=True, slots=True)
class RefusedFunctions:
    """Functions by their `names` or what their names begin with (`prefixes`), and the `reason` for all of them."""

    reason: str
    names: frozenset[str]
    prefixes: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether a function, by its name in lower case, is one of them."""
        return name in self.names or (bool(self.prefixes) and name.startswith(self.prefixes))


REFUSED = (
    RefusedFunctions(
        "its value depends on the database, the session or the machine that a task happens to run on",
        frozenset(
            names_in(
                """
    alias current_catalog current_database current_query current_role current_schema current_schemas
    current_setting current_user format_pg_type format_type get_block_size getenv getvariable in_search_path
    col_description map_to_pg_oid obj_description session_user shobj_description user version
    """
            )
        ),
        ("has_", "inet_", "pg_"),
    ),
    RefusedFunctions(
        "it is a part of DuckDB's own machinery, and its result may be another one in the next version",
        frozenset(
            names_in(
                """
    add_parquet_key aggregate_state array_value can_cast_implicitly cast_to_type combine combine_aggr
    constant_or_null create_sort_key finalize get_type index_key invoke
    json_copy_strftime_if_date json_copy_strftime_if_timestamp json_deserialize_sql
    json_execute_serialized_sql json_serialize_plan json_serialize_sql make_type parse_duckdb_log_message
    parse_path_hive remap_struct replace_type stats to_aggregate_state type_name unpivot_list vector_type
    bitstring_byte_comparable timetz_byte_comparable variant_bytes_to_variant variant_comparator
    variant_normalize variant_to_parquet_variant
    """
            )
        ),
        ("__",),
    ),
    RefusedFunctions(
        "its bytes depend on the version of the tables for collations",
        frozenset(),
        ("collate_",),
    ),
    RefusedFunctions(
        "it takes arrays of one size, and arrays are kept as lists of any: write list_… for array_…",
        frozenset(
            names_in(
                """
    array_cosine_distance array_cosine_similarity array_distance array_dot_product array_inner_product
    array_negative_dot_product array_negative_inner_product
    """
            )
        ),
    ),
    RefusedFunctions(
        "it takes a UNION or a VARIANT, and a value is kept with one type: write a struct, or JSON",
        frozenset({"union_extract", "union_tag", "union_value"}),
        ("variant_",),
    ),
    RefusedFunctions(
        "APPLY is a word of the grammar (CROSS APPLY): write list_transform",
        frozenset({"apply"}),
    ),
    RefusedFunctions(
        "it makes several rows of one",
        frozenset({"generate_subscripts", "regexp_split_to_table"}),
    ),
)

#: Their names begin as those of functions that depend on the database.
_LIKE_TYPEOF = frozenset({"pg_typeof", "pg_size_pretty"})
#: They answer out of the clock with one argument, and out of their arguments with two.
_ASK_THE_CLOCK = frozenset({"age"})
_ASK_FOR_FEWER_THAN = 2
#: DuckDB says that it has an effect; that it fails is all there is to it.
_FAILS_ONLY = frozenset({"error"})
_TEXT = re.compile("'[^']*'")
_WORD = re.compile(r"[a-z_]\w*")
#: In the definition of a macro: it reads a table, or makes rows.
_READS = frozenset({"select", "from", "unnest"})


def why_refused(name: str) -> str | None:
    """Why a function, by its name in lower case, is refused on purpose; None if it isn't.

    >>> why_refused("getenv")
    'its value depends on the database, the session or the machine that a task happens to run on'
    """
    if name in _LIKE_TYPEOF:
        return None
    return next((refused.reason for refused in REFUSED if refused.has(name)), None)


def asks_the_clock(name: str, arguments: int) -> bool:
    """Whether a call of a function that otherwise goes by its arguments reads the clock."""
    return name in _ASK_THE_CLOCK and arguments < _ASK_FOR_FEWER_THAN


def changes_each_time(name: str, listed: Listed) -> bool:
    """Whether DuckDB says that a function may give another answer for the same arguments."""
    return listed.stability not in ("", "CONSISTENT") and name not in _FAILS_ONLY


def words_of(listed: Listed) -> frozenset[str]:
    """The words of a macro's definition, names of functions among them, without texts."""
    return frozenset(_WORD.findall(_TEXT.sub("", listed.definition.lower())))


def reads_tables(listed: Listed) -> bool:
    """Whether a macro is more than an expression of its arguments."""
    return not words_of(listed).isdisjoint(_READS)
