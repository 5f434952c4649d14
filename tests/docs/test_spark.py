"""docs/spark.md: what its table says of an expression is what it gives here, and what it gives in Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlstream.planning import plan_file
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

if TYPE_CHECKING:
    from sqlstream.runtime.spark.stages import SparkJobRunner

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Expressions")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
]


def test_expressions_give_what_the_page_says(tmp_path: Path) -> None:
    assert len(ROWS) == 8
    columns = ", ".join(f"CAST({row[0].strip('`')} AS STRING) AS c{n}" for n, row in enumerate(ROWS))
    (tmp_path / "p.sql").write_text(f"CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT {columns};")
    with collecting() as collected:
        run_here(plan_file(tmp_path / "p.sql"), tmp_path)
        (values,) = collected.folded("out")
    assert ["NULL" if v is None else str(v) for v in values] == [here for _, here, _ in ROWS]


@pytest.mark.spark
def test_expressions_give_in_spark_what_the_page_says(spark_runner: SparkJobRunner) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    columns = [f"CAST({row[0].strip('`')} AS STRING)" for row in ROWS]
    (values,) = session.sql(f"SELECT {', '.join(columns)}").collect()
    assert ["NULL" if v is None else re.sub(r"\.0$", "", v) for v in values] == [
        there for _, _, there in ROWS
    ]
