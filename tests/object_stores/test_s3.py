"""Checkpoints in a real S3 server: files by name, creation that one of many wins, and what a store refuses."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state import object_files
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.s3_server import KEY, SECRET, S3Server, run_server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    yield from run_server()


def test_files_are_what_was_written(server: S3Server, tmp_path: Path) -> None:
    store = CheckpointStore(server.uri("files"))
    assert (store.list(), store.size("a"), store.exists("a")) == ([], None, False)
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 90_000)  # 23 MB: in parts
    store.put("x/y.bin", b"1")
    store.put("x/y.bin", b"")
    store.put("z", large)
    assert (store.get("x/y.bin"), store.get("z")) == (b"", large.read_bytes())
    assert (store.list(), store.list("x"), store.list("x/"), store.list("nothing")) == (
        ["x/y.bin", "z"],
        ["x/y.bin"],
        ["x/y.bin"],
        [],
    )
    assert (store.size("z"), store.size("x")) == (large.stat().st_size, None)
    with store.open("z") as opened:
        assert (opened.read(5), opened.read()) == (large.read_bytes()[:5], large.read_bytes()[5:])
    again: CheckpointStore = pickle.loads(pickle.dumps(store))
    again.download("z", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    assert (store.below("x").list(), store.below("x").get("y.bin")) == (["y.bin"], b"")
    for _ in range(2):
        store.move("z", "x/z")
        assert store.list() == ["x/y.bin", "x/z"]
    for _ in range(2):
        store.delete("x/z")
    assert store.list() == ["x/y.bin"]
    for missing in (store.get, store.open):
        with pytest.raises(FileNotFoundError, match="s3://tests/files/nope") as raised:
            missing("nope")
        assert SECRET not in str(raised.value)


def test_names_are_any_text(server: S3Server) -> None:
    store = CheckpointStore(server.uri("names of files/ä"))
    names = ["a b", "c+d", "e=f/ä%20", "shards/000/~x", "p&q;r"]
    for name in names:
        store.put(name, name.encode())
    assert store.list() == sorted(names)
    assert [store.get(name) for name in names] == [name.encode() for name in names]


def test_one_of_many_creates_a_file(server: S3Server) -> None:
    """Each is a driver with a client of its own; who loses is told, and the file is the winner's."""
    stores = [CheckpointStore(server.uri("race")) for _ in range(6)]
    for number in range(25):
        won: list[int] = []
        start = threading.Barrier(len(stores))

        def create(mine: int, name: str, start: threading.Barrier, won: list[int]) -> None:
            start.wait()
            try:
                stores[mine].put_exclusive(name, str(mine).encode())
            except FileExistsError:
                return
            won.append(mine)

        threads = [
            threading.Thread(target=create, args=(mine, f"{number}.json", start, won))
            for mine in range(len(stores))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert stores[0].get(f"{number}.json") == str(won[0]).encode()
    assert [name for name in stores[0].list() if not name.endswith(".json")] == [], "it tried, and tidied up"


def test_an_answer_that_was_lost_is_no_other_writer(server: S3Server) -> None:
    """The client sends such a request again, and the server refuses the second for the first."""
    store = CheckpointStore(server.uri("lost"))
    store.put_exclusive("one", b"mine")
    store.put_exclusive("one", b"mine")
    with pytest.raises(FileExistsError, match="s3://tests/lost/one"):
        store.put_exclusive("one", b"another")


def test_a_wrong_key_is_refused_at_once(server: S3Server) -> None:
    store = CheckpointStore(server.uri("x").replace(KEY, "somebody"))
    for ask in (store.list, lambda: store.get("a"), lambda: store.put("a", b""), lambda: store.size("a")):
        with pytest.raises(PermissionError, match=r"s3://tests/x/.*403 Forbidden"):
            ask()


def test_a_bucket_that_is_not_there_is_named(server: S3Server) -> None:
    store = CheckpointStore(server.uri("x").replace("tests/", "elsewhere/"))
    for ask in (store.list, lambda: store.get("a"), lambda: store.put_exclusive("a", b"")):
        with pytest.raises(StorePlaceError, match="s3://elsewhere/x: there is no such bucket"):
            ask()


def test_keys_are_those_of_the_environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store = CheckpointStore(server.uri("environment", login=False))
    store.put("a", b"1")
    assert store.get("a") == b"1"


@pytest.mark.parametrize("by", ["the server", "an option"])
def test_a_store_that_creates_over_what_is_there_is_refused(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """As servers do that don't know `If-None-Match`: here the client does not send it."""
    put = obstore.put

    def without_condition(store: Any, name: str, content: bytes, **options: Any) -> Any:
        return put(store, name, content)

    if by == "the server":
        monkeypatch.setattr(obstore, "put", without_condition)
    store = CheckpointStore(
        f"{server.uri('unsafe')}{'&conditional_put=disabled' if by == 'an option' else ''}"
    )
    for _ in range(2):
        with pytest.raises(StorePlaceError) as raised:
            store.put_exclusive("a", b"1")
    assert str(raised.value).startswith("s3://tests/unsafe can't hold checkpoints: ")
    assert store.list() == []


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.LOST])
def test_requests_are_repeated(server: S3Server, tmp_path: Path, fault: Fault) -> None:
    """The first two of each fail; none of them has another effect than one that is answered."""
    content = bytes(range(256)) * 50_000  # 13 MB: in parts
    (tmp_path / "large").write_bytes(content)
    with proxy_of(server) as proxy:
        proxy.choose = lambda method, path, before: fault if before < 2 else Fault.NONE
        store = CheckpointStore(server.uri(f"repeated-{fault.name}", port=proxy.port))
        store.put_exclusive("one", b"1")
        with pytest.raises(FileExistsError):
            store.put_exclusive("one", b"2")
        store.put("large", tmp_path / "large")
        assert (store.get("one"), store.get("large")) == (b"1", content)
        assert store.list() == ["large", "one"]
        assert store.size("large") == len(content)
        with store.open("large") as opened:
            assert opened.read() == content
        store.download("large", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == content
        store.move("one", "two")
        store.delete("large")
        assert store.list() == ["two"]


def test_many_files_are_deleted_with_a_request(server: S3Server) -> None:
    with proxy_of(server) as proxy:
        store = CheckpointStore(server.uri("many", port=proxy.port))
        for number in range(30):
            store.put(f"f/{number}", b"1")
        proxy.requests.clear()
        store.delete_all([f"f/{number}" for number in range(1, 40)])
        store.delete_all([])
        assert proxy.requests == {"POST": 1}
        assert store.list() == ["f/0"]


def test_a_server_that_stays_busy_is_an_error_after_a_while(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_files, "_RETRY_S", 1)
    with proxy_of(server) as proxy:
        proxy.choose = lambda method, path, before: Fault.BUSY
        store = CheckpointStore(server.uri("busy", port=proxy.port))
        with pytest.raises(OSError, match=r"s3://tests/busy/a: .*503") as raised:
            store.put("a", b"1")
        assert proxy.requests["PUT"] > 2
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("uri", ["hdfs://h:1/x", "nope://b/x", "s3:///x", "s3://b/x?colour=red"])
def test_a_uri_of_no_store_is_refused(uri: str) -> None:
    with pytest.raises(StorePlaceError, match="can't be opened"):
        CheckpointStore(uri)


def region(uri: str) -> str | None:
    """The region that a client was made with."""
    store = object_files.opened(uri)
    assert isinstance(store, S3Store)
    return store.config.get("region")


@pytest.mark.parametrize(
    ("status", "said"), [(200, "eu-west-3"), (301, "eu-west-3"), (403, "eu-west-3"), (404, None)]
)
def test_the_region_of_a_bucket_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, status: int, said: str | None
) -> None:
    """As other tools do, where nobody says it; with a login or an address of its own nothing is asked of Amazon."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            if said is not None:
                self.send_header("x-amz-bucket-region", said)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    for name in object_files._REGIONS:
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as amazon:
        threading.Thread(target=amazon.serve_forever, daemon=True).start()
        monkeypatch.setattr(object_files, "_AMAZON", f"http://127.0.0.1:{amazon.server_port}")
        for uri in ("s3://k:s@a.bucket/x", "s3a://a.bucket/x"):
            assert region(uri) == said
        assert asked == ["/a.bucket", "/a.bucket"]
        object_files.opened("s3://a.bucket/x?region=us-east-2")
        object_files.opened("s3://a.bucket/x?endpoint=http://127.0.0.1:1")
        monkeypatch.setenv("AWS_REGION", "us-east-2")
        object_files.opened("s3://a.bucket/x")
        assert len(asked) == 2
        amazon.shutdown()


def test_amazon_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in object_files._REGIONS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(object_files, "_AMAZON", "http://127.0.0.1:1")
    assert region("s3://bucket/x") is None


def test_a_server_that_is_killed_and_comes_back_is_waited_for(server: S3Server) -> None:
    store = CheckpointStore(server.uri("away"))
    store.put("a", b"1")
    server.kill()
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(store.get("a")))
    thread.start()
    server.start()
    thread.join(60)
    assert got == [b"1"]
