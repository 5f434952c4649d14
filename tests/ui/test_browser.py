"""The dashboard in a real browser: what stands on a page is what the manifests say, whatever happens to the run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlstream.state.overview import Overview, overview
from sqlstream.ui.server import TOKEN, served
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.ui.browsers import chromium, page_of
from tests.ui.dashboards import SHOP, Client, dashboard, run, write_orders

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIVE = """
SET 'pipeline.name' = 'auction';
CREATE TABLE bids (
  auction BIGINT, price BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND
) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.auction.min' = '1', 'fields.auction.max' = '20');
CREATE TABLE best WITH ('connector' = 'blackhole') AS
SELECT auction, MAX(price) AS price, COUNT(*) AS bids FROM bids GROUP BY auction;
"""
TABS = ("graph", "epochs", "state", "letters", "savepoints", "file", "edit")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> CheckpointStore:
    folder = tmp_path_factory.mktemp("shop")
    write_orders(folder, "0.json", 300)
    return run(folder, max_rows_per_epoch=100)


@pytest.fixture(scope="module")
def client(shop: CheckpointStore) -> Iterator[Client]:
    with dashboard(shop) as found:
        yield found


@pytest.fixture(scope="module")
def one(client: Client) -> str:
    """The address of the pipeline's page."""
    (found,) = client.get("pipelines")["pipelines"]
    return f"{client.url}#/p/{found['id']}"


def until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.2)


def facts(page: Page) -> dict[str, str]:
    """The figures at the top of a pipeline's page."""
    return {
        element.get_attribute("data-fact") or "": element.locator("b").inner_text()
        for element in page.locator("[data-fact]").all()
    }


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "sqlstream",
        "run",
        str(folder / "p.sql"),
        "--state-dir",
        str(folder / "state"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)


@pytest.mark.kill
def test_a_run_is_followed(browser: Browser, tmp_path: Path) -> None:
    """It runs, is killed, goes on, and is stopped."""
    (tmp_path / "p.sql").write_text(LIVE)
    store = CheckpointStore(str(tmp_path / "state"))

    def now() -> Overview:
        return overview(store, "auction")

    with dashboard(store) as client, page_of(browser) as page:
        page.goto(client.url)
        row = page.locator("table[data-table=pipelines] tbody tr")
        assert row.locator(".pill").inner_text() == "empty"
        with running(tmp_path) as process:
            until(lambda: row.locator(".pill").inner_text() == "running")
            row.get_by_role("link").click()
            pill = page.locator("#main .pill").first
            until(lambda: int(facts(page).get("last epoch", "0").replace(",", "").replace("–", "0")) >= 3)
            process.kill()
            process.communicate()
        until(lambda: pill.inner_text() == "killed")
        until(lambda: facts(page)["last epoch"] == f"{now().epoch:,}")
        killed_at = now().epoch or 0
        with running(tmp_path):
            until(lambda: pill.inner_text() == "running")
            until(lambda: int(facts(page)["last epoch"].replace(",", "")) > killed_at)
            assert facts(page)["rows of state"] == f"{now().state_rows:,}"
        until(lambda: pill.inner_text() == "stopped")
        end = now()
        until(lambda: facts(page)["last epoch"] == f"{end.epoch:,}")
        found = facts(page)
        assert found["rows of state"] == f"{end.state_rows:,}" == "20"
        assert found["dead letters"] == f"{end.dead_letters:,}"
        mark = end.watermarks["bids"]
        assert isinstance(mark, int)
        assert found["watermark"].startswith(
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(mark // 1_000_000))
        )
        page.get_by_role("link", name="Epochs").click()
        listed = page.locator("table[data-table=epochs] tbody tr")
        listed.first.wait_for()
        assert listed.first.locator("td").first.inner_text() == f"{end.epoch:,}"


def test_every_page_at_three_sizes(browser: Browser, one: str) -> None:
    """No page is wider than its window, and none has an error, light or dark."""
    for width, scheme in ((1440, "light"), (820, "dark"), (390, "light")):
        with page_of(browser, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
            for tab in TABS:
                page.goto(f"{one}/{tab}")
                page.locator("#view > *").first.wait_for()
                page.wait_for_timeout(150)
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (tab, width, wide)
                assert page.locator("h1").count() == 1


def test_a_telephone_a_keyboard_and_a_screen_reader(browser: Browser, tmp_path: Path) -> None:
    """Long names and what is damaged stay within the window, the focus stays where it was, pages have their titles."""
    name = "a_name_" + "of_very_many_characters_" * 5
    folder = tmp_path / name
    folder.mkdir()
    write_orders(folder, "0.json", 5)
    store = run(folder)
    for file in (folder / "state" / "epochs").glob("*.manifest.json"):
        file.write_text(file.read_text()[:-20])
    stores = [store, *(CheckpointStore(str(tmp_path / f"s{n}")) for n in range(250))]
    with dashboard(*stores) as client, page_of(browser, viewport={"width": 390, "height": 800}) as page:
        page.goto(client.url)
        rows = page.locator("table[data-table=pipelines] tbody tr")
        rows.first.wait_for()
        assert rows.count() == 100
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        more = page.get_by_role("button", name="Show more pipelines")
        more.focus()
        page.keyboard.press("Enter")
        until(lambda: rows.count() == 200)
        assert page.evaluate("document.activeElement.ariaLabel") == "Show more pipelines"
        more.click()
        until(lambda: rows.count() == 251)
        assert page.title() == "Pipelines · sqlstream"
        page.goto(f"{client.url}#/p/{client.get('pipelines')['pipelines'][1]['id']}")
        tab = page.locator(".tabs").get_by_role("link", name="Savepoints")
        tab.focus()
        page.keyboard.press("Enter")
        until(lambda: page.title() == "Savepoints · shop · sqlstream")
        until(lambda: page.evaluate("document.activeElement.textContent") == "Savepoints")


def test_the_graph_and_an_operator(browser: Browser, client: Client, one: str) -> None:
    with page_of(browser) as page:
        page.goto(one)
        nodes = page.locator("button.node")
        nodes.first.wait_for()
        graph = client.get(f"pipelines/{one.rpartition('/')[2]}/graph")
        assert {n.get_attribute("data-node") for n in nodes.all()} == {n["id"] for n in graph["nodes"]}
        assert page.locator(".graph path.edge").count() == len(graph["edges"])
        operator = page.locator("[data-node='op:group_aggregate_1']")
        operator.focus()
        page.keyboard.press("Enter")
        assert operator.get_attribute("aria-pressed") == "true"
        panel = page.locator("aside")
        assert panel.locator("mark").inner_text() == "customer"
        assert "5 rows" in panel.inner_text()
        panel.locator("[data-relation='group_aggregate_1']").click()
        rows = panel.locator("table[data-table=rows] tbody tr")
        rows.first.wait_for()
        assert rows.count() == 5
        panel.locator(".u-wrap").wait_for()


def test_sql_over_the_state(browser: Browser, one: str) -> None:
    with page_of(browser) as page:
        page.goto(f"{one}/state")
        page.locator("textarea").fill(
            "SELECT customer, spent FROM group_aggregate_1 ORDER BY customer LIMIT 2"
        )
        page.locator("textarea").press("Control+Enter")
        rows = page.locator("table[data-table=rows] tbody tr")
        rows.first.wait_for()
        expected = [sum(n for n in range(300) if n % 5 == customer) for customer in range(2)]
        assert [row.inner_text().split("\t") for row in rows.all()] == [
            [f"c{n}", str(expected[n])] for n in range(2)
        ]


def test_a_slow_epoch_says_what_took_its_time(browser: Browser, client: Client, one: str) -> None:
    with page_of(browser) as page:
        page.goto(f"{one}/epochs")
        page.locator("table[data-table=epochs] a", has_text=re.compile("^1$")).click()
        page.locator("table[data-table=tasks]").wait_for()
        found = client.get(f"pipelines/{one.rpartition('/')[2]}/epochs/1")
        assert page.locator("table[data-table=tasks] tbody tr").count() == len(found["tasks"])
        slowest = max(found["steps"], key=found["steps"].get)
        words = {
            "job": "tasks",
            "plan": "planning",
            "prepare": "preparing sinks",
            "publish": "writing the manifest",
            "commit": "committing sinks",
            "collect": "collecting old files",
        }
        assert f"went into {words[slowest]}" in page.locator("#view").inner_text()


def test_an_edit_is_shown_as_plan_shows_it(browser: Browser, shop: CheckpointStore, one: str) -> None:
    edited = SHOP.replace("SUM(amount) AS spent", "SUM(amount) AS spent, MAX(amount) AS most")
    folder = Path(shop.path("")).parent
    (folder / "edited.sql").write_text(edited)
    command = [sys.executable, "-m", "sqlstream", "plan", "edited.sql", "--state-dir", "state", "--json"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    expected = json.loads(told.stdout)
    with page_of(browser) as page:
        page.goto(f"{one}/edit")
        page.locator("#edited").fill(edited)
        page.get_by_role("button", name="Show the plan").click()
        page.locator("#verdict").wait_for()
        assert page.locator("#verdict h2").inner_text() == expected["summary"]
        assert "BACKFILL" in (page.locator("[data-node='op:group_aggregate_1']").get_attribute("class") or "")
        assert "KEEP" in (page.locator("[data-node='op:window_aggregate_1']").get_attribute("class") or "")
        page.locator("#edited").fill(edited.replace("customer, SUM", "custmer, SUM"))
        page.get_by_role("button", name="Show the plan").click()
        page.locator(".problem").first.wait_for()
        assert "custmer" in page.locator("mark.error").first.inner_text()
        assert "customer" in page.locator(".problem").first.inner_text()


def test_a_token_is_asked_for_once(
    browser: Browser, shop: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "open sesame")
    with served(lambda: [("shop", shop)], "127.0.0.1", 0) as url:
        bare = url.partition("#")[0]
        context = browser.new_context()
        page = context.new_page()
        page.goto(bare)
        page.locator("#token").fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.locator(".problem").wait_for()
        page.locator("#token").fill("open sesame")
        page.get_by_role("button", name="Open").click()
        page.locator("table[data-table=pipelines]").wait_for()
        page.reload()
        page.locator("table[data-table=pipelines]").wait_for()
        context.close()
        context = browser.new_context()
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        page.locator("table[data-table=pipelines]").wait_for()
        assert page.url == bare
        assert not [one for one in asked if "sesame" in one.partition("#")[0]]
        context.close()
