"""Every command and option of sqlstream that a page names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sqlstream.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Options of other programs that pages name.
_OTHERS = {"--rewrite-identities"}
_SPAN = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```(?:text|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(group: click.Command, path: str = "sqlstream") -> Iterator[tuple[str, click.Command]]:
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, f"{path} {name}")


COMMANDS = dict(commands(cli))
OPTIONS = {o for command in COMMANDS.values() for p in command.params for o in (*p.opts, *p.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_and_options_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = [line.removeprefix("$ ") for block in _BLOCK.findall(text) for line in block.splitlines()]
    for code in [*_SPAN.findall(text), *shown]:
        words = code.split()
        if words[:1] == ["sqlstream"] and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
            assert f"sqlstream {words[1]}" in COMMANDS, code
            found = COMMANDS[f"sqlstream {words[1]}"]
            if isinstance(found, click.Group) and len(words) > 2 and re.fullmatch(r"[a-z]+", words[2]):
                found = COMMANDS[f"sqlstream {words[1]} {words[2]}"]
            known = {o for p in found.params for o in p.opts} | {"--help"}
            if isinstance(found, click.Group):
                known |= OPTIONS
            assert {w for w in words if w.startswith("--")} <= known, code
        elif re.match(r"--[a-z]", code):
            assert words[0].partition("=")[0] in OPTIONS | _OTHERS, code
