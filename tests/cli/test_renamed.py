"""A pipeline has a name: its file's path in the project, or SET 'pipeline.name'. Its state is found again, or offered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.project import load_project, path_in_project, plan, state_directory
from tests.properties.in_process import run_here

TEXT = """CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = '{up}in', 'format' = 'json');
CREATE TABLE {o} (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = '{up}{o}.duckdb');
INSERT INTO {o} SELECT k, COUNT(*) FROM t GROUP BY k;
"""
TOML = "[profiles.prod]\nstate-dir = 'states'\n"


def pipeline(file: Path, o: str = "o", head: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * (len(file.parts) - len(file.parent.parts))
    file.write_text(head + TEXT.format(up=up, o=o))
    return file


def run(file: Path, profile: str | None = None) -> Path:
    """Run it as `sqlstream run` does; where its state is."""
    (file.parent.parent / "in").mkdir(exist_ok=True)
    (file.parent.parent / "in/0.json").write_text('{"k": 1}\n')
    project = load_project(file.parent, profile)
    planned = plan(file, project)
    state = state_directory(planned, file, project, None)
    run_here(planned, file.parent, state=state, sql=planned.masked_sql)
    return Path(state)


def test_two_pipelines_of_one_file_name_have_states_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sqlstream.toml").write_text(TOML)
    states = set()
    for folder in ("pipelines", "pipelines/a", "pipelines/b", "pipelines/a/b"):
        file = pipeline(tmp_path / folder / "orders.sql")
        project = load_project(file.parent, "prod")
        states.add(state_directory(plan(file, project), file, project, None))
        assert path_in_project(file) == f"{folder}/orders".removeprefix("pipelines/")
    assert states == {
        str(tmp_path / "states" / name) for name in ("orders", "a/orders", "b/orders", "a/b/orders")
    }


@pytest.mark.parametrize("profile", [None, "prod"])
def test_a_renamed_file_is_offered_its_state(
    profile: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sqlstream.toml").write_text(TOML)
    file = pipeline(tmp_path / "pipelines/old.sql")
    state = run(file, profile)
    new = file.rename(tmp_path / "pipelines/new.sql")
    given = [] if profile is None else ["--profile", profile]
    for command in ("plan", "run"):
        assert run_cli([command, str(new), *given]) == 4
        reported = capsys.readouterr().err
        assert "error[STA031]" in reported
        assert "its state is that of `old`" in reported
        assert "SET 'pipeline.name' = 'old';" in reported
        assert f"mv '{state}' '{state.parent / 'new'}'" in reported
    edited = new.read_text()
    new.write_text("SET 'pipeline.name' = 'old';\n" + edited)
    assert run_cli(["plan", str(new), *given]) == 0
    assert "Nothing changes" in capsys.readouterr().out
    new.write_text(edited.replace("COUNT(*)", "SUM(k)"))
    assert run_cli(["plan", str(new), *given]) == 4  # known by where it writes
    shutil.move(state, state.parent / "new")
    assert run_cli(["plan", str(new), *given]) == 0
    assert "ADAPT" in capsys.readouterr().out


def test_the_state_of_a_pipeline_in_a_folder_was_once_named_by_its_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sqlstream.toml").write_text(TOML)
    file = pipeline(tmp_path / "pipelines/a/orders.sql")
    state = run(file, "prod")
    assert state == tmp_path / "states/a/orders"
    shutil.move(state, tmp_path / "states/orders")
    assert run_cli(["plan", str(file), "--profile", "prod"]) == 4
    assert f"mv '{tmp_path}/states/orders' '{state}'" in capsys.readouterr().err


def test_the_state_of_another_pipeline_is_not_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = pipeline(tmp_path / "pipelines/old.sql")
    run(file)
    copy = pipeline(tmp_path / "pipelines/copy.sql", "o2")
    assert run_cli(["plan", str(copy)]) == 0
    assert "reads everything" in capsys.readouterr().out
    same = pipeline(tmp_path / "pipelines/same.sql")  # what `old` writes is its own
    assert run_cli(["plan", str(same)]) == 4
    assert "STA030" in capsys.readouterr().err
    file.unlink()
    assert run_cli(["plan", str(copy)]) == 0
    assert run_cli(["plan", str(same)]) == 4
    assert "STA031" in capsys.readouterr().err


def test_a_state_in_a_place_of_its_own_is_not_looked_for(tmp_path: Path) -> None:
    file = pipeline(tmp_path / "pipelines/old.sql", head="SET 'state.dir' = 'kept';\n")
    run(file)
    new = file.rename(tmp_path / "pipelines/new.sql")
    assert run_cli(["plan", str(new)]) == 0
    assert run_cli(["plan", str(pipeline(new, "o3")), "--state-dir", str(tmp_path / "other")]) == 0


@pytest.mark.parametrize("marked", [True, False], ids=["a project", "no project"])
def test_a_file_that_was_moved_to_another_folder_is_offered_its_state(
    marked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if marked:
        (tmp_path / "w/sqlstream.toml").parent.mkdir()
        (tmp_path / "w/sqlstream.toml").write_text("")
    file = pipeline(tmp_path / "w/old.sql")
    state = run(file)
    (tmp_path / "w/sub").mkdir()
    new = file.rename(tmp_path / "w/sub/new.sql")
    new.write_text(new.read_text().replace("'../", "'../../"))  # what it reads and writes stays
    for command in ("plan", "run"):
        assert run_cli([command, str(new)]) == 4
        reported = capsys.readouterr().err
        assert "error[STA031]" in reported
        assert "pipeline.name" not in reported  # a name is looked for beside the file
        there = new.parent / ".sqlstream"
        assert f"mkdir -p '{there}' && mv '{state}' '{there}/new'" in reported
    other = pipeline(
        tmp_path / "w/old.sql", "o2"
    )  # the name is taken again: the state is not the moved file's
    assert run_cli(["plan", str(new)]) == 4
    assert "STA030" in capsys.readouterr().err
    other.unlink()
    (new.parent / ".sqlstream").mkdir()
    shutil.move(state, new.parent / ".sqlstream/new")
    assert run_cli(["plan", str(new), "--source-moved", "t"]) == 0
    assert "Nothing changes" in capsys.readouterr().out


def test_the_state_of_a_pipeline_outside_of_the_folder_of_pipelines_is_not_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sqlstream.toml").write_text(TOML)
    file = pipeline(tmp_path / "a/q.sql")
    state = run(file, "prod")
    copy = pipeline(tmp_path / "b/q.sql")
    assert run_cli(["plan", str(copy), "--profile", "prod"]) == 4
    assert "STA031" not in capsys.readouterr().err
    file.unlink()
    assert run_cli(["plan", str(copy), "--profile", "prod"]) == 4
    assert (
        f"mkdir -p '{tmp_path}/states/b' && mv '{state}' '{tmp_path}/states/b/q'" in capsys.readouterr().err
    )
