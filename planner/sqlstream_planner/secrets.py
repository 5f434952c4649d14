"""Passwords in options, which nothing that is shown may have in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sqlstream_operators.plan.spec import PhysicalPlan

HIDDEN = "***"
_NAME = re.compile(r"password|secret|token", re.IGNORECASE)
_IN_URL = re.compile(
    r"(?P<before>://[^:/?#@]*:)[^/?#]*(?=@)|(?P<name>[?&](?:ssl)?password=)[^&#]*", re.IGNORECASE
)


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with passwords replaced, also those inside URLs.

    >>> shown_options({"password": "x", "url": "jdbc:postgresql://me:p:w@db:5432/a?user=me&password=x"})
    {'password': '***', 'url': 'jdbc:postgresql://me:***@db:5432/a?user=me&password=***'}
    """
    return {
        name: HIDDEN if _NAME.search(name) else without_password(value) for name, value in options.items()
    }


def without_password(text: str) -> str:
    """Text with the passwords of URLs in it replaced.

    >>> without_password("s3://key:secret@bucket/a")
    's3://key:***@bucket/a'
    """
    return _IN_URL.sub(lambda found: (found["before"] or found["name"]) + HIDDEN, text)


def without_secrets(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan as it may be shown; it can't be run."""
    return replace(
        plan,
        sources=tuple(replace(s, options=shown_options(s.options)) for s in plan.sources),
        sinks=tuple(replace(s, options=shown_options(s.options)) for s in plan.sinks),
    )
