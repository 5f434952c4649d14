"""Where reading a Delta table begins, decided once: the version that the options mean now."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlstream.connectors.delta.source.log import DeltaLog, Snapshot
from sqlstream.connectors.delta.source.options import LATEST, DeltaOptions, in_utc
from sqlstream.connectors.delta.source.positions import DeltaPosition
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_IN_COMMITS = "delta.enableInCommitTimestamps"


def begin(
    table: str, options: DeltaOptions, log: DeltaLog, now: Snapshot, now_us: int | None = None
) -> DeltaPosition:
    """Where reading begins, of a table as it is `now`. Raises DiagnosticError (DAT004) for what the log does not have."""
    wanted = options.starting_version
    if wanted is not None:
        version = now.version + 1 if wanted == LATEST else int(wanted)
        _check_version(table, log, version, now.version)
        return _of(log, now, version)
    if options.starting_us is not None:
        clock_us = int(time.time() * 1e6) if now_us is None else now_us
        return _of(log, now, _from_time(table, log, now, options.starting_us, clock_us))
    version = now.version
    if options.version_as_of is not None:
        version = options.version_as_of
    elif options.as_of_us is not None:
        version = _at_time(table, log, now, options.as_of_us)
    return _whole(table, log, now, version, last=version if options.is_as_of else None)


def _of(log: DeltaLog, now: Snapshot, version: int) -> DeltaPosition:
    """The rows that a version and later ones add."""
    return DeltaPosition(now.shape.id, version, False, version, seen=_seen(log, version - 1))


def _whole(table: str, log: DeltaLog, now: Snapshot, version: int, last: int | None) -> DeltaPosition:
    """The table as it is at a version."""
    there = log.at(version)
    if there is None:
        raise _not_there(table, log, f"can't be read as it was at version {version}", now.version)
    return DeltaPosition(there.shape.id, version, True, version, last=last, seen=_seen(log, version))


def _seen(log: DeltaLog, version: int) -> tuple[int, str] | None:
    digest = log.digest(version) if version >= 0 else ""
    return (version, digest) if digest else None


def _check_version(table: str, log: DeltaLog, version: int, latest: int) -> None:
    if version == latest + 1 or (version <= latest and log.commit(version) is not None):
        return
    raise _not_there(table, log, f"has no version {version}", latest)


def _from_time(table: str, log: DeltaLog, now: Snapshot, wanted_us: int, clock_us: int) -> int:
    """The first version that was made at a time or later: the next one, if there is none yet."""
    times = _times(log, now)
    found = next((version for version, made_us in times if made_us >= wanted_us), None)
    if found is None:
        if wanted_us > clock_us:
            raise _not_there(
                table, log, f"has no version of {in_utc(wanted_us)} or later", now.version, times
            )
        return now.version + 1
    if found == times[0][0] and found > 0 and times[0][1] > wanted_us:
        raise _not_there(table, log, f"has not all versions since {in_utc(wanted_us)}", now.version, times)
    return found


def _at_time(table: str, log: DeltaLog, now: Snapshot, wanted_us: int) -> int:
    """The last version that was made at a time or earlier."""
    times = _times(log, now)
    found = [version for version, made_us in times if made_us <= wanted_us]
    if not found:
        raise _not_there(table, log, f"has no version of {in_utc(wanted_us)} or earlier", now.version, times)
    return found[-1]


def _times(log: DeltaLog, now: Snapshot) -> list[tuple[int, int]]:
    """The versions that are there, and when each was made, µs."""
    times = log.times()
    if now.shape.properties.get(_IN_COMMITS, "false").lower() == "true":
        return [(version, _in_commit(log, version, made_ms) * 1000) for version, made_ms in times]
    return [(version, made_ms * 1000) for version, made_ms in times]


def _in_commit(log: DeltaLog, version: int, written_ms: int) -> int:
    found = log.time_in_commit(version)
    return written_ms if found is None else found


def _not_there(
    table: str, log: DeltaLog, what: str, latest: int, times: Sequence[tuple[int, int]] | None = None
) -> DiagnosticError:
    there = [(version, made_ms * 1000) for version, made_ms in log.times()] if times is None else times
    notes = [f"it is '{log.place}'"]
    if there:
        first, last = there[0], there[-1]
        notes.append(
            f"its log has version {first[0]} ({in_utc(first[1])}) to version {last[0]} ({in_utc(last[1])})"
        )
    return DiagnosticError(
        Diagnostic(
            "DAT004",
            f"the Delta table of `{table}` {what}",
            notes=tuple(notes),
            help="name one that is there; without it reading begins with the table as it is now",
        )
    )
