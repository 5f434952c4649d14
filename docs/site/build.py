"""Builds the site: Zensical over pages by hand and generated ones, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from docs.site.construct_pages import construct_pages
from docs.site.markdown import for_python_markdown
from docs.site.navigation import NavigationError, navigation
from docs.site.reference.commands import command_pages
from docs.site.reference.functions import function_pages
from docs.site.reference.options import option_pages
from docs.site.written_pages import written_pages

_HERE = Path(__file__).parent
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: What the generator has pages load from another machine, for the search of those that are opened as files.
_FROM_ELSEWHERE = re.compile(r'<script src="https://[^>]*></script>')
_SEARCH_OF_FILES = "assets/search_of_files.js"


class SiteError(Exception):
    """The site can't be built; the message says why."""


def site_pages() -> dict[str, str]:
    """Every page of the site, by its path: those of the repository, and those that are made of the code."""
    generated = {**construct_pages(), **option_pages(), **command_pages(), **function_pages()}
    written = written_pages().pages
    both = generated.keys() & written.keys()
    if both:
        raise SiteError(f"written and generated: {', '.join(sorted(both))}")
    return {**written, **generated}


def build(folder: Path) -> None:
    """Build the site into `folder`, in place of what is there. Raises SiteError for a link without a target."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-site-") as name:
        work = Path(name)
        _write(work)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "zensical",
                "build",
                "--strict",
                "--config-file",
                str(work / "mkdocs.yml"),
            ],
            cwd=work,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SiteError(_COLOURS.sub("", done.stdout + done.stderr))
        _load_nothing_from_elsewhere(work / "site")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / "site", folder)


def _write(work: Path) -> None:
    """The folder that the generator reads."""
    pages = site_pages()
    head, heading, listed = (_HERE / "site.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    try:
        nav = navigation(yaml.safe_load(listed), pages)
    except NavigationError as error:
        raise SiteError(str(error)) from None
    (work / "mkdocs.yml").write_text(
        head + heading + yaml.safe_dump(nav, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    for path, text in pages.items():
        _made(work / "docs" / path).write_text(for_python_markdown(text), encoding="utf-8")
    for path, file in written_pages().pictures.items():
        shutil.copyfile(file, _made(work / "docs" / path))
    shutil.copyfile(_HERE / "site.css", _made(work / "docs" / "assets" / "site.css"))


def _load_nothing_from_elsewhere(site: Path) -> None:
    """Put a script of the site in the place of one that another machine has."""
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    script = (_HERE / "search_of_files.js").read_text(encoding="utf-8")
    text = json.dumps(worker.read_text(encoding="utf-8"))
    (site / _SEARCH_OF_FILES).write_text(script.replace('"THE SEARCH"', text), encoding="utf-8")
    for page in site.rglob("*.html"):
        address = posixpath.relpath(_SEARCH_OF_FILES, page.parent.relative_to(site).as_posix())
        written = page.read_text(encoding="utf-8")
        page.write_text(_FROM_ELSEWHERE.sub(f'<script src="{address}"></script>', written), encoding="utf-8")


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
