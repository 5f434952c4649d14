"""Time sqlstream and Flink SQL from topic to topic: the same SQL, the same broker, in turn.

python benchmarks/kafka_peers.py --flink PYTHON --jar JAR [q12 q17 q5] [--events N] [--rounds N] [--repeat N]

A broker of the tests is started. `--flink` is the interpreter of an environment with `apache-flink`, `--jar` its
`flink-sql-connector-kafka` from Maven. A turn is one process that runs the query `--repeat` times, each time from
nothing into a topic of its own; its first run, with a cold JVM, does not count. Both write exactly once, Flink with a
checkpoint a second. What a `read_committed` reader finds is compared, row by row; of q17 the last row of each key.
Prints a Markdown table, ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.sqlstream_warm import run_sqlstream
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from tests.connectors.kafka.broker import new_broker
from tests.connectors.kafka.topics import Topics

HERE = Path(__file__).resolve().parent
PIPELINES = HERE / "kafka"
PARTITIONS = 4
_FILL = """
CREATE TABLE nexmark (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING>
) WITH ('connector' = 'nexmark', 'events' = '{events}', 'out-of-order' = '1 s');
CREATE TABLE topic (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING
) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{brokers}', 'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601', 'sink.delivery-guarantee' = 'at-least-once',
  'properties.compression.type' = 'lz4');
INSERT INTO topic SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.`dateTime`, bid.extra
FROM nexmark WHERE event_type = 2;
"""


def fill(topics: Topics, events: int) -> tuple[str, float]:
    """A topic with the bids of so many events, and the seconds that it took."""
    topic = topics.create(PARTITIONS)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fill.sql"
        file.write_text(_FILL.format(events=events, topic=topic, brokers=topics.bootstrap))
        request = RunRequest(
            plan_file(file).physical,
            state_dir=Path(folder) / "state",
            local_dir=Path(folder) / "local",
            runner=InProcessRunner(2),
            parallelism=2,
            max_rows_per_epoch=100_000,
        )
        run_pipeline(request)
    return topic, time.perf_counter() - started


def run_turn(file: Path, variables: Sequence[Mapping[str, str]], parallelism: int) -> None:
    """Run the query once for each of `variables`, in this process; prints the seconds as Flink's script does."""
    runner = SparkJobRunner.start(f"local[{parallelism}]")
    runs = []
    try:
        for given in variables:
            with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
                run = run_sqlstream(file, Path(folder), given, lambda: runner, parallelism, None)
                runs.append(round(run.seconds, 3))
    finally:
        runner.close()
    print(json.dumps({"runs": runs}), flush=True)


def rendered(file: Path, given: Mapping[str, str]) -> str:
    """The SQL of a pipeline as Flink reads it."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(file.parent))
    text = environment.get_template(file.name).render(var=lambda name, default="": given.get(name, default))
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def flink_command(args: argparse.Namespace, file: Path, sinks: Sequence[str]) -> list[str]:
    """The process that runs a file with Flink, once for each of `sinks`."""
    return [args.flink, str(HERE / "kafka_flink.py"), str(file), "--jar", args.jar, "--sinks", *sinks]


def turn(
    system: str, query: str, topics: Topics, source: str, args: argparse.Namespace
) -> tuple[list[float], str]:
    """The seconds of each run of one process, and the topic of the last."""
    sinks = [topics.create(PARTITIONS) for _ in range(args.repeat)]
    variables = [{"source": source, "sink": sink, "brokers": topics.bootstrap} for sink in sinks]
    file = PIPELINES / f"{query}.sql"
    if system == "sqlstream":
        command = [sys.executable, __file__, "--turn", str(file), json.dumps(variables)]
        done = subprocess.run(command, capture_output=True, text=True)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as text:
            text.write(rendered(file, {**variables[0], "sink": "SINK"}))
            text.flush()
            done = subprocess.run(flink_command(args, Path(text.name), sinks), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{system} {query}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])["runs"], sinks[-1]


def found(topics: Topics, topic: str, *, by_key: bool) -> Counter[str]:
    """What a reader of committed records finds; by key the last."""
    records = topics.records(topic)
    if by_key:
        last = {record.key: record.value for record in records}
        return Counter(_plain(value) for value in last.values())
    return Counter(_plain(record.value) for record in records)


def _plain(value: bytes | None) -> str:
    return json.dumps(json.loads(value or b"null"), sort_keys=True)


def main() -> None:
    if "--turn" in sys.argv:
        file, variables = sys.argv[2:4]
        run_turn(Path(file), json.loads(variables), 4)
        return
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("queries", nargs="*", default=["q12", "q17", "q5"])
    p.add_argument("--flink", help="an interpreter with apache-flink; without it only sqlstream is timed")
    p.add_argument("--jar", help="flink-sql-connector-kafka")
    p.add_argument("--events", type=int, default=2_000_000)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--repeat", type=int, default=3)
    args = p.parse_args()
    systems = ("sqlstream", "flink") if args.flink else ("sqlstream",)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the broker goes, too
    broker = new_broker()
    try:
        topics = Topics(broker)
        source, seconds = fill(topics, args.events)
        print(
            f"{args.events} events: their bids in a topic of {PARTITIONS} partitions after {seconds:.0f} s",
            flush=True,
        )
        print(
            "| query | " + " | ".join(f"{system}, s" for system in systems) + " | Flink / sqlstream | rows |"
        )
        print("|---|" + "---|" * (len(systems) + 2), flush=True)
        for query in args.queries:
            times: dict[str, list[float]] = {system: [] for system in systems}
            rows: dict[str, Counter[str]] = {}
            for _ in range(args.rounds):
                for system in systems:
                    runs, sink = turn(system, query, topics, source, args)
                    times[system].append(statistics.median(runs[1:] or runs))
                    rows[system] = found(topics, sink, by_key=query == "q17")
            ratios = [
                flink / ours for ours, flink in zip(times["sqlstream"], times.get("flink", []), strict=False)
            ]
            same = "the same" if len({frozenset(r.items()) for r in rows.values()}) == 1 else "DIFFERENT"
            shown = [f"{min(t):.2f}–{max(t):.2f}" for t in times.values()]
            ratio = f"{min(ratios):.1f}–{max(ratios):.1f}" if ratios else "–"
            count = sum(next(iter(rows.values())).values())
            print(f"| {query} | {' | '.join(shown)} | {ratio} | {count}, {same} |", flush=True)
    finally:
        broker.close()


if __name__ == "__main__":
    main()
