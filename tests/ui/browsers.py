"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: How long the page may take for anything, ms: CI is slow.
PATIENCE_MS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def page_of(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page that must say nothing on its console, and load nothing from elsewhere."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on(
        "console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    origin = page.evaluate("location.origin")
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((f"{origin}/", "data:"))] == []
