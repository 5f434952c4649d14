"""A Kafka broker of the tests' own: KRaft, one process, started once a session on free ports.

It is made of the jars that `pom.xml` names, which Maven resolves once and keeps. Where there is no Maven, no Java or no
way to the jars, the tests skip and say which of them is missing.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.jars import classpath, free_ports, java

#: The users of the listener with a password; `admin` may do everything.
USERS = {"admin": "admin-not-shown", "reader": "reader-not-shown"}
#: Which jars it is made of.
POM = Path(__file__).with_name("pom.xml")
_START_S = 120.0
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(slots=True)
class Broker:
    """A broker that can be stopped, killed and paused while it is used; its data stays until `close`.

    `bootstrap` has no password, `sasl` asks for one of `USERS` (SASL_PLAINTEXT, PLAIN). Without ACLs on a resource
    everybody may use it.
    """

    folder: Path
    port: int
    sasl_port: int
    java: str
    classpath: str
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def sasl(self) -> str:
        return f"127.0.0.1:{self.sasl_port}"

    def start(self) -> None:
        """Start it, with the data that it had, and wait until it answers."""
        assert self.process is None
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    self.java,
                    *_JVM,
                    "-cp",
                    self.classpath,
                    "kafka.Kafka",
                    str(self.folder / "broker.properties"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.output
            if _answers(self.bootstrap):
                return
            time.sleep(0.1)
        raise AssertionError(f"the broker does not answer after {_START_S} s: {self.output}")

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """Kill it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it in order."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Let it answer nothing, with its connections open."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Wake it up after `pause`."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it, and delete its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
            os.kill(process.pid, number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def new_broker(settings: Mapping[str, str] | None = None) -> Broker:
    """A broker that is started, with `settings` over ours; skips the test, with the reason, if there can be none."""
    java_, jars = java(), classpath(POM, "Kafka broker")
    folder = Path(tempfile.mkdtemp(prefix="sqlstream-kafka-"))
    port, sasl_port, controller = free_ports(3)
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{plain} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "allow.everyone.if.no.acl.found": "true",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",  # records of the tests are older than any retention
        "log.retention.check.interval.ms": "1000",
        "log.cleaner.backoff.ms": "500",
        "message.max.bytes": str(16 << 20),
        "replica.fetch.max.bytes": str(16 << 20),
        "log.segment.delete.delay.ms": "0",
        **(settings or {}),
    }
    path = folder / "broker.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    given = (f"--cluster-id={cluster}", "-c", str(path))  # as one word: it may begin with -
    made = subprocess.run(
        [java_, *_JVM, "-cp", jars, "kafka.tools.StorageTool", "format", *given],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    broker = Broker(folder, port, sasl_port, java_, jars)
    try:
        broker.start()
    except BaseException:
        broker.close()
        raise
    return broker


def run_broker(settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """`new_broker`, closed behind the test."""
    broker = new_broker(settings)
    try:
        yield broker
    finally:
        broker.close()


def _answers(address: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        return False
