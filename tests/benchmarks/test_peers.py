from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.peers import BENCHMARKS, Spread, Turn, disagreements, read_turns, rows_of, table


def turn(system: str, number: int, *runs: float, rows_out: int = 7, benchmark: str = "q12") -> Turn:
    return Turn(benchmark, system, number, runs=runs, input_rows=1000, rows_out=rows_out, peak_mb=10 * number)


def test_the_first_run_of_a_turn_is_cold_and_does_not_count() -> None:
    [row] = rows_of([turn("flink", 1, 100.0, 2.0, 4.0)], "sqlstream")
    assert row.seconds == Spread(2.0, 3.0, 4.0)
    assert row.rows_per_second == pytest.approx(1000 / 3)


def test_ratios_are_taken_inside_a_round() -> None:
    # The machine is four times slower in round 2. Pooled medians would say 4x; both rounds say 2x and 3x.
    turns = [
        turn("sqlstream", 1, 9.0, 1.0),
        turn("flink", 1, 9.0, 2.0),
        turn("sqlstream", 2, 9.0, 4.0),
        turn("flink", 2, 9.0, 12.0),
    ]
    ours, flink = rows_of(turns, "sqlstream")
    assert ours.times_baseline == Spread(1.0, 1.0, 1.0)
    assert flink.times_baseline == Spread(2.0, 2.5, 3.0)


def test_a_round_without_the_baseline_has_seconds_but_no_ratio() -> None:
    turns = [turn("flink", 1, 9.0, 2.0), Turn("q12", "sqlstream", 1, error="exit 1")]
    [row] = rows_of(turns, "sqlstream")
    assert row.system == "flink"
    assert row.times_baseline is None
    assert row.seconds == Spread(2.0, 2.0, 2.0)


def test_queries_do_not_mix() -> None:
    turns = [turn("flink", 1, 9.0, 2.0), turn("flink", 1, 9.0, 8.0, benchmark="q5_hop")]
    assert [(r.benchmark, r.seconds.median) for r in rows_of(turns, "flink")] == [
        ("q12", 2.0),
        ("q5_hop", 8.0),
    ]


def test_table_has_a_cell_for_every_column() -> None:
    lines = table(
        rows_of([turn("flink", 1, 9.0, 2.0), turn("duckdb", 1, 9.0, 0.5)], "flink"), "flink"
    ).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "| 0.25 / 0.25 / 0.25 |" in lines[3]


def test_other_rows_out_than_duckdb_spoil_the_figures() -> None:
    turns = [
        turn("sqlstream", 1, 9.0, 1.0, rows_out=6),
        turn("flink", 1, 9.0, 1.0),
        turn("spark", 1, 9.0, 1.0, rows_out=5),  # drops the windows that are open at the end
        turn("duckdb", 1, 9.0, 1.0),
    ]
    assert disagreements(turns) == ["q12, sqlstream, round 1: 6 rows out, DuckDB has 7"]


def test_a_failed_turn_is_reported() -> None:
    assert disagreements([Turn("q12", "flink", 2, error="exit 1: boom")]) == [
        "q12, flink, round 2: exit 1: boom"
    ]


def test_turns_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    turns = [turn("flink", 1, 9.0, 2.0), Turn("q12", "spark", 1, error="exit 1", detail={"a": [1]})]
    file = tmp_path / "turns.jsonl"
    file.write_text("".join(json.dumps(asdict(t)) + "\n" for t in turns))
    assert read_turns(file) == turns


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_its_pipeline_over_the_same_format(name: str) -> None:
    pipeline = BENCHMARKS[name].pipeline
    text = pipeline.read_text()
    if "{% include 'nexmark_parquet.sql' %}" in text:
        text = (pipeline.parent / "macros" / "nexmark_parquet.sql").read_text()
    assert f"'format' = '{BENCHMARKS[name].format}'" in text
    assert f"/{BENCHMARKS[name].format}/bid'" in text


def test_json_and_parquet_pipelines_differ_only_in_the_format() -> None:
    for query in {b.query for b in BENCHMARKS.values() if b.format == "json"}:
        parquet, lines = (BENCHMARKS[n].pipeline.read_text() for n in (query, f"{query}_json"))
        assert parquet.replace("from Parquet.", "from JSON lines.").replace("parquet", "json") == lines


@pytest.mark.parametrize(
    "arguments",
    [[], ["q12"], ["q12", "--peers", ".", "--repeat", "1"], ["q12", "--peers", ".", "--systems", "storm"]],
)
def test_wrong_usage_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        peers.main(arguments)
    assert refused.value.code == 2


def test_a_turn_that_takes_too_long_is_killed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "10").mkdir(parents=True)
    (tmp_path / "data" / "10" / "meta.json").write_text("{}")
    args = peers.parse_arguments(["q12", "--peers", str(tmp_path), "--events", "10", "--timeout", "0.2"])
    monkeypatch.setattr(peers, "command", lambda *_: ["sleep", "60"])
    assert "not done after" in peers.take_turn("flink", BENCHMARKS["q12"], 1, args).error
