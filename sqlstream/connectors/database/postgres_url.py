"""What is wrong with the address of a PostgreSQL database, as libpq would say it, without libpq and without a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from sqlstream_planner.diagnostics import did_you_mean, either
from sqlstream_planner.text.name_lists import names_in

#: What a `url` is.
ADDRESS = "postgresql://host:port/database"
_WITH_PARAMETERS = f"'{ADDRESS}?name=value', with special characters written as %40"

_SCHEME = re.compile(r"postgres(?:ql)?://")
# What libpq 16 to 18 know; an older one refuses some of them when it connects.
_PARAMETERS = names_in(
    """
    application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
    gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
    load_balance_hosts max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer
    oauth_scope options passfile password port replication require_auth requirepeer scram_client_key scram_server_key
    service servicefile ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl
    sslcrldir sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs
    tcp_user_timeout user
    """
)
_WORDS = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": (
        "any",
        "read-write",
        "read-only",
        "primary",
        "standby",
        "prefer-standby",
    ),
    "load_balance_hosts": ("disable", "random"),
    "sslcertmode": ("disable", "allow", "require"),
    "sslnegotiation": ("postgres", "direct"),
}
_NUMBERS = frozenset(
    names_in(
        "connect_timeout keepalives keepalives_count keepalives_idle keepalives_interval tcp_user_timeout"
    )
)
_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")


def wrong_url(text: str) -> str | None:
    """What to write instead of an address that PostgreSQL's client can't read, without the text itself; None: it can.

    >>> wrong_url("jdbc:postgresql://db:5432/shop?sslmode=require"), wrong_url("postgresql://db:port/shop")
    (None, "a port from 1 to 65535 after the host, as in 'postgresql://host:port/database'")
    """
    url = text.strip().removeprefix("jdbc:")
    scheme = _SCHEME.match(url)
    if scheme is None:
        return f"'{ADDRESS}' or 'jdbc:{ADDRESS}'"
    return next(_wrong(url[scheme.end() :]), None)


def _wrong(rest: str) -> Iterator[str]:
    before = re.match(r"[^/@]*@", rest)
    user = before.group() if before is not None else ""
    address, _, query = rest[len(user) :].partition("?")
    hosts, _, database = address.partition("/")
    if "@" in hosts:  # libpq would take what stands before it for the host, and show it
        yield _WITH_PARAMETERS
        return
    ports: list[str] = []
    for host in hosts.split(","):
        found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]*))(?::(.*))?", host)
        if found is None or (found[2] or "").startswith("["):
            yield "an IPv6 address in brackets, as in 'postgresql://[::1]:5432/database'"
            return
        ports.append(found[3] or "")
    values = [*user[:-1].split(":", 1), hosts, database]
    for parameter in query.removesuffix("&").split("&") if query else ():
        name, equals, value = parameter.partition("=")
        name = unquote(name)
        if not equals or "=" in value:
            yield _WITH_PARAMETERS
            return
        if (name, value) == ("ssl", "true"):
            continue
        if name not in _PARAMETERS:
            near = did_you_mean(name, _PARAMETERS)
            yield "parameters that libpq knows" + (
                f": did you mean {near}=…?" if near else f", as in '{ADDRESS}?sslmode=require'"
            )
        elif name in _WORDS and value and value not in _WORDS[name]:
            yield f"one of {either(_WORDS[name])} as {name}"
        elif name in _NUMBERS and re.fullmatch(r"\s*[+-]?\d+\s*", value) is None:
            yield f"a whole number as {name}"
        elif name == "port":
            ports.extend(value.split(","))
        values.append(value)
    if any(port and not (re.fullmatch(r"\d+", port) and 0 < int(port) <= 65535) for port in ports):
        yield f"a port from 1 to 65535 after the host, as in '{ADDRESS}'"
    if any(_ENCODED.search(value) or " " in value.strip() for value in values):
        yield _WITH_PARAMETERS
