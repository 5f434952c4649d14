"""Every function that can be called, by its name, from the translations and the catalogue."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

from docs.site.markdown import slug, table
from sqlstream.type_oracle.installed import TYPES
from sqlstream_planner.aggregates import registry
from sqlstream_planner.expressions import oracle
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.translate.table import THEMES


def function_pages() -> dict[str, str]:
    """The page by its path in the site."""
    oracle.use(TYPES)
    aggregates = set(registry.names())
    rows: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for theme, translations in THEMES:
        place = f"[{theme.lower()}](../functions.md#{slug(theme)})"
        for translation in translations:
            call = f"{translation.name}({', '.join(p.rstrip('_') for p in translation.parameters)})"
            name = translation.name.lower()
            rows[name].append((f"`{call}`", f"{_kind(name, aggregates)}, {translation.system}'s", place))
    for name in catalogue.names():
        if name not in rows and (name in aggregates or not catalogue.is_aggregate(name)):
            rows[name].append((f"`{name}`", f"{_kind(name, aggregates)}, DuckDB's", _DUCKDB))
    for name in catalogue.volatile_names():
        rows.setdefault(name, [(f"`{name}`", "refused", _REFUSED)])
    lines = [
        "# Reference of functions\n",
        "After reading this page you know whether a function can be called, whose it is, and which page describes it. "
        "This page is made of the translations and of the catalogue of the installed DuckDB when the site is built.\n",
    ]
    for letter, names in groupby(sorted(rows), key=lambda name: name[0].upper()):
        of_letter = (row for name in names for row in rows[name])
        lines += [f"## {letter}\n", table(("function", "kind", "page"), of_letter)]
    return {"reference/functions.md": "\n".join(lines)}


_DUCKDB = "[DuckDB's functions](../functions/duckdb.md)"
_REFUSED = "[refused](../functions/duckdb.md#refused-because-a-replay-would-give-another-result)"


def _kind(name: str, aggregates: set[str]) -> str:
    if catalogue.is_window_function(name):
        return "window"
    return "aggregate" if name in aggregates or catalogue.is_aggregate(name) else "scalar"
