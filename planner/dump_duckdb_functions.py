"""Write planner/sqlstream_planner/expressions/functions/data/duckdb_functions.json from the installed DuckDB.

Facts only: name, kind, parameter types, variadic type, return type. Internal functions, collations and
everything that is not a scalar, aggregate or window function is left out. Run after each DuckDB upgrade:

    python planner/dump_duckdb_functions.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

TARGET = (
    Path(__file__).parent
    / "sqlstream_planner"
    / "expressions"
    / "functions"
    / "data"
    / "duckdb_functions.json"
)
INTERNAL = (
    "__",
    "collate_",
    "st_",
    "variant_",
    "enum_",
    "current_",
    "txid_",
    "json_serialize_",
    "json_deserialize_",
    "parse_duckdb_log",
)
_INTERNAL_TEXT = """
add_parquet_key aggregate_state array_value cast_to_type combine combine_aggr constant_or_null
create_sort_key currval finalize getvariable in_search_path is_histogram_other_bin
json_execute_serialized_sql make_type nextval remap_struct replace_type setseed setval sleep_ms
stats to_aggregate_state type_name vector_type vertex_extract write_log alias unpivot_list getenv
timetz_byte_comparable bitstring_byte_comparable bitstring get_bit set_bit bit_position md5_number
union_extract union_tag union_value get_type can_cast_implicitly invoke version
"""
INTERNAL_NAMES = frozenset(_INTERNAL_TEXT.split())


def overloads() -> dict[str, dict[str, list[str]]]:
    """`kind -> name -> ["parameter|parameter|*variadic>return", …]`, sorted."""
    rows: list[tuple[Any, ...]] = (
        duckdb.connect()
        .sql(
            "SELECT function_type, function_name, parameter_types, varargs, return_type "
            "FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'window')"
        )
        .fetchall()
    )
    found: dict[str, dict[str, set[str]]] = {}
    for kind, name, parameters, varargs, returns in rows:
        if name.startswith(INTERNAL) or name in INTERNAL_NAMES:
            continue
        given = [str(p) for p in parameters] + ([f"*{varargs}"] if varargs else [])
        found.setdefault(kind, {}).setdefault(name, set()).add("|".join(given) + ">" + str(returns))
    return {k: {n: sorted(found[k][n]) for n in sorted(found[k])} for k in sorted(found)}


def volatile() -> list[str]:
    """Names of functions whose answer can differ between two calls with the same arguments."""
    rows = (
        duckdb.connect()
        .sql(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE (has_side_effects OR stability <> 'CONSISTENT') AND function_name <> 'error'"
        )
        .fetchall()
    )
    return sorted(name for (name,) in rows)


def document() -> str:
    """The whole data file: aliases with the same overloads share one entry, one entry a line."""
    lines = []
    for kind, by_name in overloads().items():
        shared: dict[tuple[str, ...], list[str]] = {}
        for name, signatures in by_name.items():
            shared.setdefault(tuple(signatures), []).append(name)
        lines += [
            json.dumps([kind, names, list(signatures)], separators=(",", ":"))
            for signatures, names in shared.items()
        ]
    head = json.dumps({"duckdb": duckdb.__version__, "volatile": volatile()}, separators=(",", ":"))
    return "[\n" + ",\n".join([head, *lines]) + "\n]\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(document(), encoding="utf-8")
    print(f"wrote {TARGET} ({TARGET.stat().st_size} bytes)")
