"""The savepoint that `--from` names, or several that are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sqlstream.runtime.edits.savepoints.fork import Origin
    from sqlstream_planner.catalog.secrets import Secrets


def origin_of(
    savepoints: Sequence[str], own: str, state: str, base_dir: str, secrets: Secrets
) -> Origin | None:
    """What a run begins with, kept until the command ends; see `edits.savepoints.origins`. Raises UsageError."""
    from sqlstream.runtime.edits.savepoints import origins

    found = origins.origin_of(savepoints, own, state, base_dir, secrets)
    try:
        return click.get_current_context().with_resource(found)
    except origins.NamedTwiceError as error:
        raise click.UsageError(str(error)) from None
