"""The tests' schema registry against Confluent's documentation, and the client against it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from sqlstream.formats.schema_registry.client import RegisteredSchema, RegistryClient, UnknownSchemaError
from sqlstream.formats.schema_registry.settings import RegistrySettings
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.schema_registry import SchemaRegistry, running

A = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
B = {"type": "record", "name": "r", "fields": [*A["fields"], {"name": "b", "type": "int"}]}


def ask(registry: SchemaRegistry, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(registry.url + path, data, method=method)
        ) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def client(registry: SchemaRegistry, **options: str) -> RegistryClient:
    settings = {"f.url": registry.url, **{f"f.{name.replace('__', '.')}": v for name, v in options.items()}}
    return RegistryClient(RegistrySettings.of("f", settings))


def error_of(call: Any, code: str = "ENV020") -> str:
    with pytest.raises(DiagnosticError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert caught.value.exit_code == 5
    return "\n".join([found.message, *found.notes, found.help or ""])


def test_documented_answers(schema_registry: SchemaRegistry) -> None:
    posted = {"schema": json.dumps(A)}
    assert ask(schema_registry, "POST", "/subjects/t-value/versions", posted) == (200, {"id": 1})
    assert ask(schema_registry, "POST", "/subjects/t-value/versions", posted) == (200, {"id": 1})
    assert ask(schema_registry, "POST", "/subjects/u-value/versions", posted) == (200, {"id": 1})
    assert ask(schema_registry, "GET", "/subjects") == (200, ["t-value", "u-value"])
    assert ask(schema_registry, "GET", "/subjects/t-value/versions") == (200, [1])
    assert ask(schema_registry, "GET", "/schemas/ids/1") == (200, {"schema": json.dumps(A)})
    found = {"subject": "t-value", "version": 1, "id": 1, "schema": json.dumps(A)}
    assert ask(schema_registry, "GET", "/subjects/t-value/versions/latest") == (200, found)
    assert ask(schema_registry, "POST", "/subjects/t-value", posted) == (200, found)
    assert ask(schema_registry, "GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(schema_registry, "DELETE", "/subjects/u-value") == (200, [1])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/subjects/no/versions", None, 404, 40401),
        ("GET", "/subjects/t-value/versions/9", None, 404, 40402),
        ("GET", "/subjects/t-value/versions/0", None, 422, 42202),
        ("GET", "/schemas/ids/9", None, 404, 40403),
        ("POST", "/subjects/t-value", {"schema": json.dumps(B)}, 404, 40403),
        ("POST", "/subjects/t-value/versions", {"schema": "{"}, 422, 42201),
        ("POST", "/subjects/t-value/versions", {"schema": json.dumps(B)}, 409, 409),
        ("GET", "/config/t-value", None, 404, 40408),
    ],
)
def test_documented_errors(
    schema_registry: SchemaRegistry, method: str, path: str, body: Any, status: int, code: int
) -> None:
    schema_registry.register("t-value", A)
    found, answer = ask(schema_registry, method, path, body)
    assert (found, answer["error_code"]) == (status, code)


def test_compatibility(schema_registry: SchemaRegistry) -> None:
    schema_registry.register("t-value", A)
    path = "/compatibility/subjects/t-value/versions/latest"
    assert ask(schema_registry, "POST", path, {"schema": json.dumps(B)}) == (200, {"is_compatible": False})
    schema_registry.levels["t-value"] = "NONE"
    assert schema_registry.register("t-value", B) == 2


def test_schemas_are_asked_for_once(schema_registry: SchemaRegistry) -> None:
    id_ = schema_registry.register("t-value", A)
    asking = client(schema_registry)
    for _ in range(3):
        assert json.loads(asking.schema(id_).text) == A
        assert asking.register("t-value", RegisteredSchema(json.dumps(A))) == id_
    assert schema_registry.asked == ["GET /schemas/ids/1", "POST /subjects/t-value/versions"]


def test_references_are_read(schema_registry: SchemaRegistry) -> None:
    schema_registry.register("money", {"type": "fixed", "name": "money", "size": 4})
    reference = {"name": "money", "subject": "money", "version": 1}
    outer = {"type": "record", "name": "r", "fields": [{"name": "m", "type": "money"}]}
    id_ = schema_registry.register("t-value", outer, references=[reference])
    assert list(client(schema_registry).schema(id_).references) == ["money"]


def test_unknown_ids(schema_registry: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="no schema of id 7"):
        client(schema_registry).schema(7)


def test_trouble_is_tried_again(schema_registry: SchemaRegistry) -> None:
    id_ = schema_registry.register("t-value", A)
    schema_registry.trouble = [(500, 50001)]
    assert json.loads(client(schema_registry).schema(id_).text) == A
    schema_registry.trouble = [(500, 50002)] * 9
    assert "it answers 500" in error_of(lambda: client(schema_registry).schema(id_), "ENV025")


def test_nobody_answers() -> None:
    with running() as registry:
        pass
    text = error_of(lambda: client(registry).schema(1), "ENV025")
    assert "can't be reached" in text
    assert "refused" in text


def test_another_address_is_asked(schema_registry: SchemaRegistry) -> None:
    with running() as gone:
        pass
    id_ = schema_registry.register("t-value", A)
    settings = RegistrySettings.of("f", {"f.url": f"{gone.url}, {schema_registry.url}/"})
    assert RegistryClient(settings).schema(id_).kind == "AVRO"


def test_passwords() -> None:
    with running(user_info="me:hush") as registry:
        id_ = registry.register("t-value", A)
        assert client(registry, **{"basic-auth__user-info": "me:hush"}).schema(id_)
        in_url = registry.url.replace("://", "://me:hush@")
        assert RegistryClient(RegistrySettings.of("f", {"f.url": in_url})).schema(id_)
        for options in ({}, {"basic-auth__user-info": "me:wrongpw"}):
            text = error_of(lambda o=options: client(registry, **o).schema(id_))
            assert "wants another name, password or token" in text
            assert "wrongpw" not in text
        wrong = RegistrySettings.of("f", {"f.url": registry.url.replace("://", "://me:wrongpw@")})
        assert "wrongpw" not in error_of(lambda: RegistryClient(wrong).schema(id_))


def test_tokens() -> None:
    with running(token="hush") as registry:
        id_ = registry.register("t-value", A)
        assert client(registry, **{"bearer-auth__token": "hush"}).schema(id_)
        assert "401" in error_of(lambda: client(registry, **{"bearer-auth__token": "other"}).schema(id_))


def test_incompatible_schemas(schema_registry: SchemaRegistry) -> None:
    schema_registry.register("t-value", A)
    text = error_of(lambda: client(schema_registry).register("t-value", RegisteredSchema(json.dumps(B))))
    assert "not compatible" in text
    assert "subject t-value" in text


def test_what_is_no_registry(schema_registry: SchemaRegistry) -> None:
    settings = RegistrySettings.of("f", {"f.url": schema_registry.url + "/elsewhere"})
    assert "option url" in error_of(lambda: RegistryClient(settings).schema(1))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "option 'f.url' is missing"),
        ({"f.url": "localhost:8081"}, "http://host:port"),
        ({"f.url": "http://x", "f.ssl.truststore.location": "a.jks"}, "PEM"),
    ],
)
def test_options(options: dict[str, str], expected: str) -> None:
    with pytest.raises(DiagnosticError, match=expected):
        RegistrySettings.of("f", options)
