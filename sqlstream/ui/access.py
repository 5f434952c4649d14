"""Who may ask the dashboard, and what every answer says to the browser."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "sqlstream_ui"
#: What a page may load and do: its own files, and nothing of others.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_LOGIN = "/api/login"


@dataclass(frozen=True, slots=True)
class Access:
    """`token` must come with every request for data ("": none is needed). `hosts` are the names under which the dashboard
    may be asked for (none: any): a page of somebody else's, whose name was pointed at this machine, is not among them.
    """

    token: str = ""
    hosts: Collection[str] = ()

    def knows(self, given: str) -> bool:
        """Whether `given` is the token."""
        return hmac.compare_digest(given.encode(), self.token.encode())


class Guard:
    """An ASGI application behind an `Access`. A token is in a cookie or in `Authorization: Bearer`, never in an address."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope), scope["method"], scope["path"])

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, headers: Headers, method: str, path: str) -> ASGIApp | None:
        if self._access.hosts and _host_of(headers.get("host", "")) not in self._access.hosts:
            return JSONResponse({"error": "this host is not the dashboard's"}, 421)
        if method not in ("GET", "HEAD", "POST"):
            return JSONResponse({"error": "the dashboard is read-only"}, 405)
        if method == "POST" and headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "application/json is wanted"}, 415)
        if not self._access.token or not path.startswith("/api/") or path == _LOGIN:
            return None
        given = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if self._access.knows(given) or (kind.lower() == "bearer" and self._access.knows(bearer)):
            return None
        return JSONResponse({"error": "a token is needed"}, 401)


def _host_of(header: str) -> str:
    """The name in a Host header.

    >>> _host_of("localhost:8080"), _host_of("[::1]:80"), _host_of("a.example")
    ('localhost', '[::1]', 'a.example')
    """
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0].lower()
