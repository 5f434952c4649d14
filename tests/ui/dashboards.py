"""Pipelines that ran here, and a dashboard that shows them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.ui.server import served
from sqlstream_operators.state.checkpoint_store import CheckpointStore

SHOP = """
CREATE TABLE orders (customer STRING, amount BIGINT, at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' MINUTE) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE per_hour WITH ('connector' = 'filesystem', 'path' = 'per_hour', 'format' = 'json') AS
SELECT window_start, customer, COUNT(*) AS orders, SUM(amount) AS amount
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, customer;
CREATE TABLE spent WITH ('connector' = 'duckdb', 'path' = 'spent.duckdb') AS
SELECT customer, SUM(amount) AS spent FROM orders GROUP BY customer;
"""


def write_orders(folder: Path, name: str, rows: int, *, first: int = 0) -> None:
    """A file of orders, one a minute, with a line that can't be read."""
    (folder / "in").mkdir(exist_ok=True)
    lines = [
        json.dumps(
            {
                "customer": f"c{n % 5}",
                "amount": n,
                "at": f"2026-01-0{1 + n // 1440} {n // 60 % 24:02d}:{n % 60:02d}:00",
            }
        )
        for n in range(first, first + rows)
    ]
    (folder / "in" / name).write_text("\n".join([*lines, '{"customer": "c9", "amount": "many"}', ""]))


def run(folder: Path, sql: str = SHOP, **options: Any) -> CheckpointStore:
    """Run a pipeline of `folder` in this process; gives its state directory."""
    (folder / "p.sql").write_text(sql)
    planned = plan_file(folder / "p.sql")
    request = RunRequest(
        planned.physical,
        state_dir=folder / "state",
        secrets=planned.secrets,
        sql=planned.masked_sql,
        nodes=planned.state_nodes,
        written=planned.written,
        place_of=planned.place_of,
        base_dir=folder,
        runner=InProcessRunner(2),
        parallelism=2,
        sync=False,
        name="shop",
        **options,
    )
    run_pipeline(request)
    return CheckpointStore(str(folder / "state"))


@dataclass(frozen=True)
class Client:
    """Asks a dashboard as a browser does."""

    url: str

    def ask(
        self, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        """The status, the JSON (or the text) and the headers of an answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = dict(headers or {}) | ({"content-type": "application/json"} if data is not None else {})
        request = urllib.request.Request(f"{self.url}{path}", data, given)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _content(answer.read()), dict(answer.headers.items())
        except urllib.error.HTTPError as error:
            return error.code, _content(error.read()), dict(error.headers.items())

    def get(self, path: str) -> Any:
        """The JSON of an answer that is well."""
        status, found, _ = self.ask(f"api/{path}")
        assert status == 200, (path, found)
        return found

    def post(self, path: str, body: Any) -> Any:
        """The same of a request with a body."""
        status, found, _ = self.ask(f"api/{path}", body)
        assert status == 200, (path, found)
        return found


def _content(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


@contextmanager
def dashboard(*stores: CheckpointStore, host: str = "127.0.0.1") -> Iterator[Client]:
    """A dashboard of state directories, at a port that is free."""
    with served(lambda: [("shop", store) for store in stores], host, 0) as url:
        yield Client(url.partition("#")[0])
