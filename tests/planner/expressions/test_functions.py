"""The catalogue is DuckDB's, and every function of it is typed as DuckDB types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream_operators.plan.types import UNKNOWN, SqlType
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.expressions.oracle import Signature
from sqlstream_planner.sql.problems import TypeProblem
from tests.examples import is_long
from tests.planner.expressions.catalogue_calls import some
from tests.planner.expressions.typing_referee import judged, our_type, parse

ROOT = Path(__file__).parents[3]

# Arguments for a parameter of each type: first a column, then a literal.
SAMPLES: dict[str, tuple[str, ...]] = {
    "ANY": ("i4", "vc", "1", "dc", "da"),
    "T": ("i4", "1", "NULL"),
    "K": ("'k'",),
    "V": ("1",),
    "ANY[]": ("li", "[1, 2]", "lv"),
    "T[]": ("li", "[1, 2]"),
    "K[]": ("lv", "['k']"),
    "V[]": ("li", "[1]"),
    "T[][]": ("ll",),
    "MAP(K, V)": ("mp",),
    "STRUCT": ("st",),
    "TUPLE": ("row(1, 2)",),
    "LAMBDA": ("lambda x: x", "lambda x, y: x"),
    "BOOLEAN": ("bo", "TRUE"),
    "TINYINT": ("i1",),
    "SMALLINT": ("i2",),
    "INTEGER": ("i4", "1"),
    "BIGINT": ("i8", "1"),
    "HUGEINT": ("hu",),
    "UTINYINT": ("u1",),
    "USMALLINT": ("u2",),
    "UINTEGER": ("u4",),
    "UBIGINT": ("u8",),
    "FLOAT": ("fl", "0.5"),
    "DOUBLE": ("db", "0.5", "1"),
    "DECIMAL": ("dc", "db38", "1.5"),
    "VARCHAR": ("vc", "'year'", "NULL"),
    "BLOB": ("bl",),
    "DATE": ("da", "'2020-01-01'"),
    "TIME": ("ti",),
    "TIMESTAMP": ("ts",),
    "TIMESTAMP WITH TIME ZONE": ("tz",),
    "INTERVAL": ("iv", "INTERVAL 1 DAY"),
    "UUID": ("uu",),
    "JSON": ("js",),
    "DOUBLE[]": ("ld", "[0.5]"),
    "FLOAT[]": ("lf", "[0.5]"),
    "BOOLEAN[]": ("lb",),
    "BIGINT[]": ("l8", "[1]"),
    "VARCHAR[]": ("lv", "['year']"),
}


# `apply` is a keyword of our dialect (CROSS APPLY), `position(a, b)` is no DuckDB before it is translated.
NOT_CALLED = ("apply", "position")
# A NULL format leaves DuckDB the choice, which it makes by an order that we do not know.
ODD = ("strftime('2020-01-01', NULL)", "strftime(NULL, '2020-01-01')", "strftime(tz, vc)")


def calls(function: Function, overload: Signature) -> list[str]:
    """Calls of an overload with columns, with literals, and with a mixture."""
    wanted = [*overload.parameters, *([overload.variadic] * 2 if overload.variadic else [])]
    if any(w not in SAMPLES for w in wanted) or function.name in NOT_CALLED:
        return []
    longest = max((len(SAMPLES[w]) for w in wanted), default=1)
    found = []
    for index in range(longest):
        arguments = [SAMPLES[w][min(index, len(SAMPLES[w]) - 1)] for w in wanted]
        found.append(f"{function.name}({', '.join(arguments)})")
        if index and len(wanted) > 1:
            columns_first = [SAMPLES[wanted[0]][0], *arguments[1:]]
            found.append(f"{function.name}({', '.join(columns_first)})")
    if function.kind is FunctionKind.WINDOW:
        found = [f"{call} OVER ()" for call in found]
    return [call for call in dict.fromkeys(found) if call not in ODD]


def every_function() -> list[Function]:
    found = [catalogue.lookup(name) for name in catalogue.names()]
    return [f for f in found if f is not None]


def test_every_function_of_the_catalogue_is_typed_as_duckdb_types_it() -> None:
    differences, bound, unknown = [], 0, set()
    for function in every_function():
        for overload in function.overloads:
            found = calls(function, overload)
            for call in found if is_long() else [*found[:1], *some(found[1:], 3)]:
                ours, theirs, difference = judged(call)
                if difference is not None:
                    differences.append(difference)
                elif isinstance(theirs, SqlType):
                    bound += 1
                    opaque = "row(" in call or "NULL" in call
                    if not opaque and ours == UNKNOWN and theirs != UNKNOWN:
                        unknown.add(function.name)
    assert differences == []
    assert unknown == set()
    assert bound > (5000 if is_long() else 2500)


@pytest.mark.parametrize("kind", [FunctionKind.SCALAR, FunctionKind.AGGREGATE, FunctionKind.WINDOW])
def test_most_functions_can_be_called_with_our_types(kind: FunctionKind) -> None:
    functions = [f for f in every_function() if f.kind is kind]
    callable_ = [f.name for f in functions if any(calls(f, o) for o in f.overloads)]
    assert len(callable_) >= 0.9 * len(functions)


def test_aggregates_and_window_functions_are_told_apart() -> None:
    assert catalogue.is_aggregate("SUM")
    assert catalogue.is_aggregate("string_agg")
    assert not catalogue.is_aggregate("upper")
    assert catalogue.is_window_function("row_number")
    assert not catalogue.is_window_function("sum")


@pytest.mark.parametrize(
    "name", ["now", "CURRENT_TIMESTAMP", "rand", "random", "uuid", "proctime", "localtimestamp", "today"]
)
def test_functions_that_a_replay_would_answer_differently(name: str) -> None:
    assert not catalogue.is_deterministic(name)


@pytest.mark.parametrize("name", ["upper", "sum", "date_trunc", "hash", "md5", "no_such_function"])
def test_functions_that_a_replay_answers_alike(name: str) -> None:
    assert catalogue.is_deterministic(name)


def test_an_unknown_function_is_answered_with_the_nearest_and_its_signatures() -> None:
    problem = our_type(parse("substrin(vc, 1)"))
    assert isinstance(problem, TypeProblem)
    assert problem.code == "TYP001"
    assert problem.help == "did you mean `substring`?"
    assert "substring(VARCHAR, BIGINT) -> VARCHAR" in problem.notes


def test_wrong_types_are_answered_with_signatures_and_a_cast() -> None:
    problem = our_type(parse("upper(i4)"))
    assert isinstance(problem, TypeProblem)
    assert problem.code == "TYP002"
    assert problem.message == "no `upper` takes (INTEGER)"
    assert problem.notes == ("upper(VARCHAR) -> VARCHAR",)
    assert problem.help == "CAST(i4 AS VARCHAR)"


def test_a_wrong_number_of_arguments_says_so() -> None:
    problem = our_type(parse("upper(vc, vc)"))
    assert isinstance(problem, TypeProblem)
    assert problem.message == "`upper` does not take 2 arguments"


def test_importing_the_types_brings_in_nothing_heavy() -> None:
    code = (
        "import sys, sqlstream_planner.expressions.infer, sqlstream_planner.expressions.functions.translate\n"
        "heavy = {'duckdb', 'pyarrow', 'numpy', 'rocksdict', 'pyspark', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    paths = [str(ROOT / "planner"), str(ROOT / "operators")]
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"], check=True)
