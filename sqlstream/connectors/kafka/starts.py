"""Where reading begins and ends, decided once: the offsets that a mode means now."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlstream.connectors.kafka.cluster import Cluster
from sqlstream.connectors.kafka.options import Bound, KafkaOptions, Where
from sqlstream.connectors.kafka.positions import Part
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

#: Topics of the brokers themselves, which no pattern means.
_INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_MOST_NAMED = 20


def partitions(cluster: Cluster, options: KafkaOptions) -> list[Part]:
    """The partitions of all topics that a table means now.

    Raises DiagnosticError (DAT004) if one that it names is not there.
    """
    there = cluster.topics()
    if options.topic_pattern is not None:
        pattern = re.compile(options.topic_pattern)
        topics = [name for name in there if name not in _INTERNAL and pattern.fullmatch(name)]
    else:
        topics = list(dict.fromkeys(options.topics))
        missing = [name for name in topics if name not in there]
        if missing:
            raise _no_topic(missing[0], options, sorted(there.keys() - _INTERNAL))
    return [(topic, number) for topic in sorted(topics) for number in there[topic]]


def offsets_at(
    bound: Bound, cluster: Cluster, options: KafkaOptions, parts: Sequence[Part], option: str
) -> dict[Part, int]:
    """The offsets that a mode of `option` (`scan.startup.mode`) means for partitions now.

    Raises DiagnosticError (DAT004) for offsets that a group has not committed, or of partitions that are not there.
    """
    match bound.where:
        case Where.EARLIEST:
            return cluster.earliest(parts)
        case Where.LATEST | Where.UNBOUNDED:
            return cluster.latest(parts)
        case Where.TIMESTAMP:
            return cluster.at_time(parts, bound.timestamp_ms or 0)
        case Where.SPECIFIC:
            given = {(topic, number): at for topic in options.topics for number, at in bound.offsets.items()}
            missing = sorted(given.keys() - set(parts))
            if missing:
                topic, number = missing[0]
                raise DiagnosticError(
                    Diagnostic(
                        "DAT004",
                        f"topic '{topic}' has no partition {number}, of which '{option}' gives an offset",
                        notes=(f"its partitions are {', '.join(str(p) for t, p in parts if t == topic)}",),
                        help="leave it out",
                    )
                )
            others = [part for part in parts if part not in given]  # as in Flink
            return {**cluster.earliest(others), **given}
        case Where.GROUP:
            return _of_group(cluster, options, parts, option)


def _of_group(cluster: Cluster, options: KafkaOptions, parts: Sequence[Part], option: str) -> dict[Part, int]:
    found = {} if options.group_id is None else cluster.group_offsets(options.group_id, parts)
    missing = [part for part in parts if part not in found]
    if not missing:
        return found
    match options.offset_reset:
        case "earliest":
            return {**found, **cluster.earliest(missing)}
        case "latest":
            return {**found, **cluster.latest(missing)}
    group = "no group" if options.group_id is None else f"group '{options.group_id}'"
    topic, number = missing[0]
    raise DiagnosticError(
        Diagnostic(
            "DAT004",
            f"{group} has an offset of topic '{topic}', partition {number}"
            if options.group_id is None
            else f"{group} has no offset of topic '{topic}', partition {number}",
            notes=(
                f"'{option}' is 'group-offsets'" + (", its default" if option == "scan.startup.mode" else ""),
            ),
            help="write 'scan.startup.mode' = 'earliest-offset', or 'properties.auto.offset.reset' = 'earliest'",
        )
    )


def _no_topic(name: str, options: KafkaOptions, there: Sequence[str]) -> DiagnosticError:
    near = did_you_mean(name, there)
    named = ", ".join(there[:_MOST_NAMED]) + (" …" if len(there) > _MOST_NAMED else "")
    return DiagnosticError(
        Diagnostic(
            "DAT004",
            f"there is no topic '{name}' at {options.brokers}",
            notes=(f"topics: {named}" if there else "there are no topics that this user may see",),
            help=f"did you mean '{near}'?" if near else "create it, or name another one",
        )
    )
