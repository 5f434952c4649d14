"""A password reaches the connector, on the driver and in tasks, and nothing that a run leaves or shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from sqlstream.cli.progress import JsonLines, Progress, TextLines
from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.registry import REGISTERED, Connector, Registry
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.committed_sinks import NAME
from sqlstream.runtime.tasks.job import EpochJob
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.runtime.tasks.task_program import TaskProgram, of_registry
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import DiagnosticError

PASSWORD = "S3CRET"
SINK = (Role.SINK,)
VAULT = ConnectorDescriptor(
    "vault",
    "rows behind a password",
    SINK,
    (
        OptionDef("url", ValueKind.STRING, "where", required=True, roles=SINK),
        OptionDef("password", ValueKind.STRING, "the password", roles=SINK, secret=True),
    ),
    sink=SinkAbilities(changes=True),
)
SQL = """
-- the password is not {literal}
CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE out (k INT, s BIGINT) WITH (
  'connector' = 'vault', 'url' = 'vault://me:{password}@safe/x?sslpassword={password}', 'password' = '{password}'
);
INSERT INTO out SELECT k, SUM(v) FROM t GROUP BY k;
"""


@dataclass
class Vault:
    """Both halves of the sink; remembers the options that they were made with."""

    opened: list[Mapping[str, str]] = field(default_factory=list)
    wrong: str | None = None

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Vault:
        self.opened.append(spec.options)
        return self

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> Vault:
        self.opened.append(spec.options)
        return self

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        return SinkPart(table.num_rows)

    def prepare(self, epoch: int, parts: Sequence[SinkPart], previous: int | None = None) -> None: ...

    def commit(self, epoch: int, parts: Sequence[SinkPart], previous: int | None = None) -> None: ...

    def abort_uncommitted(self, last_epoch: int) -> None: ...


def _inputs(folder: Path) -> None:
    (folder / "in").mkdir()
    for number in range(3):
        (folder / "in" / f"{number}.json").write_text(f'{{"k": {number % 2}, "v": {number}}}\n')


def _run(folder: Path, sql: str, vault: Vault, *, as_json: bool = False, **options: Any) -> None:
    registry: Registry = REGISTERED.with_connector(Connector(VAULT, sink=vault))
    planned = plan_file(sql, file="p.sql", env={"VAULT_PASSWORD": PASSWORD}, registry=registry)
    progress: Progress = JsonLines("p", str(folder / "state"))
    if not as_json:
        progress = TextLines("p", planned.physical, str(folder / "state"))
    with progress:
        result = run_pipeline(
            RunRequest(
                planned.physical,
                state_dir=folder / "state",
                secrets=planned.secrets,
                sql=planned.masked_sql,
                local_dir=folder / "cache",
                base_dir=folder,
                max_rows_per_epoch=1,
                runner=InProcessRunner(2, of_registry(registry)),
                connectors=registry,
                on_epoch=progress.epoch,
                sync=False,
                **options,
            )
        )
        progress.finished(result)


def _leaks(folder: Path, password: str = PASSWORD) -> list[Path]:
    """The files under a folder that have the password in their name or in them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [p for p in files if password in str(p) or password.encode() in p.read_bytes()]


@pytest.mark.parametrize("password", ["{{{{ env_var('VAULT_PASSWORD') }}}}", PASSWORD])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_leaves_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], password: str, as_json: bool
) -> None:
    _inputs(tmp_path)
    vault = Vault()
    _run(tmp_path, SQL.format(password=password.format(), literal=PASSWORD), vault, as_json=as_json)
    assert vault.opened
    for options in vault.opened:
        assert options["password"] == PASSWORD
        assert options["url"] == f"vault://me:{PASSWORD}@safe/x?sslpassword={PASSWORD}"
    assert _leaks(tmp_path / "state") == []
    assert _leaks(tmp_path / "cache") == []
    out = capsys.readouterr()
    assert PASSWORD not in out.out + out.err
    stored = "".join(p.read_text() for p in (tmp_path / "state/plans").iterdir())
    assert "${secret:out.password}" in stored


def test_another_password_goes_on_with_the_same_plan(tmp_path: Path) -> None:
    _inputs(tmp_path)
    first, second = Vault(), Vault()
    _run(tmp_path, SQL.format(password="old", literal="it"), first, max_epochs=1)
    before = sorted(p.name for p in (tmp_path / "state/plans").iterdir())
    _run(tmp_path, SQL.format(password="new", literal="it"), second)
    assert sorted(p.name for p in (tmp_path / "state/plans").iterdir()) == before
    assert {options["password"] for options in first.opened} == {"old"}
    assert {options["password"] for options in second.opened} == {"new"}


def test_a_sink_that_is_left_out_needs_its_password_once_more(tmp_path: Path) -> None:
    """Where a run broke off its last epoch is committed again, in case that it was not; from then on nobody asks for it."""
    _inputs(tmp_path)
    both = SQL + (
        "CREATE TABLE other (k INT, s BIGINT) WITH ('connector' = 'blackhole');"
        "INSERT INTO other SELECT k, SUM(v) FROM t GROUP BY k;"
    )
    declared = both.replace("INSERT INTO out SELECT k, SUM(v) FROM t GROUP BY k;", "")
    start = declared.index("CREATE TABLE out")
    gone = declared[:start] + declared[declared.index(");", start) + 2 :]
    words = {"password": PASSWORD, "literal": "it"}
    _run(tmp_path, both.format(**words), Vault(), max_epochs=1)
    (tmp_path / "state" / NAME).unlink()
    with pytest.raises(DiagnosticError) as caught:
        _run(tmp_path, gone.format(**words), Vault())
    [found] = caught.value.diagnostics
    assert found.code == "OPT007"
    assert found.help is not None
    assert "keep the CREATE TABLE of `out`" in found.help
    assert caught.value.exit_code == 4
    former = Vault()
    _run(tmp_path, declared.format(**words), former, max_epochs=1)
    assert {options["password"] for options in former.opened} == {PASSWORD}
    _run(tmp_path, gone.format(**words), Vault())


def test_a_plan_without_its_secrets_is_not_run(tmp_path: Path) -> None:
    _inputs(tmp_path)
    registry = REGISTERED.with_connector(Connector(VAULT, sink=Vault()))
    planned = plan_file(SQL.format(password="x", literal="it"), file="p.sql", registry=registry)
    with pytest.raises(DiagnosticError, match="OPT007"):
        run_pipeline(
            RunRequest(
                planned.physical,
                state_dir=tmp_path / "state",
                local_dir=tmp_path / "cache",
                base_dir=tmp_path,
                runner=InProcessRunner(1, of_registry(registry)),
                connectors=registry,
                sync=False,
            )
        )


def test_secrets_are_shipped_with_the_epoch_and_not_with_the_plan(tmp_path: Path) -> None:
    _inputs(tmp_path)
    vault, jobs = Vault(), []
    registry = REGISTERED.with_connector(Connector(VAULT, sink=vault))
    planned = plan_file(SQL.format(password=PASSWORD, literal="it"), file="p.sql", registry=registry)

    class Runner(InProcessRunner):
        def run(self, job: EpochJob) -> Any:
            jobs.append(job)
            return super().run(job)

    run_pipeline(
        RunRequest(
            planned.physical,
            state_dir=tmp_path / "state",
            secrets=planned.secrets,
            local_dir=tmp_path / "cache",
            base_dir=tmp_path,
            runner=Runner(1, of_registry(registry)),
            connectors=registry,
            sync=False,
        )
    )
    program = TaskProgram.of(jobs[0])
    again = TaskProgram.from_bytes(program.plan_bytes(), program.epoch_bytes())
    assert again == program
    assert again.secrets == planned.secrets
    # What Spark's task for a small epoch reads from a file has none.
    assert (
        TaskProgram.from_bytes(program.plan_bytes(), program.epoch_bytes(secrets=False)).secrets == Secrets()
    )
    assert PASSWORD not in repr(jobs[0]) + repr(program)


# ------------------------------------------------------------------------------- passwords in paths of files


class _Guarded:
    """`pyarrow.fs`, with URIs `guarded://user:password@host/…` that mean the local files below `/`."""

    def __init__(self, password: str) -> None:
        self._password = password

    def from_uri(self, uri: str) -> tuple[fs.FileSystem, str]:
        if f":{self._password}@" not in uri:
            raise OSError(f"{uri}: wrong password")
        return fs.SubTreeFileSystem("/", fs.LocalFileSystem()), uri.split("@", 1)[1].split("/", 1)[1]


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    shim = SimpleNamespace(**{**vars(fs), "FileSystem": _Guarded(PASSWORD)})
    monkeypatch.setattr(pa, "fs", shim)


FILES = """
CREATE TABLE t (k INT, v INT, p STRING METADATA FROM 'file.path')
WITH ('connector' = 'filesystem', 'path' = 'guarded://me:{password}@host{folder}/in', 'format' = 'json');
CREATE TABLE out (k INT, v INT, p STRING)
WITH ('connector' = 'filesystem', 'path' = 'guarded://me:{password}@host{folder}/out', 'format' = 'json');
INSERT INTO out SELECT k, v, p FROM t;
"""


@pytest.mark.usefixtures("guarded")
def test_a_password_in_a_path_is_in_no_listing_and_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _inputs(tmp_path)
    (tmp_path / "in/bad.json").write_text('{"k": "no number"}\n')
    _run(tmp_path, FILES.format(password=PASSWORD, folder=tmp_path), Vault())
    written = [json.loads(p.read_text()) for p in sorted((tmp_path / "out").glob("*.json"))]
    assert [row["v"] for row in written] == [0, 1, 2]
    assert written[0]["p"] == f"guarded://host{tmp_path}/in/0.json"
    assert list((tmp_path / "state").rglob("dead-letter/*"))
    assert _leaks(tmp_path / "state") == []
    assert _leaks(tmp_path / "out") == []
    out = capsys.readouterr()
    assert PASSWORD not in out.out + out.err
    assert f"host{tmp_path}/out" in out.out + out.err


@pytest.mark.usefixtures("guarded")
def test_a_wrong_password_is_not_shown(tmp_path: Path) -> None:
    _inputs(tmp_path)
    with pytest.raises((DiagnosticError, DataError)) as caught:
        _run(tmp_path, FILES.format(password="WR0NG", folder=tmp_path), Vault())
    assert "WR0NG" not in str(caught.value)
    assert "can't be opened" in str(caught.value)
