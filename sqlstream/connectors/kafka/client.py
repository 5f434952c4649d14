"""The configuration of librdkafka, made of the properties of Kafka's Java clients that a table has.

Names that mean the same are passed on, names that differ are translated, and what has no meaning outside of Java is
left out, by the lists below. What neither Java's clients nor librdkafka know is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from sqlstream.connectors.extras import installed
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.text.name_lists import names_in

#: What of Java's clients has another name in librdkafka.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "max.request.size": "message.max.bytes",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
#: What says nothing to a client outside of Java, or is ours to decide: positions are in manifests.
_IGNORED = frozenset(
    names_in(
        """
        key.deserializer value.deserializer key.serializer value.serializer max.poll.records
        default.api.timeout.ms enable.auto.commit auto.commit.interval.ms partition.assignment.strategy
        group.instance.id group.protocol group.remote.assignor interceptor.classes metric.reporters
        metrics.num.samples metrics.recording.level metrics.sample.window.ms exclude.internal.topics
        security.providers sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter ssl.enabled.protocols
        ssl.protocol ssl.provider ssl.secure.random.implementation ssl.keymanager.algorithm
        ssl.trustmanager.algorithm ssl.engine.factory.class ssl.truststore.password ssl.truststore.type
        ssl.keystore.type max.block.ms partitioner.class partitioner.adaptive.partitioning.enable
        partitioner.availability.timeout.ms partitioner.ignore.keys auto.include.jmx.reporter
        enable.metrics.push metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
        client.id.prefix partition.discovery.interval.ms register.consumer.metrics
        commit.offsets.on.checkpoint transactional.id buffer.memory
        """
    )
)
#: At first; it doubles up to 10 s. With librdkafka's 100 ms a new client's first call took 58 ms, with this 16.
_BACKOFF_MS = "20"
#: Properties of consumers alone, and of producers alone.
_CONSUMERS = frozenset(
    names_in(
        """
        fetch.max.wait.ms fetch.wait.max.ms fetch.min.bytes fetch.max.bytes max.partition.fetch.bytes
        fetch.message.max.bytes check.crcs heartbeat.interval.ms session.timeout.ms max.poll.interval.ms
        queued.min.messages queued.max.messages.kbytes fetch.error.backoff.ms fetch.queue.backoff.ms
        allow.auto.create.topics
        """
    )
)
_PRODUCERS = frozenset(
    names_in(
        """
        acks batch.size compression.type compression.codec compression.level delivery.timeout.ms
        enable.idempotence linger.ms queue.buffering.max.ms queue.buffering.max.messages
        queue.buffering.max.kbytes retries message.send.max.retries batch.num.messages
        transaction.timeout.ms sticky.partitioning.linger.ms partitioner
        """
    )
)
#: Classes of Java that would be called for a login: leaving them out would only fail later, and say less.
_JAVA_CLASSES = re.compile(
    r"sasl\.(client|login|server)\.(callback\.handler\.)?class|.*\.callback\.handler\.class"
)
_LOGIN = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL)
_LOGIN_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;"]+))', re.DOTALL)


def confluent_kafka() -> ModuleType:
    """The client's package. Raises DiagnosticError (ENV009) if it is not installed."""
    return installed("confluent_kafka", "Kafka's client", "kafka")


def consumer_config(options: KafkaOptions) -> dict[str, str]:
    """The configuration of a consumer: it commits nothing by itself, and sees the ends of partitions.

    Raises DiagnosticError (OPT003) for properties that can't be translated.
    """
    found = {k: v for k, v in client_config(options.properties).items() if k not in _PRODUCERS}
    return {
        # A partition that waits to be read again must not fill the memory, nor wait a second once it is read.
        "queued.max.messages.kbytes": "16384",
        "fetch.queue.backoff.ms": "10",
        # A partition that is started waits for the request that is under way, which waits this long for new records.
        "fetch.wait.max.ms": "100",
        "log_level": "2",  # its trouble is reported with the error
        **found,
        "group.id": options.group_id or "sqlstream",  # without one librdkafka makes no consumer
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        # An offset that is gone is an error; librdkafka would go on somewhere else.
        "auto.offset.reset": "error",
        "isolation.level": options.isolation,
    }


def producer_config(options: KafkaOptions) -> dict[str, str]:
    """The configuration of a producer. Raises DiagnosticError (OPT003) for properties that can't be translated."""
    found = client_config(options.properties)
    memory = options.properties.get("buffer.memory", "")
    if memory.strip().isdigit():
        found["queue.buffering.max.kbytes"] = str(max(1, int(memory) // 1024))
    return {k: v for k, v in found.items() if k not in _CONSUMERS}


def admin_config(options: KafkaOptions) -> dict[str, str]:
    """The configuration of an administrator: the brokers' addresses, and the login."""
    found = {"log_level": "2", **client_config(options.properties)}
    return {k: v for k, v in found.items() if k not in _PRODUCERS and k not in _CONSUMERS}


def client_config(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of Java's clients in librdkafka's words; its own are passed on.

    >>> client_config({"bootstrap.servers": "h:1", "key.deserializer": "x", "fetch.max.wait.ms": "5"})
    {'bootstrap.servers': 'h:1', 'fetch.wait.max.ms': '5', 'reconnect.backoff.ms': '20'}
    """
    config: dict[str, str] = {}
    for name, value in properties.items():
        if _JAVA_CLASSES.fullmatch(name):
            raise _refused(
                name,
                "it names a class of Java, which can't be loaded here",
                "log in by PLAIN, SCRAM, GSSAPI or OAUTHBEARER with 'properties.sasl.oauthbearer.method' = 'oidc'",
            )
        if name in _IGNORED or name == "sasl.jaas.config":
            continue
        if name.startswith("ssl.keystore.") and name != "ssl.keystore.password":
            config |= _keystore(name, value, properties)
            continue
        if name == "ssl.truststore.location":
            _check_pem(name, value, properties.get("ssl.truststore.type"))
        if name == "ssl.endpoint.identification.algorithm":
            value = value.strip() or "none"
        config[_RENAMED.get(name, name)] = value
    if "sasl.jaas.config" in properties:
        config |= _login(properties["sasl.jaas.config"])
    if (
        config.get("sasl.mechanism", "").upper() == "OAUTHBEARER"
        and "sasl.oauthbearer.token.endpoint.url" in config
    ):
        config.setdefault("sasl.oauthbearer.method", "oidc")
    if "reconnect.backoff.max.ms" not in config:
        config.setdefault("reconnect.backoff.ms", _BACKOFF_MS)
    return config


def _keystore(name: str, value: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What `ssl.keystore.*` is in librdkafka, which reads PEM and PKCS#12."""
    if name != "ssl.keystore.location":
        return {_RENAMED[name]: value}
    kind = properties.get("ssl.keystore.type", "").strip().upper()
    if kind == "PEM" or value.lower().endswith((".pem", ".crt")):
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "PKCS12" or value.lower().endswith((".p12", ".pfx")):
        return {"ssl.keystore.location": value}
    raise _refused(
        name,
        f"'{value}' is a key store of Java's, which only Java can read",
        f"keytool -importkeystore -srckeystore {value} -destkeystore keystore.p12 -deststoretype PKCS12, and name that",
    )


def _check_pem(name: str, value: str, kind: str | None) -> None:
    if (kind or "").strip().upper() in ("JKS", "PKCS12") or value.lower().endswith((".jks", ".p12", ".pfx")):
        raise _refused(
            name,
            f"'{value}' is a trust store of Java's; certificates in PEM are needed",
            f"keytool -exportcert -rfc -keystore {value} -alias … -file ca.pem, and name that",
        )


def _login(text: str) -> dict[str, str]:
    """Who logs in, of a `sasl.jaas.config`.

    >>> _login('org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";')
    {'sasl.username': 'u', 'sasl.password': 'p'}
    """
    found = _LOGIN.fullmatch(text)
    module = "" if found is None else found[1].rpartition(".")[2]
    options = {
        one[1]: re.sub(r"\\(.)", r"\1", one[2]) if one[2] is not None else one[3]
        for one in _LOGIN_OPTION.finditer("" if found is None else found[2])
    }
    match module:
        case "PlainLoginModule" | "ScramLoginModule" if "username" in options and "password" in options:
            return {"sasl.username": options["username"], "sasl.password": options["password"]}
        case "OAuthBearerLoginModule" if "clientId" in options and "clientSecret" in options:
            scope = {"sasl.oauthbearer.scope": options["scope"]} if "scope" in options else {}
            return {
                "sasl.oauthbearer.client.id": options["clientId"],
                "sasl.oauthbearer.client.secret": options["clientSecret"],
                **scope,
            }
        case "Krb5LoginModule":
            names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
            return {names[key]: value for key, value in options.items() if key in names}
    raise _refused(
        "sasl.jaas.config",
        "it is no login that is known here",
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…"; '
        "(or …scram.ScramLoginModule)",
    )


def made(make: Callable[[dict[str, Any]], Any], config: Mapping[str, Any]) -> Any:
    """A client of librdkafka. Raises DiagnosticError (OPT003) for a configuration that it refuses."""
    kafka = confluent_kafka()
    try:
        return make(dict(config))
    except kafka.KafkaException as error:
        message = str(error.args[0].str()) if error.args else str(error)
    except (TypeError, ValueError) as error:
        message = str(error)
    # It may name the value before the property, and has words of its own for one.
    named = sorted(re.findall(r'"([\w.]+)"', message), key=lambda word: word not in config)
    raise _refused(
        named[0] if named else "sasl.mechanism" if "SASL mechanism" in message else "*",
        message,
        "leave it out, or write what Kafka's Java clients or librdkafka call it",
    )


def _refused(name: str, why: str, instead: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic("OPT003", f"the property `properties.{name}` can't be used", notes=(why,), help=instead)
    )
