"""The answers that come with the package, by the installed DuckDB: `python -m tests.planner.expressions.first_answers`.

They are those of usual expressions over columns of usual types, so that most files are checked without DuckDB even when
nothing has been kept yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import duckdb

import sqlstream.type_oracle
from sqlstream.type_oracle.duckdb_types import DuckDbTypes
from sqlstream.type_oracle.remembered import RememberedTypes
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.expressions import oracle
from sqlstream_planner.expressions.infer import infer
from tests.planner.expressions.typing_referee import parse

FILE = Path(sqlstream.type_oracle.__file__).parent / f"duckdb-{duckdb.__version__}.json"

NUMBERS = {
    "i2": "SMALLINT",
    "i4": "INTEGER",
    "i8": "BIGINT",
    "hu": "HUGEINT",
    "db": "DOUBLE",
    "fl": "FLOAT",
    "dc": "DECIMAL(10,2)",
    "dl": "DECIMAL(38,2)",
}
TIMES = {"da": "DATE", "ts": "TIMESTAMP", "tz": "TIMESTAMP WITH TIME ZONE", "iv": "INTERVAL"}
OTHERS = {
    "bo": "BOOLEAN",
    "vc": "VARCHAR",
    "ti": "TIME",
    "js": "JSON",
    "lv": "VARCHAR[]",
    "uu": "UUID",
    "bl": "BLOB",
}
TYPES = NUMBERS | TIMES | OTHERS
SMALL = (1, 10, 100, 200, 256, 1000, 10000)
LARGER = (
    50000,
    100000,
    10**6,
    10**7,
    10**8,
    10**9,
    3 * 10**9,
    10**10,
    10**11,
    10**12,
    10**13,
    10**15,
    10**18,
)
DECIMALS = [f"{'1' * whole}.{'5' * places}" for whole in (1, 2, 3) for places in (1, 2, 3)]
OF_ANY = ("count({x})", "min({x})", "max({x})", "any_value({x})", "list({x})", "array_agg({x})")
OF_NUMBERS = (
    "sum({x})",
    "avg({x})",
    "stddev({x})",
    "median({x})",
    "abs({x})",
    "round({x})",
    "round({x}, 2)",
    "floor({x})",
    "ceil({x})",
    "-{x}",
    "min({x} * 0.9)",
    "max({x} * 0.9)",
    "sum(-{x})",
)
OF_TEXTS = (
    "upper({x})",
    "lower({x})",
    "trim({x})",
    "length({x})",
    "substring({x}, 1, 2)",
    "{x} LIKE 'a%'",
    "{x} || 'a'",
    "concat({x}, {x})",
    "replace({x}, {x}, {x})",
    "md5({x})",
    "string_agg({x}, ',')",
)
OVER = ("row_number()", "rank()", "dense_rank()", "ntile(4)")
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


def expressions() -> Iterator[str]:
    """Over columns that are called as in TYPES; DuckDB refuses some, of which nothing is kept."""
    for number in (*SMALL, *LARGER):
        yield from (f"{number}", f"-{number}")
        yield from (f"{x} = {number}" for x in NUMBERS)
    for number, x in product(SMALL, NUMBERS):
        yield from (f"{x} {operator} {number}" for operator in "+-*/%")
        yield from (f"{number} {operator} {x}" for operator in "+-*/")
    for decimal, x in product((*DECIMALS, "1e3"), NUMBERS):
        yield from (f"{x} * {decimal}", f"{x} + {decimal}", f"{x} / {decimal}", f"{x} > {decimal}")
    for x in TYPES:
        yield from (
            f"CASE WHEN bo THEN {x} ELSE 0 END",
            f"CASE WHEN bo THEN 1 ELSE {x} END",
            f"coalesce({x}, 0)",
        )
        yield from (f"CAST({x} AS {TYPES[y]})" for y in TYPES)
        yield from (f"{x} = {y}" for y in TYPES)
        yield from (f"{x} {operator} {y}" for y in NUMBERS | TIMES for operator in "+-*/%")
        yield from (form.format(x=x) for form in OF_ANY)
        yield from (
            f"{over}({x}) OVER (ORDER BY ts)" for over in ("lag", "lead", "first_value", "last_value")
        )
        yield f"{x} = '2024-01-01'"
    yield from (form.format(x=x) for form, x in product(OF_NUMBERS, NUMBERS))
    yield from (form.format(x="vc") for form in OF_TEXTS)
    yield from (f"{over} OVER (ORDER BY ts)" for over in OVER)
    yield "count(*)"
    for unit, x in product(UNITS, TIMES):
        yield from (f"date_trunc('{unit}', {x})", f"EXTRACT({unit} FROM {x})", f"{unit}({x})")
        yield from (f"date_diff('{unit}', {x}, {y})" for y in TIMES)


def answers() -> dict[str, Any]:
    """What the installed DuckDB says."""
    wanted = RememberedTypes(DuckDbTypes(), None)
    before = oracle.current()
    oracle.use(wanted)
    scope = {name: (parse_type(text), True) for name, text in TYPES.items()}
    try:
        for expression in expressions():
            infer(parse(expression), scope, lambda _: None, aggregates=True, windows=True)
    finally:
        oracle.use(before)
    kept = wanted.kept()
    types, functions = (dict(sorted(kept[name].items())) for name in ("types", "functions"))
    return {"types": types, "constants": [], "functions": functions}


def written() -> str:
    """The content of the file."""
    return json.dumps(answers(), indent=0, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    oracle.use(RememberedTypes(DuckDbTypes(), None))
    FILE.write_text(written(), encoding="utf-8")
