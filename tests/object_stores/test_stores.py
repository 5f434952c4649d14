"""Checkpoints in real servers of object stores: files by name, creation that one of many wins, and what a store refuses."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import obstore
import pytest

from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state import object_clients
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.object_stores.azure_server import AzureServer
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


def test_files_are_what_was_written(server: StoreServer, tmp_path: Path) -> None:
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
        with pytest.raises(FileNotFoundError, match=server.place("files/nope")) as raised:
            missing("nope")
        assert server.secret not in str(raised.value)


def test_names_are_any_text(server: StoreServer) -> None:
    store = CheckpointStore(server.uri("names of files/ä"))
    names = ["a b", "c+d", "e=f/ä%20", "shards/000/~x", "p&q;r"]
    for name in names:
        store.put(name, name.encode())
    assert store.list() == sorted(names)
    assert [store.get(name) for name in names] == [name.encode() for name in names]


def test_one_of_many_creates_a_file(server: StoreServer) -> None:
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


def test_an_answer_that_was_lost_is_no_other_writer(server: StoreServer) -> None:
    """The client sends such a request again, and the server refuses the second for the first."""
    store = CheckpointStore(server.uri("lost"))
    store.put_exclusive("one", b"mine")
    store.put_exclusive("one", b"mine")
    with pytest.raises(FileExistsError, match=server.place("lost/one")):
        store.put_exclusive("one", b"another")


def test_a_wrong_key_is_refused_at_once(server: StoreServer) -> None:
    store = CheckpointStore(server.refused("x"))
    for ask in (store.list, lambda: store.get("a"), lambda: store.put("a", b""), lambda: store.size("a")):
        with pytest.raises(PermissionError, match=rf"{server.place('x')}/.*403 Forbidden"):
            ask()


def test_a_bucket_that_is_not_there_is_named(server: StoreServer) -> None:
    store = CheckpointStore(server.uri("x").replace("tests/", "elsewhere/"))
    for ask in (store.list, lambda: store.get("a"), lambda: store.put_exclusive("a", b"")):
        with pytest.raises(
            StorePlaceError, match=f"{server.scheme}://elsewhere/x: there is no such {server.kind}"
        ):
            ask()


def test_keys_are_those_of_the_environment(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    store = CheckpointStore(server.uri("environment", login=False))
    store.put("a", b"1")
    assert store.get("a") == b"1"


@pytest.mark.parametrize("by", ["the server", "an option"])
def test_a_store_that_creates_over_what_is_there_is_refused(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """As servers do that don't know `If-None-Match`: here the client does not send it."""
    put = obstore.put

    def without_condition(store: Any, name: str, content: bytes, **options: Any) -> Any:
        return put(store, name, content)

    if by == "an option" and server.scheme != "s3":
        pytest.skip("it is one of S3's")
    if by == "the server":
        monkeypatch.setattr(obstore, "put", without_condition)
    store = CheckpointStore(
        f"{server.uri('unsafe')}{'&conditional_put=disabled' if by == 'an option' else ''}"
    )
    for _ in range(2):
        with pytest.raises(StorePlaceError) as raised:
            store.put_exclusive("a", b"1")
    assert str(raised.value).startswith(f"{server.place('unsafe')} can't hold checkpoints: ")
    assert store.list() == []


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.LOST])
def test_requests_are_repeated(server: StoreServer, tmp_path: Path, fault: Fault) -> None:
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


def test_many_files_are_deleted_with_a_request(server: StoreServer) -> None:
    with proxy_of(server) as proxy:
        store = CheckpointStore(server.uri("many", port=proxy.port))
        for number in range(30):
            store.put(f"f/{number}", b"1")
        proxy.requests.clear()
        store.delete_all([f"f/{number}" for number in range(1, 25)])
        store.delete_all([])
        assert proxy.requests == {"POST": 1}
        store.delete_all([f"f/{number}" for number in range(1, 40)])
        assert store.list() == ["f/0"]


def test_a_server_that_stays_busy_is_an_error_after_a_while(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_clients, "RETRY_S", 1)
    with proxy_of(server) as proxy:
        proxy.choose = lambda method, path, before: Fault.BUSY
        store = CheckpointStore(server.uri("busy", port=proxy.port))
        with pytest.raises(OSError, match=f"{server.place('busy/a')}: .*503") as raised:
            store.put("a", b"1")
        assert proxy.requests["PUT"] > 2
        assert "\n" not in str(raised.value)


def test_a_server_that_is_killed_and_comes_back_is_waited_for(server: StoreServer) -> None:
    store = CheckpointStore(server.uri("away"))
    store.put("a", b"1")
    server.kill()
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(store.get("a")))
    thread.start()
    server.start()
    thread.join(60)
    assert got == [b"1"]


def test_more_objects_than_a_page_of_a_list(server: StoreServer) -> None:
    """Pages are of 1000 objects in S3; of Azure's, which are of 5000, the proxy asks for smaller ones."""
    with proxy_of(server) as proxy:
        count, uri = 1100, server.uri("pages", port=proxy.port)
        if isinstance(server, AzureServer):
            count, proxy.page, uri = 330, 100, server.signed_uri("pages", port=proxy.port)
        store = CheckpointStore(uri)
        names = [f"f/{number:05}" for number in range(count)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: store.put(name, b"1"), names))
        proxy.requests.clear()
        assert store.list() == names
        assert proxy.requests == {"GET": 4 if server.scheme == "az" else 2}
        store.delete_all(names)
        assert proxy.requests["POST"] == 2
        assert store.list() == []
