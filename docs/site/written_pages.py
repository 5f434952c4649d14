"""The pages that are written by hand, as the site has them.

GitHub shows the same files, so links lead from file to file of the repository. In the site a page of docs/ stands where it
stands in docs/, another page that one links to in `repository/`; a link to anything else (code, a folder) is its name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from docs.site.markdown import table

ROOT = Path(__file__).parents[2]
_DOCS = "docs/"
_DECISIONS = "docs/adr"
#: Where the site has pages of the rest of the repository.
ELSEWHERE = "repository/"
_FIRST = ("README.md", "CONTRIBUTING.md")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_PICTURES = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Written:
    """The `pages` by their path in the site, and the `pictures`: path in the site to file."""

    pages: dict[str, str]
    pictures: dict[str, Path]


def written_pages() -> Written:
    """All pages of docs/, and those of the repository that a page links to."""
    waiting = [*_FIRST, *(_name(path) for path in sorted((ROOT / "docs").rglob("*.md")))]
    texts: dict[str, str] = {}
    while waiting:
        page = waiting.pop(0)
        if page not in texts:
            texts[page] = (ROOT / page).read_text(encoding="utf-8")
            waiting += [target for target in _targets(page, texts[page]) if _is_page(target)]
    pages = {_place(page): _moved(page, text) for page, text in texts.items()}
    pages["adr/README.md"] = _decisions(texts)
    pictures = {
        _name(path).removeprefix(_DOCS): path
        for path in (ROOT / "docs").rglob("*")
        if path.suffix in _PICTURES
    }
    return Written(pages, pictures)


def _decisions(texts: dict[str, str]) -> str:
    """The index of the decisions."""
    found = sorted(page for page in texts if page.startswith(f"{_DECISIONS}/"))
    titles = ((page, texts[page].partition("\n")[0].removeprefix("# ")) for page in found)
    rows = [(f"[{title}]({page.rpartition('/')[2]})",) for page, title in titles]
    return "\n".join(
        [
            "# Decisions\n",
            "After reading this page you know which decisions shaped sqlstream, and where each one's reasons are.\n",
            table(("decision",), rows),
        ]
    )


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _place(page: str) -> str:
    """Where the site has a page of the repository."""
    return page.removeprefix(_DOCS) if page.startswith(_DOCS) else f"{ELSEWHERE}{page}"


def _is_page(target: str) -> bool:
    """Whether it is a page that is there; the generator reports a link to one that is not, with its source location."""
    return target.endswith(".md") and (ROOT / target).is_file()


def _targets(page: str, text: str) -> list[str]:
    """The files of the repository that a page links to."""
    links = (match[3] for part in _FENCE.split(text)[::2] for match in _LINK.finditer(part))
    return [_target(page, link)[0] for link in links if "://" not in link]


def _target(page: str, link: str) -> tuple[str, str]:
    path, _, anchor = link.partition("#")
    return (posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page), anchor


def _moved(page: str, text: str) -> str:
    """The text with its links as the site has them."""
    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(_moving(page), part) for part in parts[::2]]
    return "".join(parts)


def _moving(page: str) -> Callable[[re.Match[str]], str]:
    def moved(match: re.Match[str]) -> str:
        picture, text, link = match.groups()
        if "://" in link:
            return match[0]
        target, anchor = _target(page, link)
        if target == _DECISIONS:
            target = f"{_DECISIONS}/README.md"
        if not target.endswith((".md", *_PICTURES)):
            return text if target in text else f"{text} (`{target}`)"
        path = posixpath.relpath(_place(target), posixpath.dirname(_place(page)) or ".")
        return f"{picture}[{text}]({path}{'#' if anchor else ''}{anchor})"

    return moved


def title_of(text: str) -> str:
    """The title of a page, without its marks."""
    first = text.lstrip().partition("\n")[0].removeprefix("# ")
    return re.sub(r"\\([\[\]_*])", r"\1", first)


def folder_of(path: str) -> str:
    """The folder of a page of the site, '' for the top."""
    parent = PurePosixPath(path).parent.as_posix()
    return "" if parent == "." else parent
