"""A client of Confluent's schema registry over the standard library.

Confluent's own (`confluent-kafka[schemaregistry]`) brings eleven packages and needs half a second to import; four
requests are sent here. Schemas of an id never change, so that a process keeps what it has seen.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlstream.formats.schema_registry.settings import RegistrySettings
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: Seconds that one request may take, and the waits before it is tried again.
_TIMEOUT = 10.0
_WAITS = (0.2, 1.0)
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
#: Error codes of the registry: there is no such subject, version, schema.
NOT_FOUND = (40401, 40402, 40403)
_CODE = "ENV020"
#: Of what may be over in a while: a run that was up is begun again.
_AWAY = "ENV025"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry: its text, `AVRO`, `JSON` or `PROTOBUF`, and the texts that it refers to, by name."""

    text: str
    kind: str = "AVRO"
    references: Mapping[str, str] = field(default_factory=dict, compare=False)


class UnknownSchemaError(Exception):
    """The registry has no schema of an id."""


class _RefusedError(Exception):
    """The registry's answer that is an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class RegistryClient:
    """Asks one registry; may be used by several threads.

    Methods raise DiagnosticError: ENV025 if it can't be reached, ENV020 if it refuses; no message has a password in it.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._schemas: dict[tuple[int, str], RegisteredSchema] = {}
        self._ids: dict[tuple[str, RegisteredSchema], int] = {}
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}) if self._local else urllib.request.ProxyHandler(),
            urllib.request.HTTPSHandler(context=_tls(settings)),
        )

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return ", ".join(_without_user(url) for url in self._settings.urls)

    @property
    def _local(self) -> bool:
        hosts = {urllib.parse.urlsplit(url).hostname for url in self._settings.urls}
        return hosts <= {"localhost", "127.0.0.1", "::1"}

    def schema(self, id_: int, *, serialized: bool = False) -> RegisteredSchema:
        """The schema of an id; `serialized`: a .proto file as its descriptor, in base64.

        Raises UnknownSchemaError if there is none.
        """
        query = "?format=serialized" if serialized else ""
        with self._lock:
            known = self._schemas.get((id_, query))
            if known is None:
                try:
                    known = self._with_references(self._ask("GET", f"/schemas/ids/{id_}{query}"), query)
                except _RefusedError as error:
                    if error.status == 404 and error.code in NOT_FOUND:
                        raise UnknownSchemaError(
                            f"the registry {self.location} has no schema of id {id_}"
                        ) from None
                    raise self._refused(error, f"schema {id_}") from None
                self._schemas[id_, query] = known
            return known

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema under a subject, which is there from now on; the same schema has one id."""
        with self._lock:
            known = self._ids.get((subject, schema))
            if known is None:
                body: dict[str, Any] = {"schema": schema.text}
                if schema.kind != "AVRO":  # old registries know no other kind, and no such field
                    body["schemaType"] = schema.kind
                quoted = urllib.parse.quote(subject, safe="")
                try:
                    known = int(self._ask("POST", f"/subjects/{quoted}/versions", body)["id"])
                except _RefusedError as error:
                    raise self._refused(error, f"subject {subject}") from None
                self._ids[(subject, schema)] = known
            return known

    def _with_references(self, answer: Mapping[str, Any], query: str) -> RegisteredSchema:
        found: dict[str, str] = {}
        self._refer(answer, found, query)
        return RegisteredSchema(str(answer["schema"]), str(answer.get("schemaType") or "AVRO"), found)

    def _refer(self, answer: Mapping[str, Any], found: dict[str, str], query: str) -> None:
        """Put what a schema refers to into `found`, what that refers to before it."""
        for reference in answer.get("references") or ():
            if reference["name"] not in found:
                subject = urllib.parse.quote(reference["subject"], safe="")
                inner = self._ask("GET", f"/subjects/{subject}/versions/{int(reference['version'])}{query}")
                self._refer(inner, found, query)
                found[reference["name"]] = str(inner["schema"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as JSON: of the first address that gives one, tried again with bounds."""
        trouble = ""
        for wait in (*_WAITS, None):
            for url in self._settings.urls:
                try:
                    return self._once(method, url, path, body)
                except _RefusedError as error:
                    if error.status != 429 and error.status < 500:
                        raise
                    trouble = f"it answers {error.status}: {error.message}"
                except (OSError, http.client.HTTPException, ValueError) as error:
                    trouble = _what(error)
            if wait is not None:
                time.sleep(wait)
        raise DiagnosticError(
            Diagnostic(
                _AWAY,
                f"the schema registry {self.location} can't be reached",
                notes=(self._safe(trouble),),
                help="start it, or correct the format's option url; the run goes on where it stopped",
            )
        )

    def _once(self, method: str, url: str, path: str, body: Any) -> Any:
        split = urllib.parse.urlsplit(url)
        request = urllib.request.Request(
            _without_user(url) + path,
            None if body is None else json.dumps(body).encode(),
            {"Accept": f"{_MEDIA_TYPE}, application/json", "Content-Type": _MEDIA_TYPE},
            method=method,
        )
        user = self._settings.user_info or (
            f"{urllib.parse.unquote(split.username)}:{urllib.parse.unquote(split.password or '')}"
            if split.username
            else ""
        )
        if self._settings.token:
            request.add_unredirected_header("Authorization", f"Bearer {self._settings.token}")
        elif user:
            encoded = base64.b64encode(user.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {encoded}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None

    def _refused(self, error: _RefusedError, what: str) -> DiagnosticError:
        helps = {
            401: "set the format's option basic-auth.user-info or bearer-auth.token",
            403: "give this user the right, or use another in the format's option basic-auth.user-info",
            404: "correct the format's option url: the answer is not a schema registry's",
            409: "make the table's columns compatible with the subject's schemas (a new column must be nullable), "
            "or set the format's option subject to another",
            422: "correct the table's columns or the format's option schema",
        }
        answers = {
            401: "wants another name, password or token",
            403: "does not allow it",
            409: "has a schema that this one is not compatible with",
        }
        return DiagnosticError(
            Diagnostic(
                _CODE,
                f"the schema registry {self.location} {answers.get(error.status, 'refuses')}: {what}",
                notes=(self._safe(f"{error.status} {error.code or ''} {error.message}"),),
                help=helps.get(error.status),
            )
        )

    def _safe(self, text: str) -> str:
        user = self._settings.user_info
        secrets = (user, user.partition(":")[2], self._settings.token, self._settings.keystore_password)
        for secret in secrets:
            if secret:
                text = text.replace(secret, "***")
        return " ".join(text.split())[:500]


@lru_cache(64)
def client_of(settings: RegistrySettings) -> RegistryClient:
    """The process's client of a registry: schemas that one table has seen are known to all."""
    return RegistryClient(settings)


def _refusal(error: urllib.error.HTTPError) -> _RefusedError:
    code, message = 0, str(error.reason)
    try:
        answer = json.loads(error.read())
        code, message = int(answer.get("error_code", 0)), str(answer.get("message", message))
    except (ValueError, AttributeError, TypeError, OSError, http.client.HTTPException):
        pass
    return _RefusedError(error.code, code, message)


def _what(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error or type(error).__name__)


def _without_user(url: str) -> str:
    split = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(split._replace(netloc=split.netloc.rpartition("@")[2]))


def _tls(settings: RegistrySettings) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if settings.truststore:
            context.load_verify_locations(settings.truststore)
        if settings.keystore:
            context.load_cert_chain(settings.keystore, password=settings.keystore_password or "")
    except (OSError, ssl.SSLError) as error:
        file = settings.keystore or settings.truststore
        raise DiagnosticError(
            Diagnostic(_CODE, f"the certificates in {file} can't be read", notes=(_what(error),))
        ) from None
    return context
