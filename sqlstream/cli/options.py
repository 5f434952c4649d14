"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Duration(click.ParamType[float]):
    """A duration as SQL's options write it, in seconds; it has a unit.

    In a file `20` is 20 ms, as in Flink; whoever types it means seconds.
    """

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails for what is no duration, or has no unit."""
        from sqlstream_planner.catalog.options import parse_duration

        text = str(value).strip()
        if text.isdigit() and int(text) > 0:
            self.fail(
                f"'{value}' has no unit; write '{text} s' for seconds, '{text} ms' for milliseconds",
                param,
                ctx,
            )
        try:
            return parse_duration(str(value)) / 1e6
        except ValueError as error:
            self.fail(f"'{value}' is none; expected {error}", param, ctx)


class _Address(click.ParamType[str]):
    """HOST:PORT, or PORT alone."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it is; fails for what is no address."""
        from sqlstream.metrics.server import address_of

        try:
            address_of(str(value))
        except ValueError as error:
            expected = "a port, or a host and a port"
            if (
                param is not None
                and getattr(param, "_flag_needs_value", False)
                and str(value).endswith(".sql")
            ):
                expected += f"; write the file first: {value} {param.opts[0]}"
            self.fail(f"{error}; expected {expected}", param, ctx)
        return str(value)


DURATION = _Duration()
ADDRESS = _Address()

pipeline_argument = click.argument("file", type=click.Path(path_type=Path))
var_option = click.option(
    "--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable of the file. Repeatable."
)
profile_option = click.option(
    "--profile", envvar="SQLSTREAM_PROFILE", metavar="NAME", help="A profile of the project's sqlstream.toml."
)
from_option = click.option(
    "--from",
    "savepoints",
    multiple=True,
    metavar="SAVEPOINT",
    help="Begin a new --state-dir with a savepoint: NAME of this pipeline's, DIR@NAME of another state directory's, or DIR/ "
    "where one was exported to. Repeatable: states of several pipelines are merged.",
)
moved_option = click.option(
    "--source-moved",
    "source_moved",
    multiple=True,
    metavar="TABLE",
    help="The data of this source is the same at another location: keep state and source offset. Give it once. Repeatable.",
)
accept_option = click.option(
    "--accept",
    "accepted",
    multiple=True,
    metavar="fresh:NAME|alter:NAME",
    help="fresh: let an operator's state or a sink begin now, without the input read so far; alter: let a sink's table be "
    "altered in its database. NAME as `sqlstream plan` shows it, or all. Repeatable.",
)
rewrite_option = click.option(
    "--rewrite",
    "rewritten",
    multiple=True,
    metavar="SINK",
    help="Write the full result of the query to this sink, whose target is new or was emptied. Give it once. "
    "Repeatable.",
)
master_option = click.option(
    "--master", metavar="URL", help="Spark's master: local[*] (default), spark://…, yarn, k8s://…"
)
conf_option = click.option(
    "--conf", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark. Repeatable."
)
parallelism_option = click.option(
    "--parallelism", type=click.IntRange(min=1), metavar="N", help="Shards of stateful stages."
)
rows_option = click.option(
    "--max-rows-per-epoch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum rows per epoch. Default: adapts to the speed.",
)


def log_options(command: _Command) -> _Command:
    """How a run writes its log."""
    level = click.option(
        "--log-level",
        type=click.Choice(["info", "warning", "error"]),
        default="info",
        show_default=True,
        help="The least important of what is written to standard error.",
    )
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="What is written to standard error: text, or one JSON object per line.",
    )
    return form(level(command))


def spark_options(command: _Command) -> _Command:
    """Where and how Spark runs."""
    return conf_option(master_option(parallelism_option(command)))
