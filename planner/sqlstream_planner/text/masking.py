"""Passwords in text that people see: in options, in URLs, in messages, in the lines of a file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

HIDDEN = "***"
#: Names of options whose value nobody may see.
SECRET_NAME = re.compile(
    r"password|passwd|pwd|passphrase|secret|token|credential|(?<![a-z])(?:pass|pw)(?![a-z])"
    r"|(?:api|account|private|access)[_.-]?key|jaas|keystore[_.-]?key|ssl[_.-]key[_.-]pem|user-info",
    re.IGNORECASE,
)

_PARAMETER = re.compile(
    r"[?&;](?:[\w.-]*(?:password|passwd|pwd|secret|token|credential|signature|(?:api|account|private)[_-]?key"
    r"|connection_string)[\w.-]*|(?:\w+_)?(?:access|master|sas)_key|pass|pw|sig)=",
    re.IGNORECASE,
)
_NEXT_PARAMETER = re.compile(r"[&;](?=[\w.-]+=)")
#: Where the password of a URL begins, behind the user's name; behind a host it is a port.
_USER = re.compile(r"://[^:/?#@\s'\"]*:")
_PORTS = re.compile(r"\d*(?:,[^,:/@]*(?::\d*)?)*(?:[?#].*)?", re.DOTALL)
#: `name=value` of an address as libpq's other form has it: `host=db password=x`.
_KEYWORD = re.compile(
    r"(?<![\w.-])\w*(?:password|passwd|pwd|passphrase|secret|token)\s*=\s*(?P<secret>(?:(?!\s+\w+\s*=).)+)",
    re.IGNORECASE | re.DOTALL,
)
#: What ends a URL in a message.
_AFTER_URL = re.compile(r"[\s'\"`<>]")
_OPTION = re.compile(r"'(?P<key>[^'\n]+)'\s*=\s*'(?P<value>(?:\{\{.*?\}\}|''|[^'])*)")
_EXPRESSION = re.compile(r"\{\{[^,}]*\}\}")
_VARIABLE = re.compile(r"\{\{[^}]*?\b(?P<name>[A-Za-z_]\w*)\s*(?:\||\}\})")
_TEMPLATE_REFERENCE = re.compile(
    r"\{\{-?\s*(?:(?:env_var|var)\(\s*(['\"])[^'\"]*\1\s*\)|[A-Za-z_]\w*)\s*-?\}\}"
)
_SET = re.compile(
    r"\{%-?\s*set\s+(?P<name>\w+)\s*=(?P<value>.*?)-?%\}"
    r"|\{%-?\s*set\s+(?P<block>\w+)\s*-?%\}(?P<inside>.*?)\{%-?\s*endset\s*-?%\}",
    re.DOTALL,
)
_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
#: A password that is shorter may stand anywhere, as a part of other words.
_TELLING = 4


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with passwords replaced, also those inside URLs.

    >>> shown_options({"password": "x", "url": "jdbc:postgresql://me:p:w@db:5432/a?user=me&password=x"})
    {'password': '***', 'url': 'jdbc:postgresql://me:***@db:5432/a?user=me&password=***'}
    """
    return {
        name: HIDDEN if SECRET_NAME.search(name) else without_password(value)
        for name, value in options.items()
    }


def secrets_in_url(text: str) -> list[tuple[int, int]]:
    """Where the passwords of a URL are: behind the user's name, and in parameters; [] if it has none.

    As libpq reads it, the name and the password end with the first part of an address, at the last @ before a /; a # or a ?
    there is one of the password. A / is, too, where what stands before it is no port.

    >>> [text[a:b] for text in ["p://u:a?b#c@h/d?password=x&y=e", "s3://k:a/b@c/d", "p://h:5432/d@e"]
    ...  for a, b in secrets_in_url(text)]
    ['a?b#c', 'x', 'a/b']
    >>> text = "az://c/x?access_key=k&sas_key=s&access_key_id=i&connection_string=AccountName=a;AccountKey=b"
    >>> [text[a:b] for a, b in secrets_in_url(text)]
    ['k', 's', 'AccountName=a', 'b']
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        user = _USER.search(text, at)
        parameter = _PARAMETER.search(text, at)
        if user is not None and (parameter is None or user.start() < parameter.start()):
            end = _end_of_password(text, user.end())
            if end > user.end():
                found.append((user.end(), end))
            at = max(end, user.end())
        elif parameter is not None:
            stop = _NEXT_PARAMETER.search(text, parameter.end())
            at = len(text) if stop is None else stop.start()
            if at > parameter.end():
                found.append((parameter.end(), at))
        else:
            break
    return found


def _end_of_password(text: str, begin: int) -> int:
    """The place of the @ behind a password that would begin at `begin`; -1: it is none."""
    parameter = _PARAMETER.search(text, begin)
    limit = len(text) if parameter is None else parameter.start()
    again = text.find("://", begin, limit)
    limit = limit if again < 0 else again
    slash = text.find("/", begin, limit)
    end = limit if slash < 0 else slash
    at = text.rfind("@", begin, end)
    if at >= 0 or _PORTS.fullmatch(text, begin, end):
        return at
    first = text.find("@", end, limit)
    if first < 0:
        return -1
    slash = text.find("/", first, limit)
    return text.rfind("@", first, limit if slash < 0 else slash)


def without_password(text: str) -> str:
    """A value with the passwords of the URL that it is replaced.

    >>> without_password("s3://key:secret@bucket/a")
    's3://key:***@bucket/a'
    """
    for begin, end in reversed(secrets_in_url(text)):
        text = text[:begin] + HIDDEN + text[end:]
    return text


def masked_message(text: str) -> str:
    """A message with the passwords of all URLs in it replaced.

    >>> masked_message("file 's3://key:secret@bucket/a' is gone (see s3://key:secret@bucket)")
    "file 's3://key:***@bucket/a' is gone (see s3://key:***@bucket)"
    """
    if "://" not in text:
        return text
    parts, done = [], 0
    for stop in [*_AFTER_URL.finditer(text), None]:
        end = len(text) if stop is None else stop.end()
        parts.append(without_password(text[done:end]))
        done = end
    return "".join(parts)


def masked_source(text: str) -> str:
    """SQL, perhaps with Jinja in it, whose passwords are stars, so that every other character stays at its place.

    An option is taken for a password if its name looks like one, also a misspelled one. A variable is no password, but what
    the file sets it to is. What was found to be a password is hidden wherever else it stands.

    >>> masked_source("'pasword' = 'abc', 'url' = 'p://u:abc@h'")
    "'pasword' = '***', 'url' = 'p://u:***@h'"
    >>> masked_source("'url' = 'p://u:a b@h'")
    "'url' = 'p://u:***@h'"
    >>> masked_source("'password' = '{{ env_var(\\"P\\") }}'")
    '\\'password\\' = \\'{{ env_var("P") }}\\''
    """
    cuts = sorted({*_in_options(text), *_in_sets(text), *_in_other_urls(text)})
    known = {text[begin:end].strip("'\"") for begin, end in cuts if "{{" not in text[begin:end]}
    for secret in known:
        if len(secret) >= _TELLING:
            cuts += [(f.start(), f.end()) for f in re.finditer(rf"(?<!\w){re.escape(secret)}(?!\w)", text)]
    for begin, end in cuts:
        text = text[:begin] + re.sub(r"[^\n]", "*", text[begin:end]) + text[end:]
    return text


def _in_options(text: str) -> Iterator[tuple[int, int]]:
    for found in _OPTION.finditer(text):
        value, start = found["value"], found.start("value")
        if _is_secret(found["key"]):
            if not _EXPRESSION.fullmatch(value):
                yield start, found.end("value")
            continue
        for begin, end in _in_value(value):
            # What asks for a password from outside is none.
            if not _TEMPLATE_REFERENCE.fullmatch(value[begin:end]):
                yield start + begin, start + end


def _in_value(value: str) -> Iterator[tuple[int, int]]:
    if "://" in value:
        yield from secrets_in_url(value)
        return
    for found in _KEYWORD.finditer(value):
        yield found.span("secret")


def _in_sets(text: str) -> Iterator[tuple[int, int]]:
    """The literals that Jinja variables are set to, if these are called like passwords or stand for some."""
    names = {
        used["name"]
        for option in _OPTION.finditer(text)
        if _is_secret(option["key"]) or "://" in option["value"]
        for used in _VARIABLE.finditer(option["value"])
    }
    for found in _SET.finditer(text):
        name = found["name"] or found["block"]
        if name not in names and not _is_secret(name):
            continue
        if found["block"]:
            yield found.span("inside")
            continue
        start = found.start("value")
        for literal in _LITERAL.finditer(found["value"]):
            yield start + literal.start() + 1, start + literal.end() - 1


def _in_other_urls(text: str) -> Iterator[tuple[int, int]]:
    """Passwords of URLs outside of options: in comments, in Jinja, in a text that is not closed."""
    spans = [found.span("value") for found in _OPTION.finditer(text)]
    done = 0
    for stop in [*_AFTER_URL.finditer(text), None]:
        end = len(text) if stop is None else stop.start()
        if "://" in text[done:end] and not any(a <= done < b for a, b in spans):
            for begin, behind in secrets_in_url(text[done:end]):
                if not _TEMPLATE_REFERENCE.fullmatch(text[done + begin : done + behind]):
                    yield done + begin, done + behind
        done = end


def _is_secret(key: str) -> bool:
    last = re.split(r"[.\-_]", key.lower())[-1]
    return bool(
        SECRET_NAME.search(key) or difflib.get_close_matches(last, ("password", "secret"), n=1, cutoff=0.75)
    )
