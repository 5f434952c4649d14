"""The site of the documentation: it is built, complete, whole and self-sufficient, and a reader finds things in it."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs.site.build import build
from docs.site.construct_pages import construct_pages
from docs.site.constructs import constructs
from docs.site.navigation import NavigationError, navigation
from docs.site.written_pages import written_pages
from sqlstream.cli.main import COMMANDS
from sqlstream.connectors.registry import REGISTERED
from sqlstream_planner.catalog.job_options import JOB_OPTIONS
from tests.docs.built_site import PageRead, broken_links, from_elsewhere, read
from tests.ui.browsers import chromium, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; the build is strict, so links between pages are checked by the generator, too."""
    folder = tmp_path_factory.mktemp("site") / "site"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, PageRead]:
    return read(site)


@pytest.fixture(scope="module")
def found(site: Path) -> dict[str, str]:
    """What the search knows: the text of each page, with its titles."""
    texts: dict[str, str] = {}
    for item in json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]:
        page = item["location"].partition("#")[0]
        texts[page] = f"{texts.get(page, '')} {item['title']} {item['text']}"
    return texts


def test_every_page_of_docs_is_there(site: Path, pages: dict[Path, PageRead]) -> None:
    for source in DOCS.rglob("*.md"):
        place = source.relative_to(DOCS).with_suffix(".html")
        built = site / (place.with_name("index.html") if place.stem == "README" else place)
        assert built in pages, source


def test_links_lead_to_a_page_and_an_anchor(pages: dict[Path, PageRead]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 10_000
    assert broken_links(pages) == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, PageRead]) -> None:
    assert from_elsewhere(pages) == set()
    styles = [file.read_text(encoding="utf-8") for file in site.rglob("*.css")]
    assert styles
    assert not [style for style in styles if "url(http" in style or "url(//" in style or "@import" in style]


def test_a_link_without_a_target_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="a.html#x"></a><a href="#y"></a><a href="b.html"></a>'
    )
    (tmp_path / "b.html").write_text('<script src="https://unpkg.com/x"></script>')
    made = read(tmp_path)
    assert broken_links(made) == ["a.html: #y"]
    assert from_elsewhere(made) == {"https://unpkg.com/x"}


def test_search_finds_constructs_options_settings_and_commands(found: dict[str, str]) -> None:
    for path, page in zip(construct_pages(), _names(), strict=True):
        assert page.split(" [")[0] in found[path.replace(".md", ".html")]
    for descriptor in REGISTERED.descriptors:
        text = found[f"reference/connectors/{descriptor.name}.html"]
        assert not [
            o.name for o in descriptor.options if "#" not in o.name and o.name not in text + _lookup(found)
        ]
    assert not [o.name for o in JOB_OPTIONS if o.name not in found["reference/settings.html"]]
    assert not [name for name in COMMANDS if f"reference/commands/{name}.html" not in found]
    assert "SUBSTRING_INDEX" in found["reference/functions.html"]
    assert "approx_quantile" in found["reference/functions.html"]


def _names() -> list[str]:
    return [construct.name for construct in constructs() if not construct.is_variant]


def _lookup(found: dict[str, str]) -> str:
    return found["reference/table-options.html"]


def test_a_page_that_is_not_in_the_navigation_is_an_error() -> None:
    pages = {"a.md": "# A\n", "b.md": "# B\n"}
    assert navigation([{"X": ["a.md", {"Second": "b.md"}]}], pages) == [
        {"X": [{"A": "a.md"}, {"Second": "b.md"}]}
    ]
    for nav in (["a.md"], ["a.md", "b.md", "c.md"], ["a.md", "a.md", "b.md"]):
        with pytest.raises(NavigationError):
            navigation(nav, pages)


def test_pages_show_no_marks_of_markdown(pages: dict[Path, PageRead]) -> None:
    """What GitHub and the generator read differently would stand on the page: `\\|` in code, a fence in a list, bold."""
    marked = re.compile(r"<code>[^<]*\\\|[^<]*</code>|<p>[^<]*```|<(?:p|li|td)>\*\*")
    shown = {file.name: marked.search(file.read_text(encoding="utf-8")) for file in pages}
    assert {name: found[0] for name, found in shown.items() if found} == {}


def test_links_out_of_docs_are_pages_or_names() -> None:
    pages = written_pages().pages
    assert "[README](repository/README.md)" in pages["README.md"]
    assert "a test (`tests/docs/test_constructs.py`)" in pages["constructs.md"]
    assert "](../edit.svg)" in pages["repository/README.md"]
    assert "[decisions](../adr/README.md)" in pages["repository/README.md"]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def _find(page: Page, start: str) -> None:
    page.goto(start)
    page.get_by_role("button", name="Search").first.click()
    page.get_by_role("combobox").first.fill("CUMULATE")
    page.get_by_role("option", name="CUMULATE").first.click()
    page.wait_for_url("**/constructs/cumulate.html*")
    assert page.locator("h1").inner_text().startswith("CUMULATE")


def test_a_reader_finds_pages_and_they_fit_the_screen(site: Path, address: str) -> None:
    with chromium() as browser:
        with page_of(browser) as page:
            _find(page, f"{address}/index.html")
        _find(browser.new_page(), (site / "sql" / "windows.html").as_uri())
        for width, scheme in ((390, "dark"), (768, "light")):
            with page_of(browser, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
                for name in ("constructs", "reference/connectors/kafka"):
                    page.goto(f"{address}/{name}.html")
                    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
