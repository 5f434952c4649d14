"""The command line, from click: a page per command."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from docs.site.markdown import fenced, table
from sqlstream.cli.main import COMMANDS, cli

_PROGRAM = "sqlstream"


def command_pages() -> dict[str, str]:
    """The pages by their path in the site."""
    context = click.Context(cli, info_name=_PROGRAM)
    pages = {"reference/commands/index.md": _index()}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None:
            pages[f"reference/commands/{name}.md"] = "\n".join(_page(name, command))
    return pages


def _index() -> str:
    return "\n".join(
        [
            "# Commands\n",
            "After reading this page you know every command of `sqlstream`. The pages of commands are made of the "
            "command line when the site is built.\n",
            table(("command", "what it does"), ((f"[{n}]({n}.md)", line) for n, line in COMMANDS.items())),
            f"{cli.epilog}\n",
        ]
    )


def _page(name: str, command: click.Command) -> Iterator[str]:
    yield f"# {_PROGRAM} {name}\n"
    yield f"After reading this page you know the arguments and options of `{_PROGRAM} {name}`.\n"
    yield from _described(f"{_PROGRAM} {name}", command)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if found is not None and not found.hidden:
                yield f"## {name} {sub}\n"
                yield from _described(f"{_PROGRAM} {name} {sub}", found)


def _described(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield fenced("text", usage)
    for paragraph in _paragraphs(command.help or ""):
        yield f"{paragraph}\n"
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        yield table(("option", "value", "default", "what it does"), (_row(o, context) for o in options))
    for paragraph in _paragraphs(command.epilog or ""):
        yield f"{paragraph}\n"


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    flag = option.is_flag or option.count
    value = "" if flag else f"`{option.make_metavar(context)}`"
    if option.multiple and not flag:
        value += ", several times"
    default = option.get_default(context)
    shown = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    return names, value, f"`{default}`" if shown else "", _plain(option.help or "")


def _paragraphs(text: str) -> list[str]:
    r"""The paragraphs of a help text; one behind click's `\b` keeps its lines."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.lstrip().startswith("\b"):
            found.append(fenced("text", paragraph.replace("\b", "").strip("\n")).rstrip())
        else:
            found.append(_plain(paragraph))
    return found


def _plain(text: str) -> str:
    """A text that Markdown shows as it is."""
    return re.sub(r"([*_\[\]])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")
