"""A password in every place where a user can put one, and everything that a command says, keeps or starts, without it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, render
from sqlstream_planner.text.masking import masked_message, masked_source, without_password
from tests.examples import is_long

#: Its halves can be told apart, so that half of one is found, too.
LEFT, RIGHT = "hunterONE", "hunterTWO"
SIGNS = ["", "#", "?", "/", "@", ":", "%40", "&", "/@", "?#/", "$", ";", "+", " ", "//"]


def words(password: str) -> list[str]:
    return [LEFT, RIGHT]


def output_of(*arguments: str | Path) -> tuple[int, str]:
    """What a command says, on both streams."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_cli([str(argument) for argument in arguments])
    return code, out.getvalue() + err.getvalue()


def kept(folder: Path, *, but: Sequence[str] = ()) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in but:
            yield path, path.read_bytes() + str(path).encode()


URLS = [
    "postgresql://me:{0}@127.0.0.1:1/shop",
    "postgresql://me:{0}@127.0.0.1:1/shop?sslmode=disable&application_name=a@b",
    "jdbc:postgresql://127.0.0.1:1/shop?user=me&password={0}",
    "postgresql://127.0.0.1:1/shop?password={0}&user=me",
    "postgresql://me:{0}@127.0.0.1:1",
    "postgres://me:{0}@127.0.0.1:1,127.0.0.1:2/shop",
    "host=127.0.0.1 port=1 user=me password={0} dbname=shop",
    "mysql://me:{0}@127.0.0.1:1/shop",
]
TABLES = [f"'connector' = 'postgres', 'url' = '{url}'" for url in URLS] + [
    "'connector' = 'postgres', 'url' = 'postgresql://127.0.0.1:1/shop', 'username' = 'me', 'password' = '{0}'",
    "'connector' = 'postgres', 'url' = 'postgresql://127.0.0.1:1/shop', 'username' = 'me', 'pass' = '{0}'",
    "'connector' = 'postgres', 'url' = 'postgresql://127.0.0.1:1/shop', 'usr' = 'me', 'pasword' = '{0}'",
    "'connector' = 'filesystem', 'path' = 's3://key:{0}@no-such-bucket-of-ours/x?endpoint_override=127.0.0.1:1', "
    "'format' = 'json'",
    "'connector' = 'filesystem', 'path' = 's3://b/x?endpoint_override=127.0.0.1:1&secret_key={0}', 'format' = 'json'",
    "'connector' = 'filesystem', 'path' = 'ftp://key:{0}@host/x', 'format' = 'json'",
]
JINJA = [
    "{{% set pw = '{0}' %}}\n{{% set url = 'postgresql://me:{0}@127.0.0.1:1/shop' %}}\n",
    '{{%- set x = "{0}" -%}}\n',
    "{{% set secret_thing %}}{0}{{% endset %}}\n",
]


@pytest.mark.parametrize("options", TABLES)
def test_nothing_says_a_password_of_a_table(
    tmp_path: Path, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.connectors.exactly_once.sink.PAUSE_S", 0.0)
    monkeypatch.setattr("sqlstream.connectors.exactly_once.sink.ATTEMPTS", 1)
    monkeypatch.setattr("sqlstream_operators.state.object_clients.RETRY_S", 0)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": 1}\n')
    for number, sign in enumerate(SIGNS):
        password = LEFT + sign + RIGHT
        folder = tmp_path / str(number)
        folder.mkdir()
        file, state = folder / "p.sql", folder / "state"
        file.write_text(
            "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = '../in', 'format' = 'json');\n"
            f"CREATE TABLE o (k INT, PRIMARY KEY (k) NOT ENFORCED) WITH ({options.format(password)});\n"
            "INSERT INTO o SELECT k FROM t GROUP BY k;\n"
        )
        commands: list[list[str | Path]] = [
            ["check", file],
            ["explain", file],
            ["explain", file, "--format", "json"],
            ["explain", file, "--format", "duckdb"],
            ["plan", file, "--state-dir", state],
            ["plan", file, "--state-dir", state, "--json"],
        ]
        commands.append(["run", file, "--state-dir", state, "--master", "local[1]"])
        commands.append(["run", file, "--state-dir", state, "--master", "local[1]", "--json"])
        # Each command with each table and with each sign, and not every four of them.
        for command in commands if is_long() else commands[(number + TABLES.index(options)) % 4 :: 4]:
            _, text = output_of(*command)
            assert not [word for word in words(password) if word in text], (sign, command[0], text)
        for path, content in kept(folder, but=["p.sql"]):
            assert not [word for word in words(password) if word.encode() in content], (sign, path)


CATALOGS = [
    *(f"'type' = 'postgres', 'url' = '{url}'" for url in URLS),
    "'type' = 'postgres', 'url' = 'postgresql://127.0.0.1:1/shop', 'username' = 'me', 'password' = '{0}'",
    "'type' = 'postgres', 'url' = 'postgresql://127.0.0.1:1/shop', 'usr' = 'me', 'pasword' = '{0}'",
    "'type' = 'delta', 'path' = 's3://key:{0}@no-such-bucket-of-ours/x?endpoint=http://127.0.0.1:1'",
    "'type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = 'http://127.0.0.1:1', 'token' = '{0}'",
    "'type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = 'http://127.0.0.1:1', 'credential' = 'me:{0}'",
    "'type' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'postgresql+psycopg://me:{0}@127.0.0.1:1/db'",
    "'type' = 'iceberg', 'catalog-type' = 'glue', 'client.region' = 'a', 'glue.endpoint' = 'http://me:{0}@127.0.0.1:1'",
]


@pytest.mark.parametrize("options", CATALOGS)
def test_nothing_says_a_password_of_a_catalog(
    tmp_path: Path, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store is away: each command says so, at the table that needs it."""
    monkeypatch.setattr("sqlstream_operators.state.object_clients.RETRY_S", 0)
    for number, sign in enumerate(SIGNS):
        password = LEFT + sign + RIGHT
        folder = tmp_path / str(number)
        folder.mkdir()
        file, state = folder / "p.sql", folder / "state"
        file.write_text(
            f"CREATE CATALOG c WITH ({options.format(password)});\n"
            "CREATE TABLE o (k INT) WITH ('connector' = 'blackhole');\nINSERT INTO o SELECT k FROM c.d.t;\n"
        )
        commands: list[list[str | Path]] = [
            ["check", file],
            ["explain", file, "--format", "json"],
            ["plan", file, "--state-dir", state, "--json"],
            ["sql", file, "-c", "SHOW CREATE CATALOG c"],
            ["sql", file, "-c", "SHOW TABLES FROM c.d"],
        ]
        for command in commands if is_long() else commands[(number + CATALOGS.index(options)) % 5 :: 5]:
            code, text = output_of(*command)
            assert code != 0 or "SHOW CREATE CATALOG c" in command, text
            assert not [word for word in words(password) if word in text], (sign, command, text)


@pytest.mark.parametrize("where", ["s3://key:{0}@no-such-bucket-of-ours/x", "ftp://key:{0}@host/x"])
@pytest.mark.parametrize("sign", SIGNS)
def test_messages_with_the_address_of_a_state_directory(where: str, sign: str) -> None:
    uri = where.format(LEFT + sign + RIGHT)
    if any(c.isspace() for c in uri):
        return  # no URI, and where it ends in a text nobody can tell
    for text in (
        f"{uri} can't be opened",
        f"the state directory is '{uri}'",
        f"Cannot parse URI: '{uri}/epochs'",
    ):
        for shown in (masked_message(text), str(DiagnosticError(Diagnostic("ENV005", text)))):
            assert LEFT not in shown
            assert RIGHT not in shown
    assert LEFT + RIGHT not in without_password(uri)


@pytest.mark.parametrize("set_", JINJA)
@pytest.mark.parametrize(
    "use",
    ["'url' = 'postgresql://me:{{ x }}@h/db'", "'password' = '{{ x | trim }}'", "'password' = '{{ x }}'"],
)
def test_the_lines_of_a_mistake_hide_what_jinja_sets(set_: str, use: str) -> None:
    text = (
        f"{set_.format(LEFT + RIGHT)}-- not {LEFT + RIGHT}\n"
        f"CREATE TABLE t (a INT) WITH ('connector' = 'postgres', {use}, 'usrname' = 'u');\n"
        f"INSERT INTO t SELECT '{LEFT + RIGHT}' FROM nothing;\n"
    )
    shown = masked_source(text)
    assert LEFT not in shown
    assert [len(line) for line in shown.split("\n")] == [len(line) for line in text.split("\n")]
    for number in range(1, text.count("\n") + 1):
        assert LEFT not in render(Diagnostic("OPT002", "no such option", Span("p.sql", number, 1)), text)


def test_a_literal_in_jinja_in_an_address() -> None:
    for literal in (f'{{{{ "{LEFT}" }}}}', f"{{{{ '{LEFT}' }}}}", f'{{{{ var("pw", "{LEFT}") }}}}'):
        assert LEFT not in masked_source(f"'url' = 'postgresql://u:{literal}@h/db'")
    kept_ = "'url' = 'postgresql://u:{{ env_var(\"PW\") }}@h/db'"
    assert masked_source(kept_) == kept_


def test_what_a_server_says_of_a_password() -> None:
    secrets = Secrets({"t.password": "hunter2", "t.url.1": "abc"})
    error = DiagnosticError(
        Diagnostic("ENV006", "FATAL: no 'hunter2' here", notes=("hunter2!",), help="not hunter2, hunter22"),
        exit_code=7,
    )
    [shown] = secrets.hidden_in(error).diagnostics
    assert (shown.message, shown.notes) == ("FATAL: no '***' here", ("***!",))
    assert shown.help == "not ***, hunter22"
    assert secrets.hidden_in(error).exit_code == 7
    other = DiagnosticError(Diagnostic("ENV006", "abc"))
    assert secrets.hidden_in(other) is other


def test_addresses_with_two_at_signs_are_refused() -> None:
    """libpq takes what is behind the first one for the host, and tells it when that has no address."""
    text = (
        "CREATE TABLE t (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
        f"CREATE TABLE o (k INT) WITH ('connector' = 'postgres', 'url' = 'postgresql://me:abc@{LEFT}@h/db');\n"
        "INSERT INTO o SELECT k FROM t;\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    assert caught.value.diagnostics[0].code == "OPT003"
    assert "special characters written as %40" in str(caught.value.diagnostics[0].help)
    assert LEFT not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.spark
def test_the_settings_of_a_project_are_in_no_arguments(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": 1}\n')
    (tmp_path / "sqlstream.toml").write_text(f'[conf]\n"spark.hadoop.fs.s3a.secret.key" = "{LEFT}"\n')
    (tmp_path / "p.sql").write_text(
        "SET 'execution.single-task-rows' = '0';\n"
        "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS SELECT k FROM t;\n"
    )
    seen: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for process in Path("/proc").iterdir():
                if process.name.isdigit():
                    with contextlib.suppress(OSError):
                        seen.append((process / "cmdline").read_bytes())
            time.sleep(0.1)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "sqlstream", "run", "p.sql", "--master", "local[1]"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=240,
        )
    finally:
        done.set()
        watcher.join()
    assert ran.returncode == 0, ran.stderr
    assert any(b"java" in line and str(tmp_path).encode() not in line for line in seen)
    assert not [line for line in seen if LEFT.encode() in line]
    assert LEFT not in ran.stdout + ran.stderr
