"""The answers that come with the package are the installed DuckDB's, and spare most files DuckDB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sqlstream.type_oracle.remembered import first_file
from tests.planner.expressions import first_answers

#: What many a file has, over columns of the usual types.
SQL = """
CREATE TABLE t (k STRING, n BIGINT, p DECIMAL(10, 2), d DOUBLE, b BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '7' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
SELECT k || '!' AS k, COUNT(*) AS n, SUM(n * 2) AS s, AVG(p) AS a, MAX(p * 0.9) AS b,
  MAX(CASE WHEN b THEN d ELSE 0 END) AS m, window_end
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' MINUTE))
WHERE n > 17 AND p < 99.5 AND ts >= TIMESTAMP '2024-01-01 00:00:00' AND k LIKE 'x%'
  AND EXTRACT(HOUR FROM ts) < 12
GROUP BY k || '!', window_start, window_end;
"""


def test_they_are_those_of_the_installed_duckdb() -> None:
    assert first_file() == first_answers.FILE, "write them: python -m tests.planner.expressions.first_answers"
    assert first_answers.FILE.read_text(encoding="utf-8") == first_answers.written(), (
        "write them anew: python -m tests.planner.expressions.first_answers"
    )


def test_a_usual_file_needs_no_duckdb_even_the_first_time(tmp_path: Path) -> None:
    code = (
        "import sys; from sqlstream.planning import plan_file; "
        f"plan_file({SQL!r}); assert 'duckdb' not in sys.modules, 'loaded'"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    )
