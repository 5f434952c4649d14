from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.golden.paths import directives, golden_folder
from sqlstream.project import find_root, load_project, pipeline_files, plan, state_directory
from sqlstream_planner.diagnostics import DiagnosticError

PIPELINE = """\
{head}
CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '{{{{ var("rows", 1) }}}}');
CREATE TABLE out (a INT) WITH ('connector' = 'blackhole');
INSERT INTO out SELECT a FROM t;
"""

TOML = """\
[vars]
rows = 5
[conf]
spark.ui.enabled = true
[profiles.prod]
master = "spark://host:7077"
parallelism = 8
state-dir = "s3://bucket/state"
vars = { rows = 7 }
conf = { "spark.ui.enabled" = false, "spark.executor.memory" = "4g" }
"""


def make(root: Path, name: str = "pipelines/p.sql", head: str = "") -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PIPELINE.format(head=head))
    return file


def rows(file: Path, root: Path, profile: str | None = None, **variables: str) -> str:
    planned = plan(file, load_project(root, profile), variables)
    return planned.physical.sources[0].options["number-of-rows"]


def test_variables_win_in_order(tmp_path: Path) -> None:
    file = make(tmp_path)
    assert rows(file, file.parent) == "1"
    (tmp_path / "sqlstream.toml").write_text(TOML)
    assert rows(file, file.parent) == "5"
    assert rows(file, file.parent, "prod") == "7"
    assert rows(file, file.parent, "prod", rows="9") == "9"


def test_a_profile(tmp_path: Path) -> None:
    (tmp_path / "sqlstream.toml").write_text(TOML)
    project = load_project(tmp_path)
    assert (project.master, project.parallelism, project.state_dir) == (None, None, None)
    assert project.conf == {"spark.ui.enabled": "true"}
    project = load_project(tmp_path / "pipelines", "prod")
    assert (project.master, project.parallelism) == ("spark://host:7077", 8)
    assert project.conf == {"spark.ui.enabled": "false", "spark.executor.memory": "4g"}


@pytest.mark.parametrize(
    ("text", "profile", "message"),
    [
        ("[var]\n", None, "did you mean `vars`"),
        ("[profiles.prod]\nparalelism = 1\n", "prod", "did you mean `profiles.prod.parallelism`"),
        ("[profiles.prod]\nparallelism = 0\n", "prod", "positive whole number"),
        ("[profiles.prod]\nmaster = 1\n", "prod", "text, in quotes"),
        ("[profiles.prod]\n", "pord", "no profile `pord`"),
        ("vars = 1\n", None, "`vars` is a table"),
        ("[vars\n", None, "not TOML"),
        (None, "prod", "has no sqlstream.toml"),
    ],
)
def test_mistakes_in_the_project_file(
    tmp_path: Path, text: str | None, profile: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "sqlstream.toml").write_text(text)
    with pytest.raises(DiagnosticError) as raised:
        load_project(tmp_path, profile)
    (diagnostic,) = raised.value.diagnostics
    assert message in f"{diagnostic.message} {diagnostic.help}"


def test_where_state_is(tmp_path: Path) -> None:
    file = make(tmp_path)
    (tmp_path / "sqlstream.toml").write_text(TOML)
    plain, prod = load_project(file.parent), load_project(file.parent, "prod")
    planned = plan(file, plain)
    assert state_directory(planned, file, plain, None) == str(tmp_path / "pipelines/.sqlstream/p")
    assert state_directory(planned, file, prod, None) == "s3://bucket/state/p"
    assert state_directory(planned, file, prod, "here") == "here"
    options = "endpoint_override=localhost:9000&scheme=http"
    other = replace(prod, state_dir=f"s3://bucket/state?{options}")
    assert state_directory(planned, file, other, None) == f"s3://bucket/state/p?{options}"
    file = make(tmp_path, head="SET 'state.dir' = 'kept'; SET 'pipeline.name' = 'other name';")
    planned = plan(file, prod)
    assert state_directory(planned, file, prod, None) == str(tmp_path / "pipelines/kept")
    file = make(tmp_path, head="SET 'pipeline.name' = '../other name';")
    planned = plan(file, plain)
    assert state_directory(planned, file, plain, None) == str(tmp_path / "pipelines/.sqlstream/-other-name")


def test_which_files_are_pipelines(tmp_path: Path) -> None:
    for name in ("a", "b/c", "macros/m", "b/macros/m", "_x/a", "b/_y", ".sqlstream/z"):
        make(tmp_path, f"pipelines/{name}.sql")
    found = [str(f.relative_to(tmp_path)) for f in pipeline_files(tmp_path)]
    assert found == ["pipelines/a.sql", "pipelines/b/c.sql"]


def test_where_goldens_are(tmp_path: Path) -> None:
    inside = tmp_path / "pipelines"
    assert golden_folder(inside / "a.sql") == tmp_path / "golden/a"
    assert golden_folder(inside / "x/a.sql") == tmp_path / "golden/x/a"
    assert golden_folder(inside / "x/x.sql") == tmp_path / "golden/x"
    assert golden_folder(tmp_path / "b.sql") == tmp_path / "golden/b"
    assert golden_folder(inside / "x/a.sql", tmp_path / "g") == tmp_path / "g/x/a"
    assert find_root(inside / "x") == tmp_path


def test_golden_comments(tmp_path: Path) -> None:
    file = make(tmp_path, head="-- golden: var rows=3\n  --golden:var a = b=c")
    assert directives(file).variables == {"rows": "3", "a": "b=c"}
    assert not directives(file).none
    assert directives(make(tmp_path, head="-- golden: none")).none
    with pytest.raises(DiagnosticError, match="`vars rows=3` means nothing here") as raised:
        directives(make(tmp_path, head="-- x\n-- golden: vars rows=3"))
    span = raised.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.column, span.length) == (2, 12, 11)
