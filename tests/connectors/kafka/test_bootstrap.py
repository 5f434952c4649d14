"""Brokers that nobody listens at are named at once, each with its reason."""

from __future__ import annotations

import socket

import pytest

from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream.connectors.kafka.bootstrap import _host_and_port, check_reachable


def test_one_address_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable(f"127.0.0.1:1, 127.0.0.1:{port}")
        check_reachable(f"PLAINTEXT://127.0.0.1:{port}")


def test_each_address_that_does_not_is_named_with_its_reason() -> None:
    with pytest.raises(LostConnectionError) as error:
        check_reachable("127.0.0.1:1,nowhere.invalid:9092")
    refused, unknown = str(error.value).split("; ")
    assert refused == "127.0.0.1:1: Connection refused"
    assert unknown.startswith("nowhere.invalid:9092: ")


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("h:1", ("h", 1)),
        ("h", ("h", 9092)),
        ("SASL_SSL://h:9093", ("h", 9093)),
        ("[::1]:7", ("::1", 7)),
        ("[::1]", ("::1", 9092)),
        ("h:x", ("h", 9092)),
    ],
)
def test_what_an_address_means(address: str, meant: tuple[str, int]) -> None:
    assert _host_and_port(address) == meant
