"""A page per SQL construct: its example, mode and state, and the plan of the example."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.site.constructs import Construct, constructs, tables
from docs.site.markdown import fenced, slug, table
from sqlstream.planning import plan_file
from sqlstream_planner.explain.operators import state_bounds, step_title
from sqlstream_planner.explain.plan import explain_text
from sqlstream_planner.pipeline import Planned

#: The folder of the pages in the site.
FOLDER = "constructs"
_HEADING = ("", "rows", "operators with state", "kept until")
_MODES = {
    "append-only": "no row is ever retracted",
    "upsert": "rows are updated by a key",
    "retracting": "rows are updated without a key",
}
_KEPT = {
    "": "no state",
    "watermark": "state is dropped when the watermark has passed what may still need it",
    "TTL": "state is kept for ever, or as long as `table.exec.state.ttl` says",
    "keys": "the watermark drops all but one row of each key",
    "fixed": "the state does not grow",
}


def construct_pages() -> dict[str, str]:
    """The pages by their path in the site, in the order of the table."""
    return {f"{FOLDER}/{slug(family[0].name)}.md": _page(family) for family in families()}


def families() -> Iterator[list[Construct]]:
    """Constructs with their variants."""
    family: list[Construct] = []
    for construct in constructs():
        if family and not construct.is_variant:
            yield family
            family = []
        family.append(construct)
    yield family


def _page(family: list[Construct]) -> str:
    first = family[0]
    lines = [
        f"# {_heading(first.name)}\n",
        "After reading this page you know what the construct emits, which operators keep state for it, and for "
        f"how long. {_subject(first)} describes it; [every construct](../constructs.md) compares them.\n",
        table(_HEADING, ((_title(c, first), c.rows, c.state, c.kept) for c in family)),
    ]
    for construct in family:
        lines += _section(construct, first)
    lines += ["## The tables\n", "The examples read:\n", fenced("sql", tables())]
    return "\n".join(lines)


def _section(construct: Construct, first: Construct) -> Iterator[str]:
    planned = _planned(construct)
    yield f"## {_heading(_title(construct, first) if construct.is_variant else 'Example')}\n"
    yield fenced("sql", _broken(construct.example) + ";")
    yield f"The result is {construct.rows}: {_MODES[construct.rows]}; {_KEPT[construct.kept]}.\n"
    if planned.physical.operators:
        yield table(
            ("operator", "what it is", "state by table: key", "bounds"),
            (
                (
                    f"`{step.operator.kind}`",
                    step_title(step),
                    "; ".join(
                        f"`{t.name}`: {', '.join(c.name for c in (*t.key, *t.sub_key)) or 'one row'}"
                        for t in step.operator.state.tables
                    ),
                    state_bounds(step.operator),
                )
                for step in planned.physical.operators
            ),
        )
    yield "`sqlstream explain` shows:\n"
    yield fenced("text", explain_text(planned))


def _planned(construct: Construct) -> Planned:
    sink = f"CREATE TABLE result WITH ('connector' = 'blackhole') AS {construct.example};\n"
    return plan_file(tables() + sink, file="example.sql")


def _title(construct: Construct, first: Construct) -> str:
    """The name, of a variant behind that of its construct."""
    if construct.is_variant:
        return f"{first.name} {construct.name.removeprefix('…').strip()}"
    return construct.name


def _heading(name: str) -> str:
    """A name that Markdown shows as it is."""
    return re.sub(r"([\[\]_*])", r"\\\1", name)


def _subject(construct: Construct) -> str:
    return re.sub(r"\]\((sql/)", r"](../\1", construct.page).replace("[", "[The page on ", 1)


def _broken(example: str) -> str:
    """The example with its clauses on lines of their own, where it is long."""
    if len(example) <= 90:
        return example
    return re.sub(
        r" (?=(?:FROM|WHERE|GROUP BY|QUALIFY|(?:LEFT |FULL |CROSS |ASOF )*JOIN|ON|EMIT) )", "\n", example
    )
