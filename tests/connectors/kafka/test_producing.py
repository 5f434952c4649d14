"""A producer whose client does not answer is given up within a bound, and the next one takes its place."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream.connectors.kafka import producing
from sqlstream.connectors.kafka.client import confluent_kafka
from sqlstream.connectors.kafka.failures import Failures
from sqlstream.connectors.kafka.producing import Producing


class _Silent:
    """A client that is asked and does not come back, as librdkafka did for ten minutes after a broker was killed."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def begin_transaction(self) -> None:
        pass

    def poll(self, timeout: float) -> None:
        pass

    def send_offsets_to_transaction(self, *_: object) -> None:
        self.released.wait(20)

    commit_transaction = abort_transaction = send_offsets_to_transaction


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(producing, "PATIENCE_S", 0.05)
    monkeypatch.setattr(producing, "_BEYOND_S", 0.05)
    monkeypatch.setattr(producing, "_FIRST_S", 0.02)
    client = _Silent()
    monkeypatch.setattr(Producing, "_made", lambda *_: client)
    monkeypatch.setattr(_Silent, "init_transactions", lambda *_: None, raising=False)
    monkeypatch.setattr(_Silent, "reach", lambda *_: None, raising=False)
    yield client
    client.released.set()


def _producing() -> Producing:
    found = Producing({}, "t", Failures("t", "topic t", "transactions", "group"), transactions="transactions")
    found.open()
    return found


def test_a_client_that_does_not_answer_is_given_up(silent: Any) -> None:
    found = _producing()
    with pytest.raises(LostConnectionError, match="did not answer"):
        found.send_offsets([], "group")
    assert not found.is_open
    assert not found.in_transaction
    found.abort()
    found.open()
    assert found.is_open, "the next producer"


def test_giving_up_a_transaction_does_not_wait_for_it(silent: Any) -> None:
    found = _producing()
    found._begin()
    found.abort()
    assert not found.is_open


def test_a_client_is_given_more_time_after_each_that_was_given_up(silent: Any) -> None:
    found = _producing()
    for waited in ("0.02", "0.04", "0.05", "0.05"):
        with pytest.raises(LostConnectionError) as raised:
            found.send_offsets([], "group")
        assert str(raised.value) == f"the client did not answer in {waited} s"
        found.open()
    silent.released.set()
    found.send_offsets([], "group")
    assert found.in_transaction


def test_a_producer_that_lost_a_broker_begins_no_transaction(
    silent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_Silent] = []

    def make(*_: object) -> _Silent:
        made.append(_Silent())
        return made[-1]

    monkeypatch.setattr(Producing, "_made", make)
    found = _producing()
    found.open()
    assert len(made) == 1
    monkeypatch.setattr(made[0], "poll", lambda timeout: found._on_error(_Lost()), raising=False)
    found._begin()
    found.open()
    assert len(made) == 1, "not in a transaction"
    found._began = None
    found.open()
    assert len(made) == 2
    found.open()
    assert len(made) == 2


class _Lost:
    """What the client says of a broker that has closed the connection."""

    def name(self) -> str:
        return "_TRANSPORT"

    def str(self) -> str:
        return "Disconnected"


def test_a_new_producer_reaches_a_broker_before_its_first_transaction(
    silent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def reach(*_: object) -> None:
        calls.append("reach")
        raise confluent_kafka().KafkaException(confluent_kafka().KafkaError(-195))  # what follows says why

    monkeypatch.setattr(_Silent, "reach", reach)
    monkeypatch.setattr(_Silent, "init_transactions", lambda *_: calls.append("init"))
    assert _producing().is_open
    assert calls == ["reach", "init"]
