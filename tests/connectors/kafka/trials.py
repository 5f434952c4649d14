"""A trial: a pipeline from topics to topics and tables, whose driver, workers and broker are killed at random moments.

Meanwhile a producer writes, and where the driver is begun again it has other shards or an edited pipeline. Then the history
goes, an edit that needs it is refused, and the pipeline goes on to the end.

python -m tests.connectors.kafka.trials SEED driver|spark KILLS [VICTIM…]
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from confluent_kafka import Producer, TopicPartition

from tests.connectors.kafka.broker import Broker, new_broker
from tests.connectors.kafka.topics import Topics
from tests.connectors.kafka.trial_pipeline import ADDED, FIRST, REFUSED, Out, Places, expected, found
from tests.examples import is_long

ROOT = Path(__file__).parents[3]
PARTITIONS = 3
#: The command, which shows where it is when it is sent SIGUSR1.
#: A few rows are enough for an epoch to be written in several transactions.
COMMAND = (
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1); from sqlstream.connectors.kafka import shares; "
    "shares.ROWS = 5; from sqlstream.__main__ import main; main()"
)
#: How long a driver may need for what it must do, s: machines that test are slow.
PATIENCE_S = 400.0


class Producing:
    """Writes rows until it is stopped, fewer than `most` in a tenth of a second, whatever the broker does.

    Those of a partition are in order of time, and each partition has a speed of its own.
    """

    def __init__(self, places: Places, seed: int, most: int) -> None:
        self._places, self._rng, self._most = places, random.Random(seed), most
        self.sent: dict[str, list[bytes]] = {"t": [], "u": []}
        self.failed: list[str] = []
        self._clocks = {(table, n): 0 for table in self.sent for n in range(PARTITIONS)}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        """All that was written is there."""
        self._stop.set()
        self._thread.join()
        assert not self.failed, self.failed[:3]

    def _work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._places.topics.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        while not self._stop.wait(0.1):
            for _ in range(self._rng.randrange(self._most)):
                self._one(producer)
            producer.poll(0)
        if producer.flush(PATIENCE_S):
            self.failed.append("not all was written")

    def _one(self, producer: Producer) -> None:
        rng = self._rng
        table, number = rng.choice("ttu"), rng.choice((0, 0, 0, 1, 1, 2))
        clock = self._clocks[table, number]
        self._clocks[table, number] += rng.randrange(4000 // (number + 1))
        row = {
            "id": len(self.sent[table]),
            "k": rng.randrange(20),
            "g": rng.randrange(4),
            "v": rng.randrange(1000),
            "ts": f"2024-01-01 {clock // 3_600_000:02}:{clock // 60_000 % 60:02}:{clock // 1000 % 60:02}"
            f".{clock % 1000:03}",
        }
        value = json.dumps(row).encode()
        self.sent[table].append(value)
        producer.produce(
            self._places.topic(table),
            value,
            partition=number,
            on_delivery=lambda error, _: self.failed.append(str(error)) if error is not None else None,
        )


@dataclass
class Driver:
    """`sqlstream run` as a process of its own, and what it has written."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    @classmethod
    def start(cls, folder: Path, number: int, *arguments: str) -> Driver:
        path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
        output, errors = folder / f"run-{number:03}.out", folder / f"run-{number:03}.err"
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, "run", "pipeline.sql", "--json", *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return cls(process, output, errors)

    @property
    def said(self) -> str:
        """The end of what it has written about its progress, and its errors."""
        return self.output.read_text()[-1500:] + self.errors.read_text(errors="replace")

    @property
    def epochs(self) -> int:
        """The epochs that it has told of."""
        return sum(b'"epoch"' in line for line in self.output.read_bytes().splitlines())

    def wait_for(self, epochs: int) -> bool:
        """Wait until it has told of so many; False if it has ended before."""
        deadline = time.monotonic() + PATIENCE_S
        while self.epochs < epochs:
            if self.process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                os.kill(self.process.pid, signal.SIGUSR1)
                time.sleep(1)
                raise AssertionError(f"no epoch {epochs} after {PATIENCE_S} s: {self.said[-6000:]}")
            time.sleep(0.05)
        return True

    def end(self, number: signal.Signals | None) -> int:
        """Its exit code, after a signal."""
        if number is not None and self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(PATIENCE_S)

    def workers(self) -> list[int]:
        """Spark's Python processes below it."""
        parents, workers = {}, []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if b"worker_daemon" in (entry / "cmdline").read_bytes():
                        workers.append(int(entry.name))
                except OSError:
                    continue
        return [pid for pid in workers if self._is_above(pid, parents)]

    def _is_above(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents:
            if pid == self.process.pid:
                return True
            pid = parents[pid]
        return False

    def left(self) -> list[int]:
        """Processes of its session that are there still."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                except OSError:
                    continue
                if int(session) == self.process.pid and state != "Z":
                    found.append(int(entry.name))
        return found


@dataclass
class Trial:
    """One trial in a folder; `log` is told what happens, `kills` counts it."""

    folder: Path
    broker: Broker
    rng: random.Random
    spark: bool
    log: Callable[[str], None] = lambda line: None
    victims: tuple[str, ...] = ()
    kills: Counter[str] = field(default_factory=Counter)
    outs: list[Out] = field(default_factory=lambda: list(FIRST))
    drivers: list[Driver] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places = Places(Topics(self.broker), f"trial-{self.rng.randrange(1 << 32):08x}")
        self.victims = self.victims or (
            ("driver", "broker", "worker") if self.spark else ("driver", "broker")
        )
        self.settings = {"execution.single-task-rows": "0"} if self.spark else {}

    def run(self, kills: int) -> None:
        """Kill so often, then go on to the end, and compare."""
        for table in "tu":
            self.places.topics.create(PARTITIONS, name=self.places.topic(table))
        self.places.create(self.outs, PARTITIONS)
        self._write(self.outs)
        producing = Producing(self.places, self.rng.randrange(1 << 32), 5 if self.spark else 12)
        edits = dict(zip(sorted(self.rng.sample(range(kills), min(3, kills))), ADDED, strict=False))
        try:
            driver = self._start()
            for number in range(kills):
                driver = self._kill(driver, edit=edits.get(number))
            for verdict in list(ADDED)[len(edits) :] if is_long() else ():
                driver = self._edited(driver, verdict)
            self._history_goes(driver)
        finally:
            producing.stop()
        self._finish(producing)

    def _kill(self, driver: Driver, *, edit: str | None) -> Driver:
        """Kill somebody; whoever runs then has told of an epoch since."""
        rng = self.rng
        victim = "driver" if edit else rng.choice(self.victims)
        if edit or victim != "driver" or rng.random() < 0.7:
            driver.wait_for(rng.randint(1, 2))
            time.sleep(rng.uniform(0, 1.5))
        else:
            time.sleep(rng.uniform(0.5, 6))
        if victim == "worker":
            workers = driver.workers()
            victim = "worker" if workers else "driver"
        before = driver.epochs
        if victim == "driver":
            driver = self._killed(driver, edit)
            before = 0
        elif victim == "broker":
            self.broker.kill()
            time.sleep(rng.choice((0, rng.uniform(0, 5))))
            self.broker.start()
        else:
            os.kill(rng.choice(workers), signal.SIGKILL)
        self.kills[victim] += 1
        self.log(f"killed {victim}{f', {edit}' if edit else ''}")
        return self._goes_on(driver, before)

    def _killed(self, driver: Driver, edit: str | None) -> Driver:
        code = driver.end(signal.SIGKILL)
        if code != -signal.SIGKILL:
            self.log(f"had ended before with {code}: {driver.said[-600:]}")
            assert code == 5, f"exit code {code}: {driver.said[-3000:]}"
        return self._edited(driver, edit) if edit else self._start()

    def _goes_on(self, driver: Driver, before: int) -> Driver:
        """It must; a run that ended because of what was killed is begun again."""
        if not self.rng.randrange(3) and driver.process.poll() is None:
            return driver  # the next one is killed while it recovers
        for _ in range(4):
            if driver.wait_for(before + 1):
                return driver
            code = driver.end(None)
            self.log(f"ended with {code}: {driver.said[-600:]}")
            assert code == 5, f"exit code {code}: {driver.said[-3000:]}"
            driver, before = self._start(), 0
        raise AssertionError(f"it does not go on: {driver.said[-3000:]}")

    def _edited(self, driver: Driver, verdict: str) -> Driver:
        """Go on with the pipeline edited; the plan has the verdict."""
        driver.end(signal.SIGTERM)
        added = ADDED[verdict]
        self.places.create(added, PARTITIONS)
        self.outs += added
        self._write(self.outs)
        planned = self._sqlstream("plan", "pipeline.sql")
        assert planned.returncode == 0, planned.stdout + planned.stderr
        self.log(
            next((line for line in planned.stdout.splitlines() if "The result is" in line), planned.stdout)
        )
        if verdict != "KEEP":
            assert verdict in planned.stdout, planned.stdout
        return self._start()

    def _history_goes(self, driver: Driver) -> None:
        """What was read is deleted: an edit that needs it is refused and changes nothing; the pipeline goes on."""
        assert driver.wait_for(1), driver.said[-3000:]
        code = driver.end(signal.SIGTERM)
        assert code == 0, f"exit code {code}: {driver.said[-3000:]}"
        self.before = {table: self._records(table) for table in "tu"}
        position = self._position()
        wanted = [TopicPartition(self.places.topic("t"), int(n), at) for n, at in position.items() if at]
        admin = self.places.topics.admin
        for result in admin.delete_records(wanted).values():
            result.result(60)
        self.places.create([REFUSED], PARTITIONS)
        self._write([*self.outs, REFUSED])
        for command in ("plan", "run"):
            refused = self._sqlstream(command, "pipeline.sql")
            assert refused.returncode in (3, 4), refused.stdout + refused.stderr
            assert "DAT008" in refused.stdout + refused.stderr, refused.stdout + refused.stderr
        self.log(f"refused with {refused.returncode}")
        self._write(self.outs)
        driver = self._start()
        assert driver.wait_for(1), driver.said[-3000:]
        code = driver.end(signal.SIGKILL)
        self.kills["driver"] += 1

    def _finish(self, producing: Producing) -> None:
        driver = self._start("--drain", "--max-rows-per-epoch", "20000")
        code = driver.end(None)
        assert code == 0, f"exit code {code}: {driver.said[-3000:]}"
        rows = {}
        for table, before in self.before.items():
            after = self._records(table)
            rows[table] = list({**before, **after}.values())
            assert Counter(rows[table]) == Counter(producing.sent[table]), (
                f"the records of {table} themselves"
            )
        self.log(f"{len(rows['t'])} and {len(rows['u'])} rows")
        for out, wanted in expected(self.outs, rows, self.folder).items():
            there = found(next(o for o in self.outs if o.name == out), self.places, self.folder)
            missing, doubled = wanted - there, there - wanted
            assert wanted == there, (
                f"{out}: {missing.total()} of {wanted.total()} rows are missing, {doubled.total()} too many: "
                f"{list(missing.items())[:5]} {list(doubled.items())[:5]}"
            )
        dead = self._sqlstream("plan", "pipeline.sql")
        assert dead.returncode == 0, dead.stdout + dead.stderr
        assert not list((self.folder / "state").glob("dead_letters/**/*.json*")), "no row is late"
        self._nobody_is_left()

    def _nobody_is_left(self) -> None:
        deadline = time.monotonic() + 60
        while left := [pid for driver in self.drivers for pid in driver.left()]:
            assert time.monotonic() < deadline, f"processes of drivers that are gone: {left}"
            time.sleep(0.5)

    def close(self) -> None:
        """End what is there still."""
        for driver in self.drivers:
            for pid in driver.left():
                os.kill(pid, signal.SIGKILL)

    def _start(self, *more: str) -> Driver:
        rng = self.rng
        arguments = ["--state-dir", "state", "--restart-delay", "500 ms"]
        arguments += ["--parallelism", str(rng.randint(1, 3))]
        arguments += ["--max-rows-per-epoch", str(rng.choice((300, 1000, 5000)))]
        if self.spark:
            arguments += ["--master", "local[2]"]
        driver = Driver.start(self.folder, len(self.drivers), *arguments, *more)
        self.drivers.append(driver)
        return driver

    def _write(self, outs: Sequence[Out]) -> None:
        (self.folder / "pipeline.sql").write_text(self.places.text(outs, self.settings))

    def _sqlstream(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
        return subprocess.run(
            [sys.executable, "-m", "sqlstream", *arguments, "--state-dir", "state"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def _records(self, table: str) -> dict[tuple[int, int], bytes]:
        records = self.places.topics.records(self.places.topic(table))
        return {(r.partition, r.offset): r.value for r in records if r.value is not None}

    def _position(self) -> dict[int, int]:
        """The offsets of `t` that the last manifest has."""
        last = max((self.folder / "state" / "epochs").glob("*.manifest.json"))
        manifest = json.loads(last.read_text())
        (offsets,) = [s["position"]["next"] for s in manifest["sources"] if s["name"] == "t"]
        topic = self.places.topic("t")
        return {int(number): int(at) for number, at in offsets[topic].items()}


def trial(
    folder: Path,
    seed: int,
    *,
    spark: bool,
    kills: int,
    log: Callable[[str], None] = lambda line: None,
    victims: tuple[str, ...] = (),
) -> Counter[str]:
    """Run one trial with a broker of its own; how often who was killed."""
    broker = new_broker()
    one = Trial(folder, broker, random.Random(seed), spark, log, victims)
    try:
        one.run(kills)
    finally:
        one.close()
        broker.close()
    return one.kills


def main(seed: int, mode: str, kills: int, *victims: str) -> None:
    began = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {line}", flush=True)

    folder = Path(mkdtemp(prefix=f"trial-{mode}-{seed}-"))
    log(f"seed {seed}, {mode}, {folder}")
    done = trial(folder, seed, spark=mode == "spark", kills=kills, log=log, victims=victims)
    log(f"right, after {done.total()} kills: {dict(done)}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
