"""`check` takes less than half a second, most of it imports: what only a run needs is not among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: What only reading or writing needs.
_HEAVY = (
    "pyarrow",
    "numpy",
    "duckdb",
    "pyspark",
    "rocksdict",
    "obstore",
    "deltalake",
    "pyiceberg",
    "confluent_kafka",
)


def test_check_imports_nothing_that_only_a_run_needs() -> None:
    code = (
        "import sys\nfrom sqlstream.cli.main import main\n"
        "sys.argv = ['sqlstream', 'check', 'pipelines/flights/top_routes.sql']\n"
        "try:\n    main()\nexcept SystemExit as error:\n    assert not error.code, error.code\n"
        f"print(sorted({{*{_HEAVY!r}}} & {{*sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
