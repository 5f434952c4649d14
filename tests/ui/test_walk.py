"""docs/running/dashboard.md: a newcomer's ten minutes in a real browser, and the pictures of the page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from sqlstream.state.overview import overview
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.ui.browsers import chromium, page_of
from tests.ui.test_browser import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/running/dashboard.md").read_text(encoding="utf-8")
IMAGES = ROOT / "docs/images"
SQL, COLUMNS, QUERY = (
    re.sub(r"^   ", "", text, flags=re.M) for text in re.findall(r"^ *```sql\n(.*?)^ *```", PAGE, re.M | re.S)
)
COMMANDS = [line.split() for line in re.findall(r"^ +\$ sqlstream (.*)$", PAGE, re.M)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def run(folder: Path, command: list[str]) -> Iterator[str]:
    """A command of the page, at a port that is free, for as long as it is needed; gives the address that it prints."""
    words = [word for part in command for word in ([part, "0"] if part == "--ui" else [part])]
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlstream", *words],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if "dashboard at" in line or line.startswith("error"))
        assert "dashboard at" in line, line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
        assert process.returncode == 0, errors


def picture(page: Page, name: str, rewrite: bool, folder: Path) -> None:
    """A picture of the page, light and dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)
        target = (IMAGES if rewrite else folder) / f"dashboard-{name}-{scheme}.png"
        page.screenshot(path=target)
        assert target.stat().st_size > 10_000
        assert (IMAGES / target.name).is_file()
    page.emulate_media(color_scheme="light")


def test_the_walk(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rewrite = request.config.getoption("--rewrite-screenshots")
    file = tmp_path / "auction.sql"
    file.write_text(SQL)
    store = CheckpointStore(str(tmp_path / ".sqlstream" / "auction"))
    first, second = COMMANDS
    with run(tmp_path, first) as url, page_of(browser, viewport={"width": 1280, "height": 800}) as page:
        page.goto(url)
        page.get_by_role("link", name="auction").first.click()
        page.get_by_role("button", name="group aggregate").click()
        panel = page.locator("aside")
        assert panel.locator("mark").first.inner_text() == "auction"
        until(lambda: overview(store, "").state_rows >= 20)
        panel.locator("[data-relation='group_aggregate_1']").click()
        panel.locator("table[data-table=rows] tbody tr").first.wait_for()
        panel.locator(".u-wrap").wait_for()
        until(lambda: (overview(store, "").epoch or 0) >= 8)
        page.evaluate("scrollTo(0, 0)")
        picture(page, "graph", rewrite, tmp_path)

        page.get_by_role("link", name="Try an edit").click()
        old = "SELECT auction, COUNT(*) AS bids, MAX(price) AS best\n"
        assert old in SQL
        edited = SQL.replace(old, COLUMNS)
        page.locator("#edited").fill(edited)
        page.get_by_role("button", name="Show the plan").click()
        page.locator("#verdict").wait_for()
        assert "BACKFILL" in (page.locator("[data-node='op:group_aggregate_1']").get_attribute("class") or "")
        assert "KEEP" in (page.locator("[data-node='op:window_aggregate_1']").get_attribute("class") or "")
        assert "--accept alter:best" in page.locator("#verdict").inner_text()
        page.wait_for_timeout(1000)  # it scrolls there
        picture(page, "edit", rewrite, tmp_path)
        page.get_by_role("link", name="Epochs", exact=True).click()
        page.locator("table[data-table=epochs] tbody tr").nth(3).wait_for()
        picture(page, "epochs", rewrite, tmp_path)
    file.write_text(edited)
    before = overview(store, "").epoch or 0
    with run(tmp_path, second) as url, page_of(browser) as page:
        until(lambda: (overview(store, "").epoch or 0) > before + 1)
        page.goto(url)
        page.get_by_role("link", name="auction").first.click()
        page.get_by_role("link", name="Epochs", exact=True).click()
        page.locator("table[data-table=epochs] .pill", has_text="edit").first.wait_for()
        page.get_by_role("link", name="State", exact=True).click()
        page.locator("textarea").fill(QUERY)
        page.get_by_role("button", name="Run").click()
        rows = page.locator("table[data-table=rows] tbody tr")
        rows.first.wait_for()
        assert rows.count() == 5
        assert all(float(row.locator("td").nth(1).inner_text()) > 1 for row in rows.all())
    with duckdb.connect(str(tmp_path / "best.duckdb"), read_only=True) as con:
        found = con.execute("SELECT COUNT(*), COUNT(average), MIN(best >= average) FROM best").fetchone()
    assert found == (20, 20, True)
