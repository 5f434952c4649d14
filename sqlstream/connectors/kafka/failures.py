"""What Kafka says when it refuses, as errors of ours: which can be tried again, which the user must mend, and how."""

from __future__ import annotations

from typing import Any

from sqlstream.connectors.exactly_once.target import LostConnectionError, unusable
from sqlstream.connectors.kafka.client import confluent_kafka
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.text.name_lists import names_in

#: What a user may not do, and what Kafka calls the right to it.
_RIGHTS = {
    "TOPIC_AUTHORIZATION_FAILED": "WRITE and DESCRIBE on the topic",
    "GROUP_AUTHORIZATION_FAILED": "READ on the group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE and DESCRIBE on the transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "IDEMPOTENT_WRITE on the cluster",
}
_FENCED = frozenset(
    names_in("_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH FENCED_INSTANCE_ID INVALID_PRODUCER_ID_MAPPING")
)
_GONE = frozenset(names_in("UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION"))
_TOO_LARGE = frozenset(names_in("MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE"))
LOGIN = frozenset(names_in("_AUTHENTICATION SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM _SSL"))


class Failures:
    """Makes errors of what the client says about one sink.

    `location` and `name` are the sink's for messages, `transactions` and `group` what Kafka knows it by.
    """

    def __init__(self, name: str, location: str, transactions: str, group: str) -> None:
        self._name, self._location = name, location
        self._transactions, self._group = transactions, group

    def of(self, error: Any, *, client_error: str | None = None) -> Exception:
        """The error for a KafkaException or a KafkaError; `client_error` is what the client's error callback got.

        LostConnectionError is for what may be better the next time.
        """
        found = error.args[0] if isinstance(error, confluent_kafka().KafkaException) else error
        code, text = found.name(), found.str()
        if client_error is not None and client_error not in text:
            text = f"{text} ({client_error})"
        if code in _RIGHTS:
            return unusable(
                self._location,
                text,
                f"allow it: this sink needs {', '.join(_RIGHTS.values())} (topic, group '{self._group}', transactional id "
                f"'{self._transactions}'); then run again: nothing is lost",
            )
        if code in LOGIN or (client_error is not None and "authentication" in client_error.lower()):
            return unusable(
                self._location,
                text,
                "mend 'properties.security.protocol', 'properties.sasl.…' or 'properties.ssl.…' and run again: "
                "nothing is lost",
            )
        if code in _FENCED:
            return self.fenced()
        if code in _GONE:
            return self.gone(text)
        if code in _TOO_LARGE:
            return self.too_large(text)
        return LostConnectionError(text)

    def fenced(self) -> DiagnosticError:
        """Another producer has begun to write with the same transactional id.

        That is another run, or one of this run's own that was given up while no broker answered, and whose request got
        through later: whoever runs knows by the lease, and may begin again, as the record in Kafka says what is committed.
        """
        return DiagnosticError(
            Diagnostic(
                "ENV012",
                f"another producer has taken over the transactions of {self._location}",
                notes=(
                    f"their id is '{self._transactions}'; what this run had not committed was aborted",
                    "that is another run, or a request of this one that a broker got late",
                ),
                help="stop whatever else writes with this id, and run again: nothing is lost",
            )
        )

    def took_too_long(self, seconds: float, limit: float) -> DiagnosticError:
        """The broker has aborted a transaction that was open for longer than it may be."""
        return unusable(
            self._location,
            f"the epoch's transaction was open for {seconds:.0f} s, and the broker aborts one after {limit:.0f} s",
            "raise 'properties.transaction.timeout.ms' (at most the broker's transaction.max.timeout.ms), or make epochs "
            "smaller, and run again: nothing is lost",
        )

    def gone(self, text: str) -> TargetError:
        """The topic was deleted while it was written to."""
        return TargetError(
            f"the topic of `{self._name}` is gone",
            (f"{self._location}: {text}",),
            f"restore it; or recreate it and run with --rewrite {self._name}: it gets its full result",
        )

    def too_large(self, text: str) -> DataError:
        """A message that the client or the broker does not take."""
        return DataError(
            f"table {self._name}: a row makes a message that is too large for {self._location}: {text}. Raise "
            "'properties.max.request.size' here, and max.message.bytes of the topic, or leave such rows out"
        )

    def missing(self) -> DiagnosticError:
        """A topic that the broker does not create by itself."""
        return unusable(
            self._location,
            "there is no such topic, and the broker creates none by itself",
            "create it (kafka-topics.sh --create --topic … --partitions …) and run again",
        )
