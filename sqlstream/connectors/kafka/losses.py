"""Offsets that are gone before they were read: by retention, by a log that was cut off, by a topic that was made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlstream.connectors.kafka.positions import KafkaPosition, Part
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Loss:
    """A partition of which the offset `wanted` is not there: reading can go on at `there`; `gone` records are known of."""

    part: Part
    wanted: int
    there: int
    why: str
    gone: int

    @property
    def text(self) -> str:
        """For people."""
        topic, number = self.part
        return f"topic '{topic}', partition {number}: offset {self.wanted} is wanted, {self.why} {self.there}"


def losses(
    at: KafkaPosition,
    earliest: Mapping[Part, int],
    latest: Mapping[Part, int],
    ids: Mapping[str, str],
    *,
    other_cluster: bool,
) -> list[Loss]:
    """What of a position is not there any more. `ids` are of topics as they are now, of those that have one."""
    found = []
    for part, wanted in sorted(at.next.items()):
        if part not in earliest or part not in latest:
            continue
        was, now = at.ids.get(part[0], ""), ids.get(part[0], "")
        if other_cluster or (was and now and was != now):
            what = "the brokers are other ones" if other_cluster else "the topic was recreated"
            found.append(Loss(part, wanted, earliest[part], f"{what}, and begins at", 0))
        elif wanted < earliest[part]:
            gone = earliest[part] - wanted
            found.append(Loss(part, wanted, earliest[part], "the log begins at", gone))
        elif wanted > latest[part]:
            found.append(Loss(part, wanted, latest[part], "the log ends at", 0))
    return found


def refused(table: str, found: list[Loss]) -> DiagnosticError:
    """The error for what is gone, as long as nobody has agreed to it."""
    notes = [loss.text for loss in found[:_MOST_NAMED]]
    if len(found) > _MOST_NAMED:
        notes.append(f"and {counted(len(found) - _MOST_NAMED, 'more partition')}")
    go_on = f"go on with what is there, with `--accept lost:{table}`"
    expired = any(loss.gone for loss in found)
    return DiagnosticError(
        Diagnostic(
            "DAT015",
            f"records of `{table}` are gone before they were read{_how_many(found)}",
            notes=tuple(notes),
            help=f"keep records longer (retention.ms); or {go_on}"
            if expired
            else f"if these are the brokers and the topic that are meant, {go_on}",
        ),
        exit_code=4,
    )


def accepted(table: str, found: list[Loss]) -> Diagnostic:
    """The warning about a loss that was agreed to."""
    return Diagnostic(
        "DAT015",
        f"records of `{table}` are left out, as they are gone{_how_many(found)}",
        notes=tuple(loss.text for loss in found[:_MOST_NAMED]),
        severity="warning",
    )


def without(at: KafkaPosition, found: list[Loss], ids: Mapping[str, str], cluster: str) -> KafkaPosition:
    """The position behind what is gone."""
    lost = dict(at.lost)
    for loss in found:
        lost[loss.part] = lost.get(loss.part, 0) + loss.gone
    return replace(
        at,
        next={**at.next, **{loss.part: loss.there for loss in found}},
        lost=lost,
        ids={**at.ids, **ids},
        cluster=cluster,
    )


def _how_many(found: list[Loss]) -> str:
    gone = sum(loss.gone for loss in found)
    return f": {counted(gone, 'record')} at most" if gone else ""
