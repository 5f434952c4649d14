"""The functions of librdkafka that are called here, in the library that the package `confluent_kafka` brings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from sqlstream.connectors.kafka.client import confluent_kafka
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: Codes of `rd_kafka_resp_err_t`.
OK, PARTITION_EOF, AUTO_OFFSET_RESET = 0, -191, -140
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_AUTHORIZED = 1, 3, 29
FATAL = -150
#: Kinds of clients.
PRODUCER, CONSUMER = 0, 1

#: The public part of `rd_kafka_message_t`.
MESSAGE = np.dtype(
    {
        "names": ["error", "partition", "payload", "length", "key", "key_length", "offset"],
        "formats": ["i4", "i4", "u8", "u8", "u8", "u8", "i8"],
        "offsets": [0, 16, 24, 32, 40, 48, 56],
        "itemsize": 72,
    }
)
_P = ctypes.c_void_p
ERROR_CALLBACK = ctypes.CFUNCTYPE(None, _P, ctypes.c_int, ctypes.c_char_p, _P)
DELIVERY_CALLBACK = ctypes.CFUNCTYPE(None, _P, _P, _P)


@cache
def library() -> SimpleNamespace:
    """The functions by their names without `rd_kafka_`; those that only look or free keep Python's lock: it is cheaper."""
    # What it is linked with is found through it, whatever that is called.
    path = confluent_kafka().cimpl.__file__
    slow, quick = ctypes.CDLL(path), ctypes.PyDLL(path)
    found = SimpleNamespace()
    for where, signatures in ((slow, _SLOW), (quick, _QUICK)):
        for name, result, arguments in signatures:
            function = getattr(where, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(found, name, function)
    return found


_i32, _i64, _int, _text, _size = (
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_size_t,
)
_Signatures = Sequence[tuple[str, Any, tuple[Any, ...]]]
_SLOW: _Signatures = (
    ("conf_new", _P, ()),
    ("conf_destroy", None, (_P,)),
    ("conf_set", _int, (_P, _text, _text, _text, _size)),
    ("conf_set_error_cb", None, (_P, ERROR_CALLBACK)),
    ("conf_set_log_cb", None, (_P, _P)),
    ("conf_set_dr_msg_cb", None, (_P, DELIVERY_CALLBACK)),
    ("new", _P, (_int, _P, _text, _size)),
    ("destroy_flags", None, (_P, _int)),
    ("poll", _int, (_P, _int)),
    ("topic_new", _P, (_P, _text, _P)),
    ("topic_destroy", None, (_P,)),
    ("queue_new", _P, (_P,)),
    ("queue_destroy", None, (_P,)),
    ("consume_start_queue", _int, (_P, _i32, _i64, _P)),
    ("consume_stop", _int, (_P, _i32)),
    ("consume_batch_queue", ctypes.c_ssize_t, (_P, _int, _P, _size)),
    ("produce_batch", _int, (_P, _i32, _int, _P, _int)),
    ("produceva", _P, (_P, _P, _size)),
    ("flush", _int, (_P, _int)),
    ("metadata", _int, (_P, _int, _P, _P, _int)),
    ("init_transactions", _P, (_P, _int)),
    ("begin_transaction", _P, (_P,)),
    ("send_offsets_to_transaction", _P, (_P, _P, _P, _int)),
    ("commit_transaction", _P, (_P, _int)),
    ("abort_transaction", _P, (_P, _int)),
)
_QUICK: _Signatures = (
    ("last_error", _int, ()),
    ("err2str", _text, (_int,)),
    ("fatal_error", _int, (_P, _text, _size)),
    ("message_destroy", None, (_P,)),
    ("message_timestamp", _i64, (_P, _P)),
    ("message_headers", _int, (_P, _P)),
    ("message_leader_epoch", _i32, (_P,)),
    ("header_get_all", _int, (_P, _size, _P, _P, _P)),
    ("outq_len", _int, (_P,)),
    ("metadata_destroy", None, (_P,)),
    ("consumer_group_metadata_new", _P, (_text,)),
    ("consumer_group_metadata_destroy", None, (_P,)),
    ("topic_partition_list_new", _P, (_int,)),
    ("topic_partition_list_add", _P, (_P, _text, _i32)),
    ("topic_partition_list_destroy", None, (_P,)),
    ("mem_malloc", _P, (_P, _size)),
    ("error_code", _int, (_P,)),
    ("error_string", _text, (_P,)),
    ("error_is_fatal", _int, (_P,)),
    ("error_is_retriable", _int, (_P,)),
    ("error_txn_requires_abort", _int, (_P,)),
    ("error_destroy", None, (_P,)),
)


def new_client(
    kind: int, config: Mapping[str, str], prepare: Callable[[SimpleNamespace, int], None]
) -> tuple[SimpleNamespace, Any]:
    """The library and a client of it; `prepare` gives its configuration callbacks, which must live as long as it does.

    Raises DiagnosticError (OPT003) for a configuration that librdkafka refuses.
    """
    lib = library()
    message = ctypes.create_string_buffer(512)
    conf = lib.conf_new()
    for name, value in config.items():
        if lib.conf_set(conf, name.encode(), value.encode(), message, len(message)):
            lib.conf_destroy(conf)
            raise _refused(name, message.value.decode(errors="replace"))
    lib.conf_set_log_cb(conf, None)  # what matters is raised
    prepare(lib, conf)
    handle = lib.new(kind, conf, message, len(message))
    if not handle:
        lib.conf_destroy(conf)
        raise _refused("*", message.value.decode(errors="replace"))
    return lib, handle


def error_text(code: int) -> str:
    """A code in words."""
    text: bytes = library().err2str(code)
    return text.decode(errors="replace")


def _refused(name: str, message: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "OPT003",
            f"the property `properties.{name}` can't be used",
            notes=(message,),
            help="leave it out, or write what Kafka's Java clients or librdkafka call it",
        )
    )
