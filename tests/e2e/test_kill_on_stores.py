"""Drivers killed at any step, with their state and files on the server of an object store, which goes away, too."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream_operators.state.object_files import ObjectFiles
from tests.e2e.killing import POINTS, Killer, Order, steps_within
from tests.e2e.test_kill import QUERIES, data, start
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.referee import Pipeline, assert_same

pytestmark = pytest.mark.kill


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


def same(pipeline: Pipeline) -> None:
    for sink in (1, 2):
        assert_same(pipeline.output(sink), pipeline.expected(sink))


def moved(pipeline: Pipeline, server: StoreServer, folder: str) -> ObjectFiles:
    """Have a pipeline read and write its files on the server; what is there."""
    there = ObjectFiles(server.uri(folder))
    for file in (pipeline.folder / "input").iterdir():
        there.put(f"input/{file.name}", file)
    text = pipeline.folder / "pipeline.sql"
    text.write_text(
        re.sub(
            r"'path' = '(\w+)'",
            lambda path: f"'path' = '{server.uri(f'{folder}/{path[1]}')}'",
            text.read_text(),
        )
    )
    return there


def fetched(pipeline: Pipeline, there: ObjectFiles) -> None:
    """Copy what readers see of the output to where the pipeline would have written it."""
    for name in there.list(""):
        if name.startswith("out_") and "/." not in name:
            (pipeline.folder / name).parent.mkdir(exist_ok=True)
            there.download(name, pipeline.folder / name)


def test_kills_at_points_and_steps(server: StoreServer, tmp_path: Path) -> None:
    """With the input and the output on the server, too."""
    rng = random.Random(5)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(rng, 1000, 3), delay=5)
    there = moved(pipeline, server, "tables")
    where = {"STATE_DIR": server.uri("kills")}
    with Killer.running(tmp_path) as killer:
        for shards, point in enumerate(POINTS):
            killer.kill(Order(str(pipeline.folder), 60, 1 + shards % 3, point, 2, environment=where))
        first = killer.run(
            Order(str(pipeline.folder), 60, 2, "collected", 2, counted=True, environment=where)
        )
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 5):
            killer.kill(Order(str(pipeline.folder), 60, rng.choice([1, 2, 3]), step=step, environment=where))
        killer.finish(Order(str(pipeline.folder), 600, 2, environment=where))
    assert there.list("out_1/.sqlstream/staging") == []
    fetched(pipeline, there)
    same(pipeline)


def test_a_store_that_fails_now_and_then_and_is_away_for_a_while(server: StoreServer, tmp_path: Path) -> None:
    """Every seventh request is answered with 503, reset, or lost; for three seconds there is no server at all."""
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(6), 700, 3), delay=5)
    lock, count = threading.Lock(), 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal count
        with lock:
            count += 1
            if count % 7:
                return Fault.NONE
            return (Fault.BUSY, Fault.RESET, Fault.LOST)[count // 7 % 3]

    with proxy_of(server) as proxy:
        proxy.choose = choose
        where = {"STATE_DIR": server.uri("fails", port=proxy.port)}
        driver = start(pipeline.folder, 60, 2, environment=where)
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.startswith("epoch 4"):
                server.kill()
                time.sleep(3)
                server.start()
        assert driver.wait(60) == 0, driver.stderr.read() if driver.stderr else ""
        assert count > 100
    same(pipeline)


def test_lists_that_lag(server: StoreServer, tmp_path: Path) -> None:
    """Where lists lack what was written in the last seconds, each driver goes on behind what the one before committed."""
    if server.scheme != "s3":
        pytest.skip("the proxy knows the lists of S3, and no other store has lists that lag")
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(4), 700, 3), delay=5)
    there = moved(pipeline, server, "lagging")
    with proxy_of(server) as proxy, Killer.running(tmp_path) as killer:
        where = {"STATE_DIR": server.uri("lagging-state", port=proxy.port)}
        killer.kill(Order(str(pipeline.folder), 60, 2, "collected", 2, environment=where))
        proxy.list_lag_s = 3
        for point in ("planned", "published", "committed"):
            killer.kill(Order(str(pipeline.folder), 60, 2, point, 1, environment=where))
        killer.finish(Order(str(pipeline.folder), 600, 2, environment=where))
    fetched(pipeline, there)
    same(pipeline)


def test_two_drivers_on_one_state_directory(server: StoreServer, tmp_path: Path) -> None:
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(3), 700, 3), delay=5)
    where = {"STATE_DIR": server.uri("two")}
    # So many epochs that it is still at work when the second one has started, on a busy machine, too.
    first = start(pipeline.folder, 10, 2, environment=where)
    assert first.stdout is not None
    first.stdout.readline()
    first.stdout.readline()  # its first epoch is committed
    _, refusal = (second := start(pipeline.folder, 60, 2, environment=where)).communicate(timeout=120)
    assert second.returncode == 4, refusal
    assert "error[STA" in refusal
    assert server.secret not in refusal
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors
    same(pipeline)
