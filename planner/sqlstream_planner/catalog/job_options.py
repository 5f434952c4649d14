"""What SET can set, as data: our settings, and what becomes of Flink's."""

from __future__ import annotations

from sqlstream_planner.catalog.options import OptionDef, ValueKind
from sqlstream_planner.text.name_lists import names_in

_I, _S, _D = ValueKind.INTEGER, ValueKind.STRING, ValueKind.DURATION

JOB_OPTIONS: tuple[OptionDef, ...] = (
    OptionDef(
        "pipeline.name",
        _S,
        "the pipeline's name: in messages, and of its state directory; the file's path in the project by default",
    ),
    OptionDef(
        "pipeline.max-parallelism",
        _I,
        "key groups; fixed for the life of a state directory",
        default="128",
        minimum=1,
        maximum=32768,
    ),
    OptionDef(
        "parallelism.default", _I, "shards of stateful stages; Spark's parallelism by default", minimum=1
    ),
    OptionDef("state.dir", _S, "where state and manifests are kept, a local path or a URI"),
    OptionDef("execution.max-rows-per-epoch", _I, "maximum rows per epoch, of all sources", minimum=1),
    OptionDef("execution.max-files-per-epoch", _I, "maximum files per epoch and source", minimum=1),
    OptionDef(
        "execution.max-dead-letters",
        _I,
        "dead letters that a state directory may have, of all kinds; the run stops before there are more",
        minimum=0,
    ),
    OptionDef(
        "execution.max-dead-letter-share",
        ValueKind.NUMBER,
        "dead letters that there may be for each of the last rows that were read, from 0 to 1",
        minimum=0,
        maximum=1,
    ),
    OptionDef(
        "execution.failing-rows",
        ValueKind.ENUM,
        "what becomes of a row over which an expression fails, such as a cast, before it meets others: by default the run "
        "stops, else the row is a dead letter, with the expression",
        choices=("fail", "dead-letter"),
    ),
    OptionDef(
        "execution.target-epoch-time",
        _D,
        "epochs grow or shrink towards taking this long",
        default="2 s",
        minimum=1,
    ),
    OptionDef(
        "execution.single-task-rows",
        _I,
        "an epoch of at most so many rows runs in the driver where all tasks share a machine; 0: never; without it 1000, "
        "and more until Spark has started",
        minimum=0,
    ),
    OptionDef(
        "execution.task-memory",
        ValueKind.BYTES,
        "memory for DuckDB in each task; half of the machine's or container's, divided by its cores, by default",
        minimum=64 << 20,
    ),
    OptionDef(
        "table.exec.source.idle-timeout",
        _D,
        "a source idle for so long holds no watermark back; 0: never",
        default="0 ms",
    ),
    OptionDef(
        "table.exec.state.ttl",
        _D,
        "state of a key that nothing touched for so long is forgotten; 0: never",
        default="0 ms",
    ),
    OptionDef(
        "table.exec.emit.allow-lateness",
        _D,
        "windows are corrected by rows that come so long after they closed",
        default="0 ms",
    ),
    OptionDef(
        "restart-strategy.type",
        ValueKind.ENUM,
        "how a run goes on after its database, disk or Spark failed; by default it is exponential-delay for a run that "
        "watches its sources, once it is up, and none for any other",
        choices=("none", "fixed-delay", "exponential-delay"),
    ),
    OptionDef(
        "restart-strategy.fixed-delay.attempts",
        _I,
        "attempts in a row without an epoch; for ever by default",
        minimum=1,
    ),
    OptionDef("restart-strategy.fixed-delay.delay", _D, "time before each attempt", default="1 s"),
    OptionDef(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        _I,
        "attempts in a row without an epoch; for ever by default",
        minimum=1,
    ),
    OptionDef(
        "restart-strategy.exponential-delay.initial-backoff",
        _D,
        "time before the first attempt",
        default="1 s",
        minimum=1,
    ),
    OptionDef(
        "restart-strategy.exponential-delay.max-backoff",
        _D,
        "the longest time before an attempt",
        default="1 min",
        minimum=1,
    ),
    OptionDef(
        "restart-strategy.exponential-delay.backoff-multiplier",
        ValueKind.NUMBER,
        "how much longer each time is than the one before",
        default="1.5",
        minimum=1,
        maximum=100,
    ),
    OptionDef(
        "execution.end-of-input",
        ValueKind.ENUM,
        "what a run does that has read all that bounded sources have: 'suspend' leaves windows open for the next run, "
        "'drain' closes them for good, as --drain does",
        default="suspend",
        choices=("suspend", "drain"),
    ),
    OptionDef(
        "execution.checkpointing.interval",
        _D,
        "time from the start of an epoch to that of the next one where input only trickles in: every epoch is a checkpoint; "
        "by default 100 to 500 ms",
        minimum=1,
    ),
    OptionDef(
        "table.local-time-zone",
        ValueKind.ZONE,
        "the zone whose wall clock CAST, EXTRACT and others show of TIMESTAMP WITH TIME ZONE; also SET TimeZone",
        default="UTC",
    ),
    OptionDef(
        "execution.runtime-mode",
        ValueKind.ENUM,
        "bounded sources end by themselves",
        default="streaming",
        choices=("streaming",),
    ),
)

HARMLESS_PREFIXES: tuple[str, ...] = names_in(
    """
    akka. classloader. cluster. client. containerized. env. execution.attached
    execution.buffer-timeout execution.checkpointing. execution.savepoint-restore-mode
    execution.shutdown- execution.target fs. high-availability historyserver. io. job. jobmanager.
    kubernetes. metrics. pekko. pipeline.auto- pipeline.generic-types pipeline.jars
    pipeline.object-reuse pipeline.operator-chaining process. queryable-state. rest.
    restart-strategy.exponential-delay.jitter-factor
    restart-strategy.exponential-delay.reset-backoff-threshold
    security. sql-client. state.backend state.checkpoints. state.checkpoint-storage
    state.savepoints
    table.dml-sync table.dynamic-table-options.enabled table.exec.async-lookup.
    table.exec.disabled-operators table.exec.mini-batch. table.exec.resource. table.exec.sort.
    table.exec.spill-compression. table.exec.simplify-operator-name-enabled table.exec.window-agg.
    table.generated-code. table.optimizer. table.plan. task. taskmanager. web. yarn. zookeeper.
    """
)
"""Flink's settings that cannot change results: accepted, with a warning that they do nothing."""

_FROM_A_SAVEPOINT = (
    "a run goes on with its own state; `sqlstream run FILE --from SAVEPOINT` begins with another"
)

REFUSED: dict[str, str] = {
    "execution.savepoint.path": _FROM_A_SAVEPOINT,
    "execution.state-recovery.path": _FROM_A_SAVEPOINT,
    "restart-strategy": "write SET 'restart-strategy.type' = 'fixed-delay'",
    "restart-strategy.failure-rate.delay": "there are fixed-delay and exponential-delay",
    "restart-strategy.failure-rate.failure-rate-interval": "there are fixed-delay and exponential-delay",
    "restart-strategy.failure-rate.max-failures-per-interval": "there are fixed-delay and exponential-delay",
    "table.exec.emit.early-fire.enabled": "write EMIT CHANGES at the end of the query",
    "table.exec.emit.late-fire.enabled": "SET 'table.exec.emit.allow-lateness' corrects windows by late rows",
    "table.exec.emit.early-fire.delay": "write EMIT CHANGES at the end of the query: every epoch gives what changed",
    "table.exec.emit.late-fire.delay": "every epoch gives what late rows correct",
    "table.exec.sink.require-on-conflict": "a conflict is never left to chance: write INSERT … ON CONFLICT DO …",
    "table.exec.sink.upsert-materialize": "write INSERT … ON CONFLICT DO DEDUPLICATE",
    "table.exec.legacy-cast-behaviour": "casts are DuckDB's",
    "table.exec.sink.not-null-enforcer": "only databases check NOT NULL; keep NULLs out with WHERE x IS NOT NULL",
    "table.exec.sink.type-length-enforcer": "lengths of types are not checked",
    "table.exec.source.cdc-events-duplicate": "declare a PRIMARY KEY: changes are then made consistent by it",
    "table.sql-dialect": "the dialect is Flink's SQL with DuckDB's expressions",
}
"""Flink's settings that would change results, and why they can't be set."""


def is_harmless(key: str) -> bool:
    """Whether `key` is a setting of Flink's that cannot change results.

    >>> is_harmless("rest.port"), is_harmless("execution.target-x")
    (True, False)
    """
    return any(
        key.startswith(name) if name.endswith((".", "-")) else key == name or key.startswith(name + ".")
        for name in HARMLESS_PREFIXES
    )
