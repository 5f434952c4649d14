"""What only S3's URIs have: the region of a bucket; and URIs of no store at all."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from obstore.store import S3Store

from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state import object_clients
from sqlstream_operators.state.checkpoint_store import CheckpointStore


@pytest.mark.parametrize("uri", ["hdfs://h:1/x", "nope://b/x", "s3:///x", "s3://b/x?colour=red"])
def test_a_uri_of_no_store_is_refused(uri: str) -> None:
    with pytest.raises(StorePlaceError, match="can't be opened"):
        CheckpointStore(uri)


def region(uri: str) -> str | None:
    """The region that a client was made with."""
    store = object_clients.opened(uri)
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

    for name in object_clients._REGIONS:
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as amazon:
        threading.Thread(target=amazon.serve_forever, daemon=True).start()
        monkeypatch.setattr(object_clients, "_AMAZON", f"http://127.0.0.1:{amazon.server_port}")
        for uri in ("s3://k:s@a.bucket/x", "s3a://a.bucket/x"):
            assert region(uri) == said
        assert asked == ["/a.bucket", "/a.bucket"]
        object_clients.opened("s3://a.bucket/x?region=us-east-2")
        object_clients.opened("s3://a.bucket/x?endpoint=http://127.0.0.1:1")
        monkeypatch.setenv("AWS_REGION", "us-east-2")
        object_clients.opened("s3://a.bucket/x")
        assert len(asked) == 2
        amazon.shutdown()


def test_amazon_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in object_clients._REGIONS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(object_clients, "_AMAZON", "http://127.0.0.1:1")
    assert region("s3://bucket/x") is None
