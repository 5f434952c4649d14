"""How long a record takes from the producer until a reader of committed records has it, beside Flink SQL.

python benchmarks/kafka_latency.py [--flink PYTHON --jar JAR] [--per-second N] [--seconds N]

`kafka/passed.sql` runs from topic to topic, exactly once, at sqlstream's defaults and with Flink's checkpoints of 1 s and
200 ms. A producer writes N bids a second, each with the time in `extra`; a `read_committed` reader takes the difference.
Prints a Markdown table of the percentiles, ms, behind a warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka_peers import PARTITIONS, PIPELINES, flink_command, rendered
from tests.connectors.kafka.broker import new_broker
from tests.connectors.kafka.topics import Topics

PIPELINE = PIPELINES / "passed.sql"
#: Of how many records one is looked at: reading all of them took a core from the systems that are measured.
_EVERY = 16
#: How often the producer hands records over, seconds.
TICK_S = 0.01


def produce(bootstrap: str, topic: str, per_second: int, up: Event, stop: Event) -> None:
    """A bid a second until the pipeline is up, then a steady stream until it is told to stop."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    while not up.wait(1.0) and not stop.is_set():
        producer.produce(topic, "0".join(_bid_at(time.time())), partition=0)
        producer.poll(0)
    started, sent = time.time(), 0
    while not stop.is_set():
        now = time.time()
        due = int((now - started) * per_second)
        head, tail = _bid_at(now)
        for number in range(sent, due):
            producer.produce(topic, f"{head}{number % 1000}{tail}", partition=number % PARTITIONS)
        sent = due
        producer.poll(0)
        time.sleep(TICK_S)
    producer.flush()


def _bid_at(now: float) -> tuple[str, str]:
    """A bid without its auction, in two parts; those of one tick differ in that alone, so that making them is cheap."""
    return '{"auction":', (
        f',"bidder":7,"price":{int(now * 1000) % 99999},"channel":"c","url":"u",'
        f'"dateTime":"{time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))}.{int(now % 1 * 1000):03d}",'
        f'"extra":"{now:.6f}"}}'
    )


def latencies(bootstrap: str, topic: str, up: Event, warm_up_s: float, seconds: float) -> list[float]:
    """Milliseconds of each record that a reader of committed records gets behind the warm-up."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "latency",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": "10",
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[float] = []
    first: float | None = None
    given_up = time.time() + 300
    while first is None or time.time() < first + warm_up_s + seconds:
        if first is None and time.time() > given_up:
            raise RuntimeError("nothing came in five minutes")
        messages = consumer.consume(2000, 0.05)
        now = time.time()
        if first is None and messages:
            first = now
            up.set()
        if first is not None and now >= first + warm_up_s:
            found += [
                (now - float(json.loads(message.value() or b"")["extra"])) * 1000
                for message in messages[::_EVERY]
                if not message.error()
            ]
    consumer.close()
    return found


def command(
    system: str, topics: Topics, source: str, sink: str, folder: Path, args: argparse.Namespace
) -> list[str]:
    """The process that runs the pipeline until it is stopped."""
    given = {"source": source, "sink": sink, "brokers": topics.bootstrap, "watched": "yes"}
    if system == "sqlstream":
        variables = [part for name, value in given.items() for part in ("--var", f"{name}={value}")]
        state = ["--state-dir", str(folder / "state")]
        return [sys.executable, "-m", "sqlstream", "run", str(PIPELINE), *variables, *state, "--json"]
    file = folder / "flink.sql"
    file.write_text(rendered(PIPELINE, given))
    return [*flink_command(args, file, [sink]), "--checkpoints-ms", system.rpartition(" ")[2]]


def measured(system: str, topics: Topics, args: argparse.Namespace) -> list[float]:
    """The latencies of one system."""
    source, sink = topics.create(PARTITIONS), topics.create(PARTITIONS)
    own = multiprocessing.get_context("spawn")  # the producer has a process to itself
    up, stop = own.Event(), own.Event()
    producer = own.Process(target=produce, args=(topics.bootstrap, source, args.per_second, up, stop))
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "out").open("w+") as out:
        process = subprocess.Popen(
            command(system, topics, source, sink, Path(folder), args),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        producer.start()
        try:
            found = latencies(topics.bootstrap, sink, up, args.warm_up, args.seconds)
            if args.keep:
                out.seek(0)
                args.keep.write_text(out.read())
            return found
        except RuntimeError as error:
            out.seek(0)
            raise RuntimeError(f"{system}: {error}: {out.read()[-3000:]}") from error
        finally:
            stop.set()
            producer.join()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--flink", help="an interpreter with apache-flink; without it only sqlstream is measured")
    p.add_argument("--jar", help="flink-sql-connector-kafka")
    p.add_argument("--per-second", type=int, default=10_000)
    p.add_argument("--warm-up", type=float, default=15.0, help="seconds behind the first record")
    p.add_argument("--seconds", type=float, default=30.0)
    p.add_argument("--keep", type=Path, help="where to keep what the runs print, their epochs")
    args = p.parse_args()
    systems = [
        "sqlstream",
        *(["Flink, checkpoints, ms: 1000", "Flink, checkpoints, ms: 200"] if args.flink else []),
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the broker goes, too
    broker = new_broker()
    try:
        print("| system | records | p50, ms | p90 | p99 | most |\n|---|---|---|---|---|---|", flush=True)
        for system in systems:
            found = sorted(measured(system, Topics(broker), args))
            cuts = statistics.quantiles(found, n=100)
            shown = " | ".join(f"{cuts[at]:.0f}" for at in (49, 89, 98))
            print(f"| {system} | {len(found)} | {shown} | {found[-1]:.0f} |", flush=True)
    finally:
        broker.close()


if __name__ == "__main__":
    main()
