"""What the folders are called in which a worker has the caches of state, one for each state and shard."""

from __future__ import annotations

import re

from .version import digest_of

_PLAIN = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,99}")
_SLOT = re.compile(r"(?P<state>.+)-\d{5}-of-(?P<shards>\d{5})(?P<scratch>\.scratch-[0-9a-f]+)?")


def file_name(state_id: str) -> str:
    """The id as a part of a file's name: a digest of it, if it is no name by itself."""
    return state_id if _PLAIN.fullmatch(state_id) else digest_of(state_id.encode())


def slot_name(state_id: str, shard: int, shards: int) -> str:
    """The name of a slot.

    >>> slot_name("6b7c", 1, 4)
    '6b7c-00001-of-00004'
    """
    return f"{file_name(state_id)}-{shard:05d}-of-{shards:05d}"


def parts_of(slot: str) -> tuple[str, int, bool] | None:
    """Of a slot's name the `file_name` of its state, the shards, and whether it is scratch; None if it is no slot.

    >>> parts_of("6b7c-00001-of-00004"), parts_of("spill")
    (('6b7c', 4, False), None)
    """
    found = _SLOT.fullmatch(slot)
    return None if found is None else (found["state"], int(found["shards"]), found["scratch"] is not None)
