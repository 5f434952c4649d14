"""What the pages of a built site say: their anchors, links, and what they load."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that load something, by element; an `a` does not.
_LOADING = {"script": "src", "link": "href", "img": "src", "source": "src", "iframe": "src", "object": "data"}


@dataclass
class PageRead(HTMLParser):
    """A page: the `anchors` that it has, the addresses that its text links to, and those that it `loads`."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADING and _LOADING[tag] in given:
            self.loads.append(given[_LOADING[tag]])


def read(site: Path) -> dict[Path, PageRead]:
    """The pages of a site, by their file."""
    found = {}
    for file in sorted(site.rglob("*.html")):
        page = PageRead()
        page.feed(file.read_text(encoding="utf-8"))
        found[file] = page
    return found


def broken_links(pages: dict[Path, PageRead]) -> list[str]:
    """The links to files and anchors that are not there."""
    broken = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or file.name == "404.html":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{file.name}: {link}")
    return broken


def from_elsewhere(pages: dict[Path, PageRead]) -> set[str]:
    """What pages load from other machines."""
    return {address for page in pages.values() for address in page.loads if "//" in address}
