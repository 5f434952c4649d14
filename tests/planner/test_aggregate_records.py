"""One record a function: each is whole, and adding one touches nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sqlstream_planner
from sqlstream.planning import plan_file
from sqlstream_operators.plan.types import BIGINT, HUGEINT
from sqlstream_planner.aggregates import registry
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.kept_values import holistic
from sqlstream_planner.aggregates.parts import AS_LIST, argument, filter_of, over_distinct
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.logical import Aggregate, AggregateCall, walk
from tests.properties.updating import TABLE, check

_WINDOW = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
#: Each row of `t` that comes changes a row of this.
_UPDATING = "(SELECT k, s, MAX(v) AS v, MIN(d) AS d, MAX(x) AS x, BOOL_OR(b) AS b, MAX(ts) AS ts FROM t GROUP BY k, s)"
SETTINGS = {
    "a window": f"SELECT window_end, k, {{}} FROM {_WINDOW} GROUP BY window_start, window_end, k",
    "append-only": "SELECT k, {} FROM t GROUP BY k",
    "retracting": f"SELECT k, {{}} FROM {_UPDATING} AS q GROUP BY GROUPING SETS ((k), ())",
}
#: One of these a function takes: a number, a truth value, two columns, a share, a separator.
_ARGUMENTS = ("v", "b", "s, v", "x, 0.25")


def _rows() -> list[dict[str, Any]]:
    """Ties, repeated values, NULLs, and a key with nothing but NULLs."""
    numbers: list[Any] = [3, None, 3, -1, 2, 0, 3, 2, None, 2, 5, -1]
    rows = [
        {
            "k": 1 + n % 2,
            "s": ("a", "b", None, "a")[n % 4],
            "v": number,
            "d": "1.50" if n % 3 else None,
            "x": None if number is None else number / 4,
            "b": (True, False, None)[n % 3],
            "ts": f"2024-01-01 00:00:{2 * n:02d}.000",
        }
        for n, number in enumerate(numbers)
    ]
    empty = dict.fromkeys(("s", "v", "d", "x", "b"))
    return [*rows, {"k": 3, **empty, "ts": "2024-01-01 00:00:25.000"}]


def _check(
    folder: Path,
    setting: str,
    calls: Sequence[str],
    rows: list[dict[str, Any]] | None = None,
    *,
    epoch: int = 7,
) -> None:
    """The calls, in small epochs, give what DuckDB gives over all rows."""
    items = ", ".join(f"{call} AS z{n}" for n, call in enumerate(calls))
    once = setting == "a window"  # given once it is over, so that only the end of the input can be compared
    query = SETTINGS[setting].format(items)
    check(
        folder / "p",
        query,
        _rows() if rows is None else rows,
        rows_per_epoch=epoch,
        parallelism=1,
        every=not once,
    )


def _forms(function: AggregateFunction) -> list[str]:
    name, arguments = function.name, _arguments(function.name)
    return [
        f"{name}({arguments})",
        f"{name}({arguments}) FILTER (WHERE v > 2)",
        f"{name}(DISTINCT {arguments}) FILTER (WHERE v > 2)",
    ]


@cache
def _arguments(name: str) -> str:
    """Arguments that a function takes."""
    for arguments in _ARGUMENTS:
        if not _mistakes(SETTINGS["append-only"].format(f"{name}({arguments}) AS z")):
            return arguments
    raise AssertionError(f"{name} takes none of {_ARGUMENTS}")


def _mistakes(query: str) -> str:
    try:
        plan_file(f"{TABLE}CREATE TABLE o WITH ('connector' = 'blackhole') AS {query};", file="f.sql")
    except DiagnosticError as error:
        return str(error)
    return ""


#: COLLECT(x) is a spelling of LIST(x) with a FILTER, COUNT_STAR() is COUNT(*).
_NOT_WRITTEN = {"collect", "count_star"}
WRITTEN = [f for f in registry.AGGREGATES.values() if f.name not in _NOT_WRITTEN]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("start", range(0, len(WRITTEN), 20))
def test_every_function(start: int, setting: str, tmp_path: Path) -> None:
    """Plain and DISTINCT, with a FILTER and without, over rows that come and over rows that go."""
    calls = [form for function in WRITTEN[start : start + 20] for form in _forms(function)]
    _check(tmp_path, setting, calls)


_ONE = {"k": 1, "s": "a", "v": 1, "d": "1.50", "x": 0.5, "b": True, "ts": "2024-01-01 00:00:01.000"}
_NULLS = {**dict.fromkeys(_ONE), "k": 1, "ts": "2024-01-01 00:00:02.000"}
#: Rows of one group: none, one, only NULLs, and one that goes again where only those with v < 3 are looked at.
FEW: dict[str, list[dict[str, Any]]] = {
    "no row": [],
    "one row": [_ONE],
    "only NULLs": [_NULLS, {**_NULLS, "s": "b"}, _NULLS],
    "one that goes": [_ONE, {**_ONE, "s": "b"}, {**_ONE, "v": 5}, {**_ONE, "s": "b", "v": 7}],
}
LEAVING = f"SELECT k, {{}} FROM {_UPDATING} AS q WHERE v IS NULL OR v < 3 GROUP BY GROUPING SETS ((k), ())"


@pytest.mark.parametrize("rows", FEW)
@pytest.mark.parametrize("start", range(0, len(WRITTEN), 20))
def test_every_function_over_hardly_any_rows(start: int, rows: str, tmp_path: Path) -> None:
    calls = [form for function in WRITTEN[start : start + 20] for form in _forms(function)]
    items = ", ".join(f"{call} AS z{n}" for n, call in enumerate(calls))
    check(tmp_path / "p", LEAVING.format(items), FEW[rows], rows_per_epoch=1, parallelism=1)


#: Values whose types have no name, and DISTINCT that must not choose among the values.
CORNERS = [
    *("MAX_BY(s, NULL)", "MIN_BY(NULL, v)", "ARG_MAX(NULL, NULL)", "ARG_MIN(DISTINCT s, NULL)", "MIN(NULL)"),
    *("ARRAY_AGG([])", "ARRAY_AGG(DISTINCT [])", "ARRAY_AGG({'a': NULL})", "COUNT(DISTINCT [])", "MODE([])"),
    *("MAX([])", "ANY_VALUE([[]])", "MEDIAN(NULL)", "SUM(NULL)", "STRING_AGG([], ',')", "ENTROPY([])"),
    *(
        "ARRAY_AGG(v ORDER BY 1 DESC)",
        "ARRAY_AGG(v ORDER BY CAST(NULL AS INT))",
        "MAX(CAST(MAP{} AS MAP<STRING, INT>))",
        "ARRAY_AGG(NULL) FILTER (WHERE b)",
    ),
]


@pytest.mark.parametrize("setting", ["append-only", "retracting"])
def test_values_without_a_type_of_their_own(setting: str, tmp_path: Path) -> None:
    of_null = [f"{f.name}(NULL)" for f in WRITTEN]
    known = [call for call in of_null if not _mistakes(SETTINGS[setting].format(f"{call} AS z"))]
    assert len(known) > 20
    chosen = ["ANY_VALUE(DISTINCT x)", "MIN_BY(DISTINCT s, v)", "MAX_BY(DISTINCT s, v)"]
    _check(tmp_path, setting, [*CORNERS, *known, *chosen], epoch=5)


@pytest.mark.parametrize("function", WRITTEN, ids=lambda function: function.name)
def test_what_a_function_can_be_derived_from(function: AggregateFunction) -> None:
    """Exactly the functions whose accumulators hold all that this one's do are listed, one by one or together."""
    mine = [form for form in _meanings(function.name) if form]

    def held(others: frozenset[str]) -> bool:
        kept = [frozenset[str]().union(*each) for each in zip(*(_meanings(o) for o in others), strict=True)]
        return any(kept) and all(not have or any(form <= have for form in mine) for have in kept)

    assert all(held(others) for others in function.derived_from)
    alone = {f.name for f in WRITTEN if f is not function and held(frozenset({f.name}))}
    assert alone == {other for others in function.derived_from if len(others) == 1 for other in others}


@cache
def _meanings(name: str) -> list[frozenset[str]]:
    """What the accumulators of a function mean, over rows that only come and over rows that come and go."""
    query = SETTINGS["append-only"].format(f"{name}({_arguments(name)}) AS z")
    planned = plan_file(f"{TABLE}CREATE TABLE o WITH ('connector' = 'blackhole') AS {query};", file="f.sql")
    [call] = [c for n in walk(planned.algebra) if isinstance(n, Aggregate) for c in n.calls]
    forms = []
    for retracting in (False, True):
        made = registry.function_of(call).decomposed(call, None, retracting=retracting)
        forms.append(frozenset(a.meaning for a in made.accumulators) if made is not None else frozenset())
    return forms


@pytest.mark.parametrize("name", ["quantile", "quantile_cont", "quantile_disc"])
def test_a_quantile_without_its_share_is_refused(name: str) -> None:
    """DuckDB would refuse it when it runs."""
    assert "share" in _mistakes(SETTINGS["append-only"].format(f"{name}(v) AS z"))


def test_nothing_else_knows_a_function_by_its_name() -> None:
    """No name is compared with an aggregate's outside of the records (what DuckDB's functions give is `functions/`)."""
    names = {n for f in registry.AGGREGATES.values() for n in (f.name, *f.also, *f.by_time)}
    root = Path(sqlstream_planner.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in ("aggregates", "functions"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("name"):
                compared = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
            elif isinstance(node, ast.match_case):
                compared = {c.value for c in ast.walk(node.pattern) if isinstance(c, ast.Constant)}
            else:
                continue
            if compared & names:
                found.append(
                    f"{path.relative_to(root)}:{getattr(node, 'lineno', '')} {ast.unparse(node)[:80]}"
                )
    assert not found


# ------------------------------------------------------------------------------------------ one more


def _pairs(call: AggregateCall, weight: str | None = None) -> Decomposition:
    here = filter_of(call, f"({argument(call)}) IS NOT NULL", f"({argument(call, 1)}) IS NOT NULL")
    partial = f"sum({weight if weight is not None else 1}){here}"
    kept = Accumulator("pairs", BIGINT, partial, "CAST(coalesce(sum({f}), 0) AS BIGINT)", counts=True)
    return Decomposition((kept,), "coalesce({0}, 0)")


def _pairs_over_changes(call: AggregateCall) -> Decomposition:
    kept = Accumulator("pairs", BIGINT, "sum({change})", "CAST(coalesce(sum({f}), 0) AS BIGINT)", counts=True)
    return Decomposition((kept,), "coalesce({0}, 0)")


def _distinct_pairs(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    present = [f"{v} IS NOT NULL" for v in values]
    return f"count(*) FILTER (WHERE {' AND '.join([*present, *([flag] if flag is not None else [])])})"


#: Linear, over two arguments of each row, 0 over no rows.
PAIRS = AggregateFunction(
    name="regr_count",
    arguments=Arguments(of_rows=2, at_most=2),
    empty="0",
    append_only=_pairs,
    any_order=_pairs,
    weighted=_pairs,
    values=Multiset(lambda call, values: "count(*)" if call.distinct else 'sum("count")'),
    over_changes=_pairs_over_changes,
    over_distinct=_distinct_pairs,
)


def _total(call: AggregateCall, weight: str | None = None) -> Decomposition:
    x = argument(call)
    times = f" * {weight}" if weight is not None else ""
    total = Accumulator(
        "total", HUGEINT, f"sum(CAST({x} AS HUGEINT){times}){filter_of(call)}", "CAST(sum({f}) AS HUGEINT)"
    )
    rows = f"sum({weight if weight is not None else 1}){filter_of(call, f'({x}) IS NOT NULL')}"
    present = Accumulator("present", BIGINT, rows, "CAST(coalesce(sum({f}), 0) AS BIGINT)", counts=True)
    return Decomposition((total, present), "CASE WHEN {1} > 0 THEN {0} END")


#: Linear, while its distinct values are kept one by one.
TOTAL = AggregateFunction(
    name="sum_no_overflow",
    append_only=_total,
    any_order=_total,
    weighted=_total,
    values=AS_LIST,
    over_distinct=over_distinct,
)

#: No accumulators at all.
SHAPE = AggregateFunction(
    name="kurtosis_pop", append_only=holistic, values=AS_LIST, over_distinct=over_distinct
)
NEW = (PAIRS, TOTAL, SHAPE)


@pytest.fixture
def new_functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DuckDB has these; here they become known to the planner, by their records alone."""
    for function in NEW:
        assert registry.find(function.name) is None
        assert "can't be run yet" in _mistakes(
            SETTINGS["append-only"].format(f"{function.name}(v{', v' if function is PAIRS else ''}) AS z")
        )
    monkeypatch.setattr(registry, "AGGREGATES", {**registry.AGGREGATES, **{f.name: f for f in NEW}})
    _arguments.cache_clear()
    yield
    _arguments.cache_clear()


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.usefixtures("new_functions")
def test_a_new_function_is_its_record(setting: str, tmp_path: Path) -> None:
    """Bound, planned, run over rows that come and go, and judged by DuckDB, with nothing else touched."""
    calls = [form for function in NEW for form in _forms(function)]
    calls += ["regr_count(v, x)", "regr_count(DISTINCT v, x)", "regr_count(DISTINCT v, x) FILTER (WHERE b)"]
    _check(tmp_path, setting, calls)


#: A separator is text, whatever stands in it.
_BRACES = ["{}", "{0}", "}}", "{{ '{{' }}", "}", '{"a": [1]}', "%s"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_separator_may_have_braces(setting: str, tmp_path: Path) -> None:
    calls = [
        f"{name}({d}s, '{separator}')"
        for separator in _BRACES
        for name in ("STRING_AGG", "LISTAGG")
        for d in ("", "DISTINCT ")
    ]
    _check(tmp_path, setting, calls)


@pytest.mark.parametrize("setting", SETTINGS)
def test_which_of_several_values_is_taken(setting: str, tmp_path: Path) -> None:
    """The referee's choice, where DISTINCT or an ORDER BY that leaves ties, or is a constant, says little."""
    calls = [
        *("ANY_VALUE(DISTINCT x)", "ANY_VALUE(DISTINCT s ORDER BY s DESC)", "ANY_VALUE(s ORDER BY v DESC, x DESC)"),
        *("ANY_VALUE(v ORDER BY b NULLS FIRST)", "ANY_VALUE(x ORDER BY s) FILTER (WHERE v < 3)", "ANY_VALUE(s ORDER BY 1)"),
        *("ARRAY_AGG(v ORDER BY 1)", "ARRAY_AGG(v ORDER BY 1 DESC)", "LISTAGG(s ORDER BY CAST(NULL AS INT))"),
        *("ARRAY_AGG(v ORDER BY s DESC)", "ARRAY_AGG(v ORDER BY s DESC NULLS FIRST, b DESC)", "ARRAY_AGG(x ORDER BY s, b)"),
        *("LISTAGG(s ORDER BY v)", "ARRAY_AGG(s ORDER BY v)", "COLLECT(s ORDER BY v)"),
        "LISTAGG(s ORDER BY v) FILTER (WHERE b)",
        *("MIN(NULL)", "MAX_BY(s, NULL)"),
    ]  # fmt: skip
    _check(tmp_path, setting, calls)
