"""What a run needs of its machine: how many shards, how much an epoch reads, which caches."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sqlstream.runtime.loop.admission import DEFAULT_TARGET_S, Admission
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.storage.manifest import EpochPlan, Manifest
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.version import ShardVersion


def begin_private(folder: Path) -> None:
    """Make a state directory for this user alone: it holds rows. One that is there stays as it is."""
    with suppress(OSError):  # what can't be made is reported when it is written to
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


def shards_of(
    plan: PhysicalPlan,
    requested: int | None,
    begun: EpochPlan | None,
    last: Manifest | None,
    runner: JobRunner,
) -> int:
    """The number of shards; at most one for each key group."""
    before = begun.parallelism if begun is not None else last.parallelism if last is not None else None
    wanted = requested or plan.options.parallelism or before or runner.parallelism
    return max(1, min(wanted, plan.options.max_parallelism))


def former_caches(last: Manifest | None) -> set[str]:
    """The states that caches on this machine may be of: those of the last epoch, and those that wrote its files before an
    edit of the query. Who goes on with what they hold copies them.
    """
    if last is None:
        return set()
    versions = (ShardVersion.from_json(shard) for state in last.states for shard in state.shards)
    written = {writer.rsplit("-", 3)[0] for version in versions for writer in version.writers[:1]}
    return written | {state.state_id for state in last.states}


def admission_of(plan: PhysicalPlan, max_rows: int | None) -> Admission:
    """How much an epoch reads; `max_rows` goes before what the plan says."""
    options = plan.options
    target = DEFAULT_TARGET_S if options.target_epoch_us is None else options.target_epoch_us / 1e6
    return Admission(
        fixed_rows=max_rows or options.max_rows_per_epoch,
        files=options.max_files_per_epoch,
        target_s=target,
    )
