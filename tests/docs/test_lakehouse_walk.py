"""docs/lakehouse.md does what it says: its commands run in one shell, with a real PostgreSQL, and the state in S3."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.postgres_cdc.conftest import cdc
from tests.connectors.postgres_server import Database, database, postgres_server
from tests.docs.walks import ROOT, walk
from tests.object_stores.s3_server import KEY, SECRET, S3Server, run_server

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
__all__ = ["cdc", "database", "postgres_server"]

_ADDRESS = "postgresql://localhost:5432/shop"


@pytest.fixture
def server() -> Iterator[S3Server]:
    yield from run_server()


@pytest.mark.kill
def test_the_walk_through_is_true(tmp_path: Path, cdc: Database, server: S3Server) -> None:
    if shutil.which("psql") is None:
        pytest.skip("needs psql")
    shutil.copytree(ROOT / "pipelines" / "lake", tmp_path / "pipelines" / "lake")
    pipeline = tmp_path / "pipelines" / "lake" / "sales.sql"
    pipeline.write_text(pipeline.read_text().replace(_ADDRESS, cdc.url))
    walk(
        ROOT / "docs" / "lakehouse.md",
        tmp_path,
        instead={"http://localhost:9000": server.endpoint, "s3://lake/": "s3://tests/", _ADDRESS: cdc.url},
        environment={"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
    )
    assert list((server.folder / "data" / "tests" / "state").rglob("*.manifest.json"))
    assert not (tmp_path / "pipelines" / "lake" / ".sqlstream").exists()
