"""Each function that the pages list can be called in some form, and an aggregate without arguments is told so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.connectors.registry import REGISTERED
from sqlstream_planner.aggregates import registry
from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.sql.parse import parse_file
from tests.planner.expressions.catalogue_calls import calls
from tests.planner.expressions.typing_referee import COLUMNS

PAGE = Path(__file__).parents[3] / "docs/functions/duckdb.md"
TABLE = (
    f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())}) "
    "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
)
_SIZED = "CAST([db, db, db] AS DOUBLE[3])"
_ENUM = "CAST(vc AS ENUM('a', 'b'))"
_BITS = "CAST('101' AS BIT)"
_SHAPE = "st_geomfromwkb(bl)"
_ROW = "ROW(i4, i8)"
#: Calls with arguments that the search over signatures does not think of, and of types that no column can have.
CALLS = {
    **dict.fromkeys(
        ("aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"), "(li, 'sum')"
    ),
    **dict.fromkeys(
        ("array_append", "array_push_back", "array_push_front", "list_append", "array_prepend"), "(li, 1)"
    ),
    **dict.fromkeys(("enum_code", "enum_first", "enum_last", "enum_range"), f"({_ENUM})"),
    **dict.fromkeys(
        ("json_transform", "json_transform_strict", "from_json", "from_json_strict"), "(js, '[\"INT\"]')"
    ),
    **dict.fromkeys(("list_bool_and", "list_bool_or"), "(lb)"),
    **dict.fromkeys(
        ("st_asbinary", "st_asgeojson", "st_astext", "st_aswkb", "st_aswkt", "st_crs"), f"({_SHAPE})"
    ),
    **dict.fromkeys(("struct_contains", "struct_has", "struct_indexof", "struct_position"), f"({_ROW}, 1)"),
    "array_cross_product": f"CAST(array_cross_product({_SIZED}, {_SIZED}) AS DOUBLE[])",
    "bit_position": f"({_BITS}, {_BITS})",
    "enum_range_boundary": f"({_ENUM}, {_ENUM})",
    "get_bit": f"({_BITS}, 1)",
    "histogram_exact": "(i4, [1, 2])",
    "list_prepend": "(1, li)",
    "map_concat": "(mp, mp)",
    "map_contains_entry": "(mp, 'a', 1)",
    "map_contains_value": "(mp, 1)",
    "map_from_entries": "(map_entries(mp))",
    "md5_number": "CAST(md5_number(vc) AS STRING)",
    "row_to_json": "(st)",
    "set_bit": f"CAST(set_bit({_BITS}, 1, 1) AS STRING)",
    "split_part": "(vc, ',', 1)",
    "st_geomfromgeojson": "st_astext(st_geomfromgeojson(vc))",
    "st_geomfromwkb": f"st_astext({_SHAPE})",
    "st_intersects_extent": f"({_SHAPE}, {_SHAPE})",
    "st_setcrs": f"st_astext(st_setcrs({_SHAPE}, 'EPSG:4326'))",
    "struct_concat": "(st, {'c': 1})",
    "struct_keys": "(st)",
    "struct_extract": "(st, 'a')",
    "struct_extract_at": "(st, 1)",
    "struct_insert": "(st, c := 1)",
    "struct_update": "(st, a := 1)",
    "switch": "(i4, MAP{1: 'a'})",
    "vertex_extract": f"({_SHAPE}, 'x')",
}
_ARGUMENTS = (
    "i4",
    "vc",
    "li",
    "db",
    "i4, i8",
    "vc, vc",
    "db, 0.5",
    "vc, ','",
    "i4, 3",
    "bo",
    "ts",
    "mp",
    "js, '$.a'",
    "",
)
_LAMBDAS = ("li, lambda x: x > 1", "li, lambda x, y: x + y")


def refusal(expression: str) -> str | None:
    """Why the planner refuses an expression over the table; None if it does not."""
    text = f"{TABLE}CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT {expression} AS z FROM t;"
    try:
        script = parse_file(text, file="f.sql")
        bind_script(script, read_catalog(script, REGISTERED.descriptors))
    except DiagnosticError as error:
        return str(error)
    return None


def forms(name: str) -> Iterator[str]:
    """Calls of a function, those first that are most likely to be right."""
    if name in CALLS:
        yield CALLS[name] if name in CALLS[name] else f"{name}{CALLS[name]}"
        return
    if catalogue.is_window_function(name):
        yield from (f"{name}({a}) OVER (ORDER BY ts)" for a in ("", "i4", "i4, 2", "2"))
    function = catalogue.lookup(name)
    for overload in function.overloads if function is not None else ():
        yield from calls(function, overload)[:2] if function is not None else ()
    yield from (f"{name}({a})" for a in (*_ARGUMENTS, *_LAMBDAS))


def listed() -> list[str]:
    """The names on the page, of the collations one."""
    table = PAGE.read_text(encoding="utf-8").partition("## Names")[2].partition("\n## ")[0]
    names = [n for row in re.findall(r"^\| \w \| (.*) \|$", table, re.M) for n in row.split(", ")]
    return [n for n in names if not n.startswith("icu_collate_") or n == "icu_collate_de"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(8))
def test_every_function_of_the_page_can_be_called(part: int) -> None:
    names = listed()
    assert len(names) > 400
    refused = {name for name in names[part::8] if all(refusal(call) for call in forms(name))}
    assert refused == set()


def test_an_aggregate_of_nothing_is_told_so() -> None:
    """APPROX_TOP_K() was an internal error."""
    for name in sorted(registry.names()):
        for arguments in ("", "*"):
            refusal(f"{name}({arguments})")
    assert "`approx_top_k` does not take 0 arguments" in str(refusal("APPROX_TOP_K()"))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("array_distance(ld, ld)", "write list_… for array_…"),
        ("variant_typeof(i4)", "a value is kept with one type"),
        ("union_tag(i4)", "a value is kept with one type"),
        ("index_key(st, 'a')", "it is a part of DuckDB's own machinery"),
    ],
)
def test_what_can_be_called_in_no_form_says_why(call: str, reason: str) -> None:
    assert reason in str(refusal(call))
    assert call.partition("(")[0] not in listed()
