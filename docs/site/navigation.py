"""The navigation: what `site.yml` says, with `FOLDER/*` replaced by the pages that are generated there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from docs.site.construct_pages import FOLDER, families
from docs.site.markdown import slug
from docs.site.written_pages import folder_of, title_of


class NavigationError(Exception):
    """A page is not in the navigation, or one in it is not there."""


def navigation(written: list[Any], pages: Mapping[str, str]) -> list[Any]:
    """The navigation for the generator. Raises NavigationError if it has not every page exactly once."""
    found = [_expanded(item, pages) for item in written]
    listed = sorted(_listed(found))
    missing = sorted(set(pages) - set(listed))
    unknown = sorted(set(listed) - set(pages))
    twice = sorted({path for path in listed if listed.count(path) > 1})
    for what, paths in (("not in", missing), ("not there, but in", unknown), ("twice in", twice)):
        if paths:
            raise NavigationError(f"{what} the navigation (docs/site/site.yml): {', '.join(paths)}")
    return found


def _expanded(item: Any, pages: Mapping[str, str]) -> Any:
    if isinstance(item, str):
        return {title_of(pages[item]): item} if item in pages else item
    ((title, value),) = item.items()
    if isinstance(value, list):
        return {title: [_expanded(one, pages) for one in value]}
    if value == f"{FOLDER}/*":
        return {title: _constructs(pages)}
    if value.endswith("/*"):
        folder = value.removesuffix("/*")
        inside = sorted(
            path for path in pages if folder_of(path) == folder and not path.endswith("README.md")
        )
        index = [path for path in pages if path in (f"{folder}/README.md", f"{folder}/index.md")]
        return {title: [*index, *({_short(pages[p]): p} for p in inside if p not in index)]}
    return {title: value}


def _constructs(pages: Mapping[str, str]) -> list[Any]:
    """The pages of constructs by the page of their subject."""
    subjects: dict[str, list[Any]] = {}
    for family in families():
        (subject,) = re.findall(r"\((sql/[a-z-]+\.md)", family[0].page)
        title = re.split("[:,]", title_of(pages[subject]))[0]
        page = f"{FOLDER}/{slug(family[0].name)}.md"
        subjects.setdefault(title, []).append({family[0].name: page})
    return [{subject: pages} for subject, pages in subjects.items()]


def _short(text: str) -> str:
    """The title of a generated page without what its neighbours' say, too."""
    title = title_of(text)
    for start in ("Options of the connector ", "Options of the format ", "sqlstream "):
        title = title.removeprefix(start)
    return title


def _listed(items: list[Any]) -> Iterator[str]:
    for item in items:
        value = item if isinstance(item, str) else next(iter(item.values()))
        if isinstance(value, list):
            yield from _listed(value)
        else:
            yield value
