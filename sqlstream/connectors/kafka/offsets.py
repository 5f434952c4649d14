"""Offsets by partition as Flink writes them in options."""

from __future__ import annotations

import re

_ONE = re.compile(r"\s*partition\s*:\s*(\d+)\s*,\s*offset\s*:\s*(\d+)\s*")

#: What is accepted, for messages.
FORM = "offsets such as 'partition:0,offset:42;partition:1,offset:300'"


def read_offsets(text: str) -> dict[int, int]:
    """Offsets by partition. Raises ValueError if the text says something else, or of a partition twice.

    >>> read_offsets("partition:0,offset:42;partition:1,offset:300")
    {0: 42, 1: 300}
    """
    found: dict[int, int] = {}
    for part in text.strip().rstrip(";").split(";"):
        one = _ONE.fullmatch(part)
        if one is None or int(one[1]) in found:
            raise ValueError(FORM)
        found[int(one[1])] = int(one[2])
    return found
