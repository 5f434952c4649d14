"""Passwords in text that people see: in options, in URLs, in the lines of a file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

HIDDEN = "***"
#: Names of options whose value nobody may see.
SECRET_NAME = re.compile(r"password|passwd|pwd|secret|token|credential", re.IGNORECASE)

_PARAMETER = r"[?&;](?:[\w.-]*(?:password|passwd|pwd|secret)[\w.-]*|(?:access[_-]?)?token)="
#: The password of a URL: behind the user's name, or as a parameter.
SECRET_IN_URL = re.compile(
    rf"(?P<before>://[^:/?#@]*:)[^/?#]*(?=@)|(?P<name>{_PARAMETER})[^&#;]*", re.IGNORECASE
)
# The same within SQL, where a quote ends it.
_URL_IN_SOURCE = re.compile(
    rf"(?P<before>://[^:/?#@\s']*:)(?P<password>(?:''|[^/?#\s'])*)(?=@)"
    rf"|(?P<name>{_PARAMETER})(?P<value>(?:''|[^&#;\s'])*)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"'(?P<key>[^'\n]+)'\s*=\s*'(?P<value>(?:\{\{.*?\}\}|''|[^'])*)")
_EXPRESSION = re.compile(r"\{\{[^,}]*\}\}")


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with passwords replaced, also those inside URLs.

    >>> shown_options({"password": "x", "url": "jdbc:postgresql://me:p:w@db:5432/a?user=me&password=x"})
    {'password': '***', 'url': 'jdbc:postgresql://me:***@db:5432/a?user=me&password=***'}
    """
    return {
        name: HIDDEN if SECRET_NAME.search(name) else without_password(value)
        for name, value in options.items()
    }


def without_password(text: str) -> str:
    """Text with the passwords of URLs in it replaced.

    >>> without_password("s3://key:secret@bucket/a")
    's3://key:***@bucket/a'
    """
    return SECRET_IN_URL.sub(lambda found: (found["before"] or found["name"]) + HIDDEN, text)


def masked_source(text: str) -> str:
    """SQL, perhaps with Jinja in it, whose passwords are stars, so that every other character stays at its place.

    An option is taken for a password if its name looks like one, also a misspelled one. A variable is no password.

    >>> masked_source("'pasword' = 'abc', 'url' = 'p://u:abc@h'")
    "'pasword' = '***', 'url' = 'p://u:***@h'"
    >>> masked_source("'url' = 'p://u:a b@h'")
    "'url' = 'p://u:***@h'"
    >>> masked_source("'password' = '{{ env_var(\\"P\\") }}'")
    '\\'password\\' = \\'{{ env_var("P") }}\\''
    """

    def starred(found: re.Match[str]) -> str:
        part = found["password"] if found["before"] else found["value"]
        return (found["before"] or found["name"]) + "*" * len(part)

    def hidden(found: re.Match[str]) -> str:
        shown = found["before"] or found["name"]
        return shown + re.sub(r"[^\n]", "*", found.group()[len(shown) :])

    def option(found: re.Match[str]) -> str:
        value = found["value"]
        if not _is_secret(found["key"]) and "{{" not in value:
            return found.group()[: len(found.group()) - len(value)] + SECRET_IN_URL.sub(hidden, value)
        if not _is_secret(found["key"]) or _EXPRESSION.fullmatch(value):
            return found.group()
        return found.group()[: len(found.group()) - len(value)] + re.sub(r"[^\n]", "*", value)

    return _URL_IN_SOURCE.sub(starred, _OPTION.sub(option, text))


def _is_secret(key: str) -> bool:
    last = re.split(r"[.\-_]", key.lower())[-1]
    return bool(
        SECRET_NAME.search(key) or difflib.get_close_matches(last, ("password", "secret"), n=1, cutoff=0.75)
    )
