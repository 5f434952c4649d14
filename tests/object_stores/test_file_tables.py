"""Tables of files in real servers of object stores: listed, read and written as local ones, whatever a server does."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from sqlstream.connectors.filesystem.paths import hidden_names, list_files, open_filesystem, resolve
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream_operators.errors import DataError
from sqlstream_operators.state.object_files import ObjectFiles
from sqlstream_planner.diagnostics import DiagnosticError
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.in_process import run_here

_NAMES = [
    "d1/a.json",
    "d1/a10.json",
    "d1/a9.json",
    "d2/k=a%2Fb/c d.json",
    "d2/k=a%2Fb/ä+.csv",
    "d2/_hidden/x.json",
    "d2/.x.json",
    "top.json",
]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


def files(server: StoreServer, folder: str) -> ObjectFiles:
    """What is in a folder of the server."""
    return ObjectFiles(server.uri(folder))


def uri(server: StoreServer, path: str, port: int | None = None) -> str:
    """A path as an option of a table has it."""
    return server.uri(path, port=port).replace("'", "''")


@pytest.fixture(scope="module")
def there(server: StoreServer) -> StoreServer:
    """The server with files of many names in a folder."""
    for name in _NAMES:
        files(server, "listing").put(name, name.encode())
    return server


class TestListing:
    @pytest.mark.parametrize(
        ("path", "found"),
        [
            ("listing", ["d1/a9.json", "d1/a10.json", "d1/a.json", *_NAMES[3:5], "top.json"]),
            ("listing/", ["d1/a9.json", "d1/a10.json", "d1/a.json", *_NAMES[3:5], "top.json"]),
            ("listing/d1", ["d1/a9.json", "d1/a10.json", "d1/a.json"]),
            ("listing/d1/a?.json", ["d1/a9.json"]),
            ("listing/**/*.{csv,json}", ["d1/a9.json", "d1/a10.json", "d1/a.json", *_NAMES[3:5], "top.json"]),
            ("listing/d2/*", _NAMES[3:5]),
            ("listing/d2/*/*.json", [_NAMES[3]]),
            ("listing/top.json", ["top.json"]),
            ("listing/d2/_hidden/x.json", ["d2/_hidden/x.json"]),
        ],
    )
    def test_files_are_those_of_a_folder(self, there: StoreServer, path: str, found: list[str]) -> None:
        entries = list_files(resolve(there.uri(path), "/"))
        assert [e.path for e in entries] == [there.place(f"listing/{name}") for name in found]
        for entry in entries:
            name = entry.path.removeprefix(there.place("listing/"))
            assert entry.size == len(name.encode())
            assert there.secret not in repr(entry)
            filesystem, inside = open_filesystem(entry.location)
            with filesystem.open_input_file(inside) as opened:
                assert (opened.size(), opened.read()) == (entry.size, name.encode())
                opened.seek(2)
                assert opened.read(3) == name.encode()[2:5]

    def test_hidden_names(self, there: StoreServer) -> None:
        assert hidden_names(there.uri("listing/d2/*.json")) == [".x.json", "_hidden/x.json"]

    def test_what_is_not_there(self, there: StoreServer) -> None:
        for path, help_ in (
            ("listing/tap.json", "listing/top.json"),
            ("listing/d1/b.json", "listing/d1/a.json"),
            ("nowhere/at/all", None),
            ("listing/d4/*.json", None),
        ):
            with pytest.raises(DiagnosticError) as raised:
                list_files(there.uri(path))
            (found,) = raised.value.diagnostics
            assert found.code == "DAT004"
            assert f"'{there.place(path)}' does not exist" in found.message
            assert found.help == (help_ and f"did you mean '{there.place(help_)}'?")
            assert there.secret not in str(found.to_json())

    def test_a_bucket_that_is_not_there(self, there: StoreServer) -> None:
        for path in ("tests-2/x", "tests-2", "tests-2/*.json"):
            with pytest.raises(DiagnosticError, match=f"there is no such {there.kind}") as raised:
                list_files(there.uri("").replace("tests/", path, 1))
            assert raised.value.diagnostics[0].code == "DAT004"

    def test_a_key_that_is_refused(self, there: StoreServer) -> None:
        with pytest.raises(PermissionError, match="403") as raised:
            list_files(there.refused("listing"))
        assert there.secret not in str(raised.value)

    def test_an_option_that_there_is_not(self, there: StoreServer) -> None:
        with pytest.raises(DataError, match="can't be opened") as raised:
            list_files(there.uri("listing") + "&colour=red")
        assert there.secret not in str(raised.value)


_FORMATS = ["json", "csv", "parquet", "avro"]
_COLUMNS = "k INT, v STRING, d DECIMAL(10, 2)"
_SELECT = "SELECT k, v, d * 2 AS d FROM t WHERE k % 3 <> 0"


def run(folder: Path, text: str, **options: object) -> RunResult:
    """Run a pipeline's text in a folder."""
    return run_here(plan_file(text, file="p.sql"), folder, **options)  # type: ignore[arg-type]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", _FORMATS)
def test_rows_there_and_back(server: StoreServer, tmp_path: Path, format_: str) -> None:
    """Written to the store by one pipeline, in partitions whose names need care, read by another; and both go on."""
    wanted: list[tuple[int, str]] = []
    (tmp_path / "in").mkdir()
    for number in range(2):
        rows = [(k, f"a/b {k % 2}%?é") for k in range(number * 100, number * 100 + 100)]
        wanted += rows
        lines = [json.dumps({"k": k, "v": v, "d": f"{k}.25"}) for k, v in rows]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
        stored = uri(server, f"back/{format_}")
        options = f"'connector' = 'filesystem', 'path' = '{stored}', 'format' = '{format_}'"
        run(
            tmp_path,
            f"CREATE TABLE t ({_COLUMNS}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
            f"CREATE TABLE o ({_COLUMNS}) PARTITIONED BY (v) WITH ({options});\n"
            "INSERT INTO o SELECT k, v, d FROM t;\n",
            rows_per_epoch=40,
        )
        run(
            tmp_path,
            f"CREATE TABLE t ({_COLUMNS}) PARTITIONED BY (v) WITH ({options});\n"
            "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet') AS "
            f"{_SELECT};\n",
            state="state-2",
            rows_per_epoch=30,
        )
        found = duckdb.sql(f"SELECT k, v, d FROM read_parquet('{tmp_path}/out/**/*.parquet') ORDER BY k")
        assert [(k, v, str(d)) for k, v, d in found.fetchall()] == [
            (k, v, f"{2 * (k + 0.25):.2f}") for k, v in wanted if k % 3
        ]
    names = [e.path for e in list_files(server.uri(f"back/{format_}"))]
    assert {name.split("/")[5] for name in names} == {"v=a%2Fb 0%25%3Fé", "v=a%2Fb 1%25%3Fé"}


def test_compressed_and_damaged_files(server: StoreServer, tmp_path: Path) -> None:
    stored = files(server, "bad")
    stored.put("1.json.gz", gzip.compress(b'{"k": 1, "v": "a"}\n{"k": 2, "v": "b"}\n'))
    stored.put("2.json", b'{"k": 3, "v": "c"}\nnot json\n{"k": 4, "v": "d"}\n')
    result = run(
        tmp_path,
        "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{uri(server, 'bad/*')}');\n"
        "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet') AS SELECT * FROM t;\n",
    )
    found = duckdb.sql(f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet') ORDER BY ALL").fetchall()
    assert found == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert dict(result.dead_letters) == {"malformed": 1}


def test_large_text_is_cut_into_ranges_and_written_in_files(server: StoreServer, tmp_path: Path) -> None:
    """A file that several tasks read a part of each, and rows that are more than the memory keeps of a file."""
    rows = 60_000
    text = "".join(f'{{"k": {k}, "v": "{"x" * 400}{k}"}}\n' for k in range(rows))
    files(server, "large").put("one.json", text.encode())
    run(
        tmp_path,
        "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{uri(server, 'large')}');\n"
        "CREATE TABLE o WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{uri(server, 'large-out')}') AS SELECT k, v FROM t;\n",
    )
    found = list_files(server.uri("large-out"))
    assert max(entry.size for entry in found) > 8 << 20
    copies = tmp_path / "copies"
    copies.mkdir()
    for number, entry in enumerate(found):
        ObjectFiles(server.uri("large-out")).download(
            entry.path.removeprefix(server.place("large-out/")), copies / f"{number}.csv"
        )
    counted = duckdb.sql(
        f"SELECT count(*), sum(k), count(DISTINCT v) FROM read_csv('{copies}/*.csv', names = ['k', 'v'])"
    )
    assert counted.fetchall() == [(rows, rows * (rows - 1) // 2, rows)]


def test_a_store_that_fails_now_and_then(server: StoreServer, tmp_path: Path) -> None:
    """Each first request of a method for a name is busy, reset or answered to nobody: rows are there once all the same."""
    for number in range(3):
        rows = "".join(f'{{"k": {k}, "v": "{k % 7}"}}\n' for k in range(number * 50, number * 50 + 50))
        files(server, "fails").put(f"{number}.json", rows.encode())
    count = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal count
        count += 1
        return (Fault.BUSY, Fault.RESET, Fault.LOST)[count // 5 % 3] if not count % 5 else Fault.NONE

    with proxy_of(server) as proxy:
        proxy.choose = choose
        run(
            tmp_path,
            "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{uri(server, 'fails', proxy.port)}');\n"
            "CREATE TABLE o WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{uri(server, 'fails-out', proxy.port)}') AS SELECT k, v FROM t;\n",
            rows_per_epoch=30,
        )
    assert count > 50
    there = files(server, "fails-out")
    lines = [
        json.loads(line)
        for name in there.list("")
        if name.endswith(".json") and not name.startswith(".")
        for line in there.get(name).splitlines()
    ]
    assert sorted(line["k"] for line in lines) == list(range(150))


def test_a_state_of_before_that_has_an_object_with_its_options(server: StoreServer, tmp_path: Path) -> None:
    """Former versions kept the options of a single object's URI with its name: it is not read a second time."""
    files(server, "single").put("one.json", b'{"k": 1, "v": "a"}\n')
    text = (
        "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{uri(server, 'single/one.json')}');\n"
        "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet') AS SELECT * FROM t;\n"
    )
    from sqlstream.connectors.filesystem.listing import Listed, ListingLog
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    (entry,) = list_files(server.uri("single/one.json"))
    store = CheckpointStore(tmp_path / "log")
    options = server.uri("single/one.json").partition("?")[2]
    log = ListingLog(store, "sources/t", server.place("single/"))
    log.append([Listed(dataclasses.replace(entry, path=f"{entry.path}?{options}"), False)])
    again = ListingLog(store, "sources/t", server.place("single/"), entry.opening)
    assert again.number(entry.path) == 0
    assert again.files[0].entry == entry
    assert again.files[0].entry.location == entry.location
    run(tmp_path, text)
    assert duckdb.sql(f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet')").fetchall() == [(1, "a")]


def test_what_is_read_in_parts_is_fetched_once(server: StoreServer, tmp_path: Path) -> None:
    """Each epoch reads some rows of an object that can only be read as a whole file: this machine keeps a copy."""
    made = duckdb.sql("SELECT i::INT AS k, 'x' || i AS v FROM range(300) t(i)")
    made.write_parquet(str(tmp_path / "one.parquet"))
    files(server, "parts").put("one.parquet", tmp_path / "one.parquet")
    read: list[str] = []

    def choose(method: str, path: str, before: int) -> Fault:
        if method == "GET" and "one.parquet" in path:
            read.append(path)
        return Fault.NONE

    with proxy_of(server) as proxy:
        proxy.choose = choose
        result = run(
            tmp_path,
            "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{uri(server, 'parts', proxy.port)}');\n"
            "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet') AS SELECT * FROM t;\n",
            rows_per_epoch=40,
        )
    assert result.epochs == 8
    found = duckdb.sql(f"SELECT k, v FROM read_parquet('{tmp_path}/out/*.parquet') ORDER BY k").fetchall()
    assert found == [(k, f"x{k}") for k in range(300)]
    assert len(read) <= 4, "the copy, and what planning looks at"


@pytest.mark.parametrize("keys", [4, 400])
def test_requests_of_an_epoch(server: StoreServer, tmp_path: Path, keys: int) -> None:
    """As many as the server gets, and a number for each shard, not for each key."""
    (tmp_path / "in").mkdir()
    lines = "".join(f'{{"k": {k % keys}, "v": "x"}}\n' for k in range(2000))
    (tmp_path / "in" / "1.json").write_text(lines)
    said: list[int] = []
    got: list[int] = []
    with proxy_of(server) as proxy:

        def on_epoch(report: EpochReport) -> None:
            said.append(report.to_json()["store_requests"])
            got.append(proxy.requests.total())

        result = run(
            tmp_path,
            "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = 'in');\n"
            "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'debezium-json') AS "
            "SELECT k, count(*) AS n FROM t GROUP BY k;\n",
            state_dir=server.uri(f"requests-{keys}", port=proxy.port),
            rows_per_epoch=400,
            on_epoch=on_epoch,
        )
    assert result.epochs == 5
    assert said[1:] == [now - before for before, now in pairwise(got)]
    assert max(said[1:]) <= 16


def test_on_spark(server: StoreServer, tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    """Tasks in processes of their own read, write and keep state there, and say how many requests that took."""
    for number in range(3):
        rows = "".join(f'{{"k": {k % 9}, "v": "x"}}\n' for k in range(500))
        files(server, "spark").put(f"{number}.json", rows.encode())
    said: list[int] = []
    got: list[int] = []
    with proxy_of(server) as proxy:

        def on_epoch(report: EpochReport) -> None:
            said.append(report.store_requests)
            got.append(proxy.requests.total())

        planned = plan_file(
            "SET 'execution.single-task-rows' = '0';\n"
            "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{uri(server, 'spark', proxy.port)}');\n"
            "CREATE TABLE o WITH ('connector' = 'filesystem', 'format' = 'debezium-json', "
            f"'path' = '{uri(server, 'spark-out', proxy.port)}') AS SELECT k, count(*) AS n FROM t GROUP BY k;\n",
            file="p.sql",
        )
        run_pipeline(
            RunRequest(
                planned.physical,
                secrets=planned.secrets,
                nodes=planned.state_nodes,
                state_dir=server.uri("spark-state", port=proxy.port),
                base_dir=tmp_path,
                parallelism=2,
                max_rows_per_epoch=600,
                runner=spark_runner,
                on_epoch=on_epoch,
            )
        )
    assert said[1:] == [now - before for before, now in pairwise(got)]
    assert len(said) == 3
    there = files(server, "spark-out")
    counts: dict[int, int] = {}
    for name in there.list(""):
        if name.endswith(".json") and not name.startswith("."):
            for line in there.get(name).splitlines():
                change = json.loads(line)
                if change["op"] != "d":
                    counts[change["after"]["k"]] = change["after"]["n"]
    assert sum(counts.values()) == 1500
