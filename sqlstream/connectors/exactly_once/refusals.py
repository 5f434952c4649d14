"""Why a target is refused: it is ahead of its state, behind it, or gone."""

from __future__ import annotations

from sqlstream.connectors.exactly_once.target import Target
from sqlstream_operators.errors import TargetError
from sqlstream_operators.plan.spec import SinkSpec


def ahead(spec: SinkSpec, target: Target, there: int, here: int) -> TargetError:
    """The error for a target that has epoch `there`, while its state is at epoch `here`."""
    words = target.wording
    if not here:
        return TargetError(
            f"the {words.noun} of `{spec.name}` has rows from before it was left out",
            (
                f"{target.location} is at epoch {there} of this state directory, for which the {words.noun} is "
                "new: the query did not write it for a while, or the state directory was restored from an older copy",
            ),
            anew(spec, target),
        )
    return TargetError(
        f"the {words.noun} of `{spec.name}` has epoch {there}, but its state is at epoch {here}",
        (f"{target.location} is newer: the state directory was restored from an older copy",),
        f"restore the newer copy of the state directory; or {anew(spec, target)}",
    )


def behind(spec: SinkSpec, target: Target, there: int, here: int) -> TargetError:
    """The error for a target that is at epoch `there` only, while its state is at epoch `here`."""
    words = target.wording
    return TargetError(
        f"the {words.noun} of `{spec.name}` has epoch {there}, but its state is at epoch {here}",
        (f"{target.location} is older: the {words.noun} was restored from an older copy",),
        f"restore the newer copy of the {words.noun}; or {anew(spec, target)}",
    )


def dropped(spec: SinkSpec, target: Target, epoch: int) -> TargetError:
    """The error for a target that had rows up to an epoch, and is not there or has no record."""
    words = target.wording
    return TargetError(
        f"the {words.noun} of `{spec.name}` is gone, or {words.record}",
        (f"{target.location} had the rows up to epoch {epoch}",),
        f"restore it; or {anew(spec, target)}",
    )


def anew(spec: SinkSpec, target: Target) -> str:
    """How the target gets all that it should have."""
    words = target.wording
    return (
        f"empty the {words.noun} if it is there ({words.empty}), and run with --rewrite {spec.name}: it gets "
        "its full result"
    )
