"""Calls of every function of the catalogue, with arguments that are likely to be forgotten, and a table for them.

The columns of `ROWS` are those of tests/planner/expressions/typing_referee.py; each has an ordinary value, then extremes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import duckdb

from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.expressions.oracle import Signature
from tests.planner.expressions.typing_referee import COLUMNS

ROWS: dict[str, tuple[str, ...]] = {
    "bo": ("TRUE", "FALSE", "TRUE", "FALSE", "FALSE", "TRUE"),
    "i1": ("1", "-128", "127", "0", "-1", "42"),
    "i2": ("1", "-32768", "32767", "0", "-1", "42"),
    "i4": ("1", "-2147483648", "2147483647", "0", "-1", "42"),
    "i8": ("1", "-9223372036854775808", "9223372036854775807", "0", "-1", "9007199254740993"),
    "hu": (
        "1",
        f"-{'9' * 38}",
        "9" * 38,
        "0",
        "'170141183460469231731687303715884105727'",
        "'-170141183460469231731687303715884105728'",
    ),
    "u1": ("1", "255", "0", "2", "128", "3"),
    "u2": ("1", "65535", "0", "2", "32768", "3"),
    "u4": ("1", "4294967295", "0", "2", "2147483648", "3"),
    "u8": ("1", "18446744073709551615", "0", "2", "9223372036854775808", "3"),
    "fl": ("1.5", "'nan'", "'inf'", "'-inf'", "'-0'", "3.4028235e38"),
    "db": ("0.5", "'nan'", "'-inf'", "1.7976931348623157e308", "'-0'", "5e-324"),
    "dc": ("1.50", "-99999999.99", "99999999.99", "0", "-0.01", "0.05"),
    "db38": ("1.5", f"-{'9' * 28}.{'9' * 10}", f"{'9' * 28}.{'9' * 10}", "0", "-0.0000000001", "0.5"),
    "vc": ("'1'", "''", "'ÿ'", "repeat('long ', 300)", "'e\u0301👩\u200d👧 ß\u0130\n\t'", "chr(0) || 'a'"),
    "bl": (
        "'a'::BLOB",
        "''::BLOB",
        "'\\xFF\\x00'::BLOB",
        "'abc'::BLOB",
        "'\\x00'::BLOB",
        "'\\xC3\\xBF'::BLOB",
    ),
    "da": (
        "'2020-01-31'",
        "'0001-01-01'",
        "'9999-12-31'",
        "'1970-01-01'",
        "'infinity'",
        "'290000-12-22 (BC)'",
    ),
    "ti": ("'10:00:00'", "'00:00:00'", "'23:59:59.999999'", "'12:30:00'", "'24:00:00'", "'00:00:00.000001'"),
    "ts": (
        "'2020-01-31 10:00:00.123456'",
        "'0001-01-01'",
        "'9999-12-31 23:59:59.999999'",
        "'1970-01-01'",
        "'infinity'",
        "'290309-12-22 (BC) 00:00:00'",
    ),
    "tz": (
        "'2020-01-31 10:00:00+00'",
        "'0001-01-01'",
        "'9999-12-31 23:59:59.999999+00'",
        "'1970-01-01'",
        "'-infinity'",
        "'294247-01-10 04:00:54.775806+00'",
    ),
    "iv": (
        "'1 day'",
        "'0 days'",
        "'100 years'",
        "'-1 month -3 hours'",
        "'-0.000001 seconds'",
        "'2147483647 months -2147483648 days'",
    ),
    "uu": (*[f"'{'0' * 8}-0000-0000-0000-{'0' * 12}'"] * 3, *[f"'{'f' * 8}-ffff-ffff-ffff-{'f' * 12}'"] * 3),
    "js": (
        "'{\"a\": 1}'",
        "'[]'",
        "'null'",
        "'\"x\"'",
        '\'{"a": {"b": [1, null, -1.5e300]}, "": "ÿ"}\'',
        "'12345678901234567890'",
    ),
    "li": ("[1]", "[]", "[NULL]", "[3, 1, 2, 1]", "[2147483647, NULL, -2147483648]", "[0, 0]"),
    "lv": ("['a']", "[]", "[NULL]", "['', 'ÿ']", "[NULL, '1', '']", "['👩\u200d👧', 'ÿ']"),
    "ld": ("[1.5]", "[]", "[NULL]", "['nan', 'inf']", "['-inf', '-0', '0']", "[1e308, 1e308]"),
    "lb": ("[TRUE]", "[]", "[NULL]", "[FALSE, TRUE]", "[NULL, TRUE]", "[TRUE]"),
    "lf": ("[1.5]", "[]", "[NULL]", "['nan', 'inf']", "['-inf', '-0', '0']", "[3e38, 3e38]"),
    "l8": ("[1]", "[]", "[NULL]", "[9223372036854775807, -9223372036854775808]", "[0, NULL]", "[1, 1]"),
    "ll": ("[[1]]", "[]", "[[]]", "[NULL, [NULL]]", "[[], NULL, [1, 2]]", "[[2], [1]]"),
    "mp": (
        "MAP {'a': 1}",
        "MAP {}",
        "MAP {'': NULL}",
        "MAP {'a': 1, 'b': 2}",
        "MAP {'ÿ': 2147483647}",
        "MAP {'a': NULL, '': 0}",
    ),
    "st": (
        "{'a': 1, 'b': 'x'}",
        "{'a': NULL, 'b': NULL}",
        "{'a': 0, 'b': ''}",
        "{'a': 1, 'b': 'x'}",
        "{'a': -2147483648, 'b': 'ÿ'}",
        "{'a': NULL, 'b': '1'}",
    ),
}

# Arguments for a parameter of each type: first a column, then constants, the oddest last.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "ANY": ("i4", "vc", "li", "js", "da", "st", "mp", "''", "-1", "[]", "1.5", "{'a': 1}", "MAP{}"),
    "T": ("i4", "vc", "0", "''", "[]"),
    "K": ("'k'", "''"),
    "V": ("1", "i4"),
    "ANY[]": ("li", "lv", "[]", "[NULL]", "ll"),
    "T[]": ("li", "lv", "[]", "[NULL]", "ld"),
    "K[]": ("lv", "[]"),
    "V[]": ("li", "[]"),
    "T[][]": ("ll", "[]", "[[]]"),
    "MAP(K, V)": ("mp", "MAP{}"),
    "STRUCT": ("st",),
    "LAMBDA": ("lambda x: x", "lambda x, y: x"),
    "BOOLEAN": ("bo", "TRUE"),
    "TINYINT": ("i1",),
    "SMALLINT": ("i2",),
    "INTEGER": ("i4", "0", "-1", "2147483647"),
    "BIGINT": ("i8", "0", "-1", "9223372036854775807"),
    "HUGEINT": ("hu", "99999999999999999999"),
    "UTINYINT": ("u1",),
    "USMALLINT": ("u2",),
    "UINTEGER": ("u4",),
    "UBIGINT": ("u8",),
    "FLOAT": ("fl", "CAST('nan' AS FLOAT)"),
    "DOUBLE": ("db", "0.0", "CAST('inf' AS DOUBLE)", "1e308"),
    "DECIMAL": ("dc", "db38", "0.00", "-12345.678"),
    "VARCHAR": ("vc", "''", "'ÿ'", "'year'", "'%n'", "'%Y %z'", "'$.*'", "'(a)(b)'", "'{\"a\": [1]}'"),
    "BLOB": ("bl",),
    "DATE": ("da", "DATE '9999-12-31'"),
    "TIME": ("ti",),
    "TIMESTAMP": ("ts", "TIMESTAMP '0001-01-01 00:00:00'"),
    "TIMESTAMP WITH TIME ZONE": ("tz",),
    "INTERVAL": ("iv", "INTERVAL '0' DAY"),
    "UUID": ("uu",),
    "JSON": ("js",),
    "DOUBLE[]": ("ld", "[]"),
    "FLOAT[]": ("lf", "[]"),
    "BOOLEAN[]": ("lb",),
    "BIGINT[]": ("l8", "[]"),
    "VARCHAR[]": ("lv", "['year']", "[]", "['a', 'b']"),
}
#: How big the answer of these is depends on a number, which must be small.
_SIZED = frozenset(
    {
        "approx_top_k",
        "reservoir_quantile",
        "lpad",
        "rpad",
        "repeat",
        "list_resize",
        "array_resize",
        "range",
        "generate_series",
        "bar",
        "equi_width_bins",
    }
)
_SMALL = ("i1", "0", "-1", "3")
_NUMBERS = frozenset({"INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "TINYINT", "SMALLINT"})
#: `apply` is a keyword of ours; POSITION has a grammar of its own; `<->` needs parentheses of its own.
_NOT_CALLED = frozenset({"apply", "position", "<->"})


def functions() -> Iterator[Function]:
    """Every function and every operator that is written between or before its operands."""
    for name in catalogue.every_name():
        function = catalogue.lookup(name)
        assert function is not None, name
        collation = name.startswith("icu_collate_") and name != "icu_collate_de"
        if function.kind is not FunctionKind.WINDOW and name not in _NOT_CALLED and not collation:
            yield function


def calls(function: Function, overload: Signature) -> list[str]:
    """Calls with columns, each constant in each place, NULL in each place, and each number of arguments."""
    wanted = [*overload.parameters, *([overload.variadic] * 2 if overload.variadic else [])]
    if any(w not in _ARGUMENTS for w in wanted):
        return []
    given = [_arguments(function, w) for w in wanted]
    first, last = [g[0] for g in given], [g[-1] for g in given]
    found = [first, [g[min(1, len(g) - 1)] for g in given], last]
    for place, w in enumerate(wanted):
        for argument in (*given[place], "NULL") if w != "LAMBDA" else given[place]:
            found += [[*base[:place], argument, *base[place + 1 :]] for base in (first, last)]
    found.append(["NULL" if w != "LAMBDA" else "lambda x: x" for w in wanted])
    found += [first[:count] for count in range(len(overload.parameters), len(wanted))]
    return list(dict.fromkeys(text for arguments in found if (text := _written(function.name, arguments))))


def _arguments(function: Function, parameter: str) -> tuple[str, ...]:
    if function.name in _SIZED and parameter in _NUMBERS:
        return _SMALL
    if function.name in _SIZED and parameter.startswith("TIMESTAMP"):
        return (f"CAST('2020-01-01 00:00:00' AS {parameter})",)
    return _ARGUMENTS[parameter]


def _written(name: str, arguments: Sequence[str]) -> str | None:
    if name[0].isalpha() and " " not in name:
        return f"{name}({', '.join(arguments)})"
    if len(arguments) == 2:
        return f"(({arguments[0]}) {name} ({arguments[1]}))"
    return f"({name}({arguments[0]}))" if len(arguments) == 1 and not name.endswith("postfix") else None


def some(found: Sequence[str], one_of: int, *, shift: int = 0) -> list[str]:
    """About one of so many, always the same ones for the same `shift`."""
    return [call for call in found if (zlib.crc32(call.encode()) + shift) % one_of == 0]


def database() -> duckdb.DuckDBPyConnection:
    """A DuckDB with the rows in `t`, and in `tn` with one of NULLs behind them."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET memory_limit = '1GB'")
    con.execute(f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())})")
    for number in range(6):
        values = ", ".join(f"({ROWS[name][number]})::{type_}" for name, type_ in COLUMNS.items())
        con.execute(f"INSERT INTO t SELECT {values}")
    con.execute("CREATE TABLE tn AS FROM t")
    con.execute(f"INSERT INTO tn SELECT {', '.join('NULL' for _ in COLUMNS)}")
    return con
