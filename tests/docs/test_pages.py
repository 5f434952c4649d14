"""The form of the pages: short, narrow, no long paragraph; and every link leads to a page and a heading that is there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.wrap import WIDEST

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
MOST_LINES, LONGEST_PARAGRAPH = 300, 5
#: Why a decision was taken is a story, in the words of its day.
_DECISIONS = "docs/adr/"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
#: A page that code names: `docs/sql/joins.md#state`.
_NAMED = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
#: What the field has other words for (docs/glossary.md).
_FORMER = re.compile(
    r"rows that (only|may) (come|go)|comes? and goes?\b|joins? in time|given whole|take[ns]? back|brought to the new"
    r"|\b(is|are) told|\b(has|have) to\b|joins? of arrangements|answered side|rows around (out|it|a query)|restated"
    r"|\b(one \w+|one|rows|bytes) an? (line|row|file|shard|epoch|split|signature|group|operator)\b(?!'s| may| is)",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\s*([-*]|\d+\.)\s")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """The lines with their numbers, and whether they are output that is shown as it is."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line[3:].strip() or "text"
            yield number, line, True
        else:
            yield number, line, fence in {"text", "console"}


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Where each paragraph, or item of a list, begins, and how many lines it has."""
    begin = count = 0
    fence = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence ^= line.startswith("```")
        ends = fence or not line.strip() or line.startswith(("|", "#", "```")) or bool(_ITEM.match(line))
        if ends and count:
            yield begin, count
            count = 0
        if not ends or (not fence and _ITEM.match(line)):
            begin = begin if count else number
            count += 1


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    found: set[str] = set()
    fence = False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence ^= line.startswith("```")
        heading = None if fence else re.match(r"#+ (.*)", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
            n = next(n for n in range(99) if (f"{slug}-{n}" if n else slug) not in found)
            found.add(f"{slug}-{n}" if n else slug)
    return found


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_short_and_narrow(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    wide = [n for n, line, shown in prose(text) if len(line) > WIDEST and not shown and line[:1] != "|"]
    assert wide == [], f"python -m tests.docs.wrap {name(page)}"


@pytest.mark.parametrize("page", [p for p in PAGES if not name(p).startswith(_DECISIONS)], ids=name)
def test_a_paragraph_has_five_lines_at_most(page: Path) -> None:
    found = paragraphs(page.read_text(encoding="utf-8"))
    assert [begin for begin, count in found if count > LONGEST_PARAGRAPH] == []


@pytest.mark.parametrize("page", [p for p in DOCS if not name(p).startswith(_DECISIONS)], ids=name)
def test_a_page_begins_with_what_one_can_do_after_it(page: Path) -> None:
    title, blank, first = page.read_text(encoding="utf-8").splitlines()[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert first.startswith("After reading this page you ")


@pytest.mark.parametrize("page", [p for p in PAGES if not name(p).startswith(_DECISIONS)], ids=name)
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    assert [found[0] for found in _FORMER.finditer(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_rows_of_a_table_have_the_cells_of_its_heading(page: Path) -> None:
    cells: int | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert found is None or cells in {None, found}, f"{name(page)}:{number}"
        cells = found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    for link in _LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target) if target else page
        assert file.exists(), f"{name(page)}: {link}"
        if anchor:
            assert anchor in anchors(file), f"{name(page)}: {link}"


def test_pages_that_code_and_messages_name_are_there() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.sql", "*.md", "*.toml", "Makefile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    missing, seen = [], 0
    for file in tracked:
        if file.startswith("docs/") or not (ROOT / file).exists():
            continue
        for link in _NAMED.findall((ROOT / file).read_text(encoding="utf-8")):
            seen += 1
            target, _, anchor = link.partition("#")
            page = ROOT / target
            if not page.exists() or (anchor and anchor not in anchors(page)):
                missing.append(f"{file}: {link}")
    assert seen > 20
    assert missing == []


def test_every_page_is_reached_from_the_index() -> None:
    """From docs/README.md, by links; decisions from their folder."""
    reached = {ROOT / "docs/README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            file = (page.parent / link.partition("#")[0]).resolve()
            if "://" not in link and file.suffix == ".md" and file.exists() and file not in reached:
                reached.add(file)
                waiting.append(file)
    assert [name(p) for p in DOCS if p not in reached and "docs/adr" not in name(p)] == []
