"""`sqlstream stop`: ask a run to end after its epoch, from another process or machine."""

from __future__ import annotations

import sys
import time

import click

from sqlstream.cli import options
from sqlstream.cli.options import DURATION
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_LOOK_S = 0.2


@click.command(
    epilog="Example: sqlstream stop pipelines/orders.sql, or sqlstream stop s3://bucket/state/orders --timeout '5 min'",
)
@click.argument("places", nargs=-1, required=True, metavar="STATE_DIR|FILE...")
@options.profile_option
@click.option(
    "--timeout",
    type=DURATION,
    metavar="TIME",
    default="10 min",
    show_default=True,
    help="How long to wait until the runs have ended, with a unit, such as '20 s'; 0 s does not wait.",
)
def command(places: tuple[str, ...], profile: str | None, timeout: float) -> None:
    """Ask runs to end after the epoch that is under way, as Ctrl-C does, and wait until they have.

    STATE_DIR is a pipeline's state directory, a path or URI, or a folder with some; FILE is a pipeline's .sql file.
    A run looks every 5 seconds whether it is asked to. Nothing is lost: the next run goes on there.

    Exit codes: 0 all have ended, or none was running; 4 there is no such state directory; 5 one has not ended in time.
    """
    from sqlstream.cli.places import stores
    from sqlstream.runtime.coordination.lease import is_gone, read_lease
    from sqlstream.runtime.coordination.stop_request import request_stop

    waiting = []
    for name, store in stores(places, profile):
        held = read_lease(store)
        if held is None:
            sys.stderr.write(f"{name}: no run is working on {store.uri}\n")
        elif is_gone(held[0]):
            sys.stderr.write(f"{name}: {held[0]} is gone already\n")
        else:
            request_stop(store, held[0].run_id)
            sys.stderr.write(f"{name}: asked {held[0]} to stop\n")
            waiting.append((name, store, held[0]))
    until = time.monotonic() + timeout
    for name, store, run in waiting if timeout else ():
        while (held := read_lease(store)) is not None and held[0].run_id == run.run_id:
            if is_gone(run):
                break
            if time.monotonic() >= until:
                raise DiagnosticError(
                    Diagnostic(
                        "ENV011",
                        f"{name}: {run} has not ended within {timeout:g} s",
                        notes=("it ends after the epoch that is under way, or as soon as it looks again",),
                        help="wait with a longer --timeout, or end the process: nothing is lost by that either",
                    )
                )
            time.sleep(_LOOK_S)
        sys.stderr.write(f"{name}: stopped\n")
