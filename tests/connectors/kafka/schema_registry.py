"""A schema registry for tests, in this process: the REST protocol of Confluent's, as its documentation answers.

The real one is in no registry of packages that the tests reach. It keeps subjects in memory, checks Avro schemas
BACKWARD, asks for a password or a token if it is given one, and counts what it is asked.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_PROMOTED = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


class RefusedError(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class SchemaRegistry:
    url: str = ""
    user_info: str = ""
    token: str = ""
    #: Answers that are given before any other, (status, error_code): what a registry in trouble says.
    trouble: list[tuple[int, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)  # of id n at n - 1
    subjects: dict[str, list[int]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    level: str = "BACKWARD"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        return int(self.answer("POST", f"/subjects/{subject}/versions", body)["id"])

    def answer(self, method: str, path: str, body: Any) -> Any:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        with self.lock:
            match (method, parts):
                case "GET", ["subjects"]:
                    return list(self.subjects)
                case "GET", ["schemas", "types"]:
                    return ["JSON", "PROTOBUF", "AVRO"]
                case "GET", ["schemas", "ids", number]:
                    if not number.isdigit() or not 1 <= int(number) <= len(self.schemas):
                        raise RefusedError(404, 40403, f"Schema {number} not found")
                    return self._shown(self.schemas[int(number) - 1])
                case "GET", ["subjects", subject, "versions"]:
                    return list(range(1, len(self._versions(subject)) + 1))
                case "GET", ["subjects", subject, "versions", version]:
                    return self._version(subject, version)
                case "POST", ["subjects", subject, "versions"]:
                    return {"id": self._register(subject, body)}
                case "POST", ["subjects", subject]:
                    return self._look_up(subject, body)
                case "DELETE", ["subjects", subject]:
                    versions = self._versions(subject)
                    del self.subjects[subject]
                    return list(range(1, len(versions) + 1))
                case "POST", ["compatibility", "subjects", subject, "versions", version]:
                    old = self._version(subject, version)
                    return {"is_compatible": self._compatible(subject, body, [old["id"]])}
                case "GET", ["config"]:
                    return {"compatibilityLevel": self.level}
                case "PUT", ["config"]:
                    self.level = body["compatibility"]
                    return body
                case "GET", ["config", subject]:
                    if subject not in self.levels:
                        message = f"Subject '{subject}' does not have subject-level compatibility configured"
                        raise RefusedError(404, 40408, message)
                    return {"compatibilityLevel": self.levels[subject]}
                case "PUT", ["config", subject]:
                    self.levels[subject] = body["compatibility"]
                    return body
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _versions(self, subject: str) -> list[int]:
        if subject not in self.subjects:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        versions = self._versions(subject)
        if not re.fullmatch(r"latest|-1|[1-9]\d*", version):
            raise RefusedError(422, 42202, f"The specified version '{version}' is not a valid version id.")
        number = len(versions) if version in ("latest", "-1") else int(version)
        if number > len(versions):
            raise RefusedError(404, 40402, f"Version {number} not found.")
        id_ = versions[number - 1]
        return {"subject": subject, "version": number, "id": id_} | self._shown(self.schemas[id_ - 1])

    def _shown(self, schema: dict[str, Any]) -> dict[str, Any]:
        hidden = {"schemaType"} if schema["schemaType"] == "AVRO" else set()
        hidden |= set() if schema["references"] else {"references"}
        return {name: value for name, value in schema.items() if name not in hidden}

    def _register(self, subject: str, body: Any) -> int:
        schema = self._checked(body)
        ids = self.subjects.get(subject, [])
        found = next((n for n, known in enumerate(self.schemas, 1) if known == schema), None)
        if found is not None and found in ids:
            return found
        if not self._compatible(subject, body, ids[-1:]):
            raise RefusedError(
                409,
                409,
                f"Schema being registered is incompatible with an earlier schema for subject {subject}",
            )
        if found is None:
            self.schemas.append(schema)
            found = len(self.schemas)
        self.subjects.setdefault(subject, []).append(found)
        return found

    def _look_up(self, subject: str, body: Any) -> dict[str, Any]:
        schema = self._checked(body)
        for version, id_ in enumerate(self._versions(subject), 1):
            if self.schemas[id_ - 1] == schema:
                return {"subject": subject, "version": version, "id": id_, "schema": schema["schema"]}
        raise RefusedError(404, 40403, "Schema not found")

    def _checked(self, body: Any) -> dict[str, Any]:
        kind, text = body.get("schemaType") or "AVRO", body.get("schema", "")
        if kind in ("AVRO", "JSON"):
            try:
                parsed = json.loads(text)
                if kind == "AVRO" and isinstance(parsed, dict) and "type" not in parsed:
                    raise ValueError("no type")
            except ValueError:
                raise RefusedError(422, 42201, f"Invalid schema {text!r}") from None
        return {"schema": text, "schemaType": kind, "references": body.get("references") or []}

    def _compatible(self, subject: str, body: Any, ids: list[int]) -> bool:
        level = self.levels.get(subject, self.level)
        if level == "NONE" or (body.get("schemaType") or "AVRO") != "AVRO":
            return True
        return all(
            readable(json.loads(body["schema"]), json.loads(self.schemas[i - 1]["schema"])) for i in ids
        )


def readable(reader: Any, writer: Any) -> bool:
    """Whether Avro's resolution goes from a writer's schema to a reader's (names of types are not looked at)."""
    if isinstance(writer, list):
        return all(readable(reader, branch) for branch in writer)
    if isinstance(reader, list):
        return any(readable(branch, writer) for branch in reader)
    new, old = (s["type"] if isinstance(s, dict) else s for s in (reader, writer))
    if new != old:
        return isinstance(new, str) and old in _PROMOTED.get(new, set())
    if new == "record":
        written = {f["name"]: f["type"] for f in writer["fields"]}
        for one in reader["fields"]:
            name = next((n for n in (one["name"], *one.get("aliases", ())) if n in written), None)
            if name is None and "default" not in one:
                return False
            if name is not None and not readable(one["type"], written[name]):
                return False
    if new in ("array", "map"):
        part = "items" if new == "array" else "values"
        return readable(reader[part], writer[part])
    return True


def _handler(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            path = urlsplit(self.path).path
            size = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(size)
            registry.asked.append(f"{self.command} {path}")
            try:
                self._allow()
                if registry.trouble:
                    raise RefusedError(*registry.trouble.pop(0), "Error while forwarding the request")
                status, answer = 200, registry.answer(self.command, path, json.loads(sent) if sent else None)
            except RefusedError as error:
                status, answer = error.status, {"error_code": error.code, "message": error.message}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def _allow(self) -> None:
            given = self.headers.get("Authorization", "")
            wanted = ""
            if registry.user_info:
                wanted = "Basic " + base64.b64encode(registry.user_info.encode()).decode()
            elif registry.token:
                wanted = f"Bearer {registry.token}"
            if wanted and given != wanted:
                raise RefusedError(401, 401, "Unauthorized")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def running(user_info: str = "", token: str = "") -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(user_info=user_info, token=token)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    server.daemon_threads = True
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
