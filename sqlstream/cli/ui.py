"""`sqlstream ui`: the dashboard of pipelines, live or stopped, from their state directories."""

from __future__ import annotations

import sys

import click

from sqlstream.cli import options


@click.command(
    epilog="Example: sqlstream ui, or sqlstream ui /data/states s3://bucket/state/orders --listen 0.0.0.0:8321"
)
@click.argument("places", nargs=-1, metavar="[STATE_DIR|FILE]...")
@click.option(
    "--listen",
    type=options.ADDRESS,
    default="127.0.0.1:8321",
    show_default=True,
    metavar="[HOST:]PORT",
    help="Where it is served. Port 0: one that is free.",
)
@options.profile_option
def command(places: tuple[str, ...], listen: str, profile: str | None) -> None:
    """Show pipelines in a browser: graph, epochs, state, dead letters, and the plan of an edit.

    STATE_DIR is a pipeline's state directory, a path or URI, or a folder with some; FILE is a pipeline's .sql file.
    Without any, all pipelines of the project. It reads state directories only, and disturbs no run. From other
    machines (--listen with another host) a token is needed, which is printed, or given by SQLSTREAM_UI_TOKEN.

    Exit codes: 0 ended by Ctrl-C; 4 there is no such state directory; 5 the address can't be used.
    """
    from sqlstream.cli.places import stores
    from sqlstream.metrics.server import address_of
    from sqlstream.ui.server import prepared

    list(stores(places, profile))  # a place that is not there is reported before anything is served
    host, port = address_of(listen)
    made = prepared(lambda: stores(places, profile), host, port)
    sys.stderr.write(f"dashboard at {made.url} (Ctrl-C ends it)\n")
    sys.stderr.flush()
    made.run()
