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


def imported(tmp_path: Path, *arguments: str) -> list[str]:
    """The modules that a command has imported."""
    code = (
        "import sys\nfrom sqlstream.cli.main import main\n"
        f"sys.argv = {['sqlstream', *arguments]!r}\n"
        "try:\n    main()\nexcept SystemExit as error:\n    assert not error.code, error.code\n"
        f"open({str(tmp_path / 'modules')!r}, 'w').write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (tmp_path / "modules").read_text().split()


def test_check_imports_nothing_that_only_a_run_needs(tmp_path: Path) -> None:
    imported(
        tmp_path, "check", "pipelines/flights/top_routes.sql"
    )  # types that DuckDB was not asked for yet are kept
    found = imported(tmp_path, "check", "pipelines/flights/top_routes.sql")
    assert sorted({*_HEAVY} & {*found}) == []


def test_check_imports_the_connectors_that_a_file_names(tmp_path: Path) -> None:
    found = imported(tmp_path, "check", "pipelines/nexmark/q2.sql")
    descriptors = sorted(name for name in found if name.endswith((".descriptor", ".catalog_descriptor")))
    assert [name for name in descriptors if name.startswith("sqlstream.")] == [
        "sqlstream.connectors.nexmark.descriptor",
        "sqlstream.connectors.print.descriptor",
    ]


def test_a_run_that_begins_does_not_import_pandas(tmp_path: Path) -> None:
    """Arrow would, a fifth of a second, where it is installed: it is hidden from Arrow before anything of it is imported."""
    state = str(tmp_path / "state")
    found = imported(tmp_path, "run", "pipelines/nexmark/q2.sql", "--var", "events=100", "--state-dir", state)
    assert "pyarrow" in found
    assert "pandas" not in found
