"""Random messages, good and bad: a message means the same whatever stands beside it and however it is read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem.options import CHANGELOG_FORMATS
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.harness import context, read_all, source_spec
from tests.connectors.test_filesystem_properties import LIMITS
from tests.examples import examples

SCHEMA = {"id": "BIGINT", "name": "VARCHAR", "s": "STRUCT(at TIMESTAMP, l INTEGER[])"}
VALUES = {
    "id": ["1", '"2"', "null", "1.5", '"x"', "{}", "true"],
    "name": ['"a"', "null", "5", '{"a": 1}', '"\\u00e9\\n"', '"\\ud800"'],
    "s": [
        "null",
        '{"at": "2020-01-01T00:00:00+02:00", "l": [1, null]}',
        "{}",
        "[]",
        '{"l": 3}',
        '{"l": ["q"]}',
    ],
    "other": ["1"],
}
OPS = {
    "debezium-json": ["c", "r", "u", "d", "t"],
    "changelog-json": ["+I", "-U", "+U", "-D", "I"],
    "canal-json": ["INSERT", "UPDATE", "DELETE", "CREATE", "ALTER"],
    "maxwell-json": ["insert", "update", "delete", "bootstrap-insert", "bootstrap-start", "drop"],
}
KEYS = {
    "debezium-json": ("op", ["after", "before"]),
    "changelog-json": ("op", ["data"]),
    "canal-json": ("type", ["data", "old"]),
    "maxwell-json": ("type", ["data", "old"]),
}


def pairs(keys: st.SearchStrategy[str], value: Any, size: int) -> st.SearchStrategy[str]:
    """JSON objects as text, rarely with a key twice."""
    pair = keys.flatmap(lambda key: value(key).map(lambda text: f'"{key}": {text}'))
    return st.lists(pair, max_size=size, unique_by=lambda p: p.partition(":")[0]).map(
        lambda found: "{" + ", ".join(found) + "}"
    )


ROW = pairs(st.sampled_from(sorted(VALUES)), lambda key: st.sampled_from(VALUES[key]), 4)
GOOD_ROW = st.sampled_from(['{"id": 1, "name": "a"}', '{"id": 2}', '{"name": null}', '{"id": "3", "s": {}}'])
ODD = st.sampled_from(["null", "5", "[]", "{}", "[null]", '"x"', '{"id": 1, "id": 2}'])


@st.composite
def messages(draw: st.DrawFn, format_: str) -> str:
    op, images = KEYS[format_]
    good = draw(st.integers(0, 3)) > 0
    row = GOOD_ROW if good else st.one_of(GOOD_ROW, ROW, ODD)
    size = draw(st.integers(0, 2))
    keys = {op: f'"{draw(st.sampled_from(OPS[format_][: len(OPS[format_]) - good]))}"'}
    for image in images:
        if format_ == "canal-json":
            texts = draw(st.lists(row, min_size=size, max_size=size if good else 3))
            keys[image] = draw(
                st.just(f"[{', '.join(texts)}]")
                if good
                else st.sampled_from([f"[{', '.join(texts)}]", "null"])
            )
        else:
            keys[image] = draw(row)
        if draw(st.integers(0, 4)) == 0:
            keys[image] = "null"
    if format_ == "canal-json":
        keys |= {"table": draw(st.sampled_from(['"t"', '"u"', "null"])), "database": '"d"'}
    if not good and draw(st.booleans()):
        del keys[draw(st.sampled_from(sorted(keys)))]
    order = draw(st.permutations(sorted(keys)))
    text = "{" + ", ".join(f'"{key}": {keys[key]}' for key in order) + "}"
    if not good:
        text = draw(
            st.sampled_from(
                [text, text, text, text[:-1], "null", "{}", "", "[]", f'{text[:-1]}, "{op}": "c"}}']
            )
        )
    return text


@settings(
    max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(CHANGELOG_FORMATS).flatmap(
        lambda format_: st.tuples(st.just(format_), st.lists(messages(format_), min_size=1, max_size=6))
    ),
    LIMITS,
    st.booleans(),
    st.booleans(),
)
@example(("debezium-json", ["{}", "null", '{"op": "c", "after": {}}']), Limits(), False, True)
def test_a_message_means_the_same_in_any_company(
    duck: DuckSession, drawn: tuple[str, list[str]], limits: Any, keyed: bool, special: bool
) -> None:
    """`special`: Debezium's wrapping, Canal's filter."""
    format_, lines = drawn
    options = {}
    if special and format_ == "debezium-json":
        options["debezium-json.schema-include"] = "true"
        lines = [f'{{"schema": {{}}, "payload": {line}}}' if line else line for line in lines]
    if special and format_ == "canal-json":
        options["canal-json.table.include"] = "t"
    spec = source_spec(SCHEMA, options, path="t", format=format_, primary_key=("id",) if keyed else ())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone: list[Any] = []
        bad: list[tuple[int | None, str, str]] = []
        (folder / "t").mkdir()
        file = folder / "t/a.json"
        for number, line in enumerate(lines, start=1):
            file.write_text(line)
            read = read_all(duck, spec, context(folder, f"alone{number}"))
            alone += read.rows
            bad += [(number, str(row.raw), row.reason) for row in read.bad]
        for other, text in [("", ""), ("oops", "\noops")]:
            file.write_text("\n".join(lines) + text)
            read = read_all(duck, spec, context(folder, f"all{other}"), limits)
            assert read.rows == alone
            expected = [*bad, (len(lines) + 1, "oops", "not valid JSON")] if other else bad
            assert [(row.line, row.raw, row.reason) for row in read.bad] == expected
            # Found by what is asked of every line, not by trying.
            assert not any("Error" in row.reason for row in read.bad)
        assert {row[-1] for row in alone} <= {"+I", "-U", "+U", "-D"}


NAMES = ["op", "before", "after", "type", "old", "patch", "payload", "data", "database", "table", "file_name"]


@pytest.mark.parametrize("bad", ["", "oops\n"])
def test_columns_may_have_the_names_of_a_message_s_keys(tmp_path: Path, duck: DuckSession, bad: str) -> None:
    def row(value: int) -> str:
        return "{" + ", ".join(f'"{name}": "{name}{value}"' for name in NAMES) + "}"

    lines = {
        "debezium-json": f'{{"before": {row(1)}, "after": {row(2)}, "op": "u"}}',
        "canal-json": f'{{"old": [{row(1)}], "data": [{row(2)}], "type": "UPDATE", "database": "d", "table": "t"}}',
        "maxwell-json": f'{{"old": {row(1)}, "data": {row(2)}, "type": "update"}}',
    }
    for format_, line in lines.items():
        (folder := tmp_path / format_).mkdir()
        (folder / "a.json").write_text(bad + line)
        options = {"canal-json.table.include": "t"} if format_ == "canal-json" else {}
        spec = source_spec(dict.fromkeys(NAMES, "VARCHAR"), options, path="a.json", format=format_)
        read = read_all(duck, spec, context(folder))
        assert read.rows == [(*(f"{n}{i}" for n in NAMES), kind) for i, kind in ((1, "-U"), (2, "+U"))]


def test_keys_of_a_row_are_case_sensitive(tmp_path: Path, duck: DuckSession) -> None:
    for number, bad in enumerate(["", "oops\n"]):
        (tmp_path / "a.json").write_text(
            f'{bad}{{"data": {{"id": 1, "name": "x"}}, "old": {{"ID": 5, "name": "y"}}, "type": "update"}}\n'
        )
        spec = source_spec({"id": "BIGINT", "name": "VARCHAR"}, path="a.json", format="maxwell-json")
        read = read_all(duck, spec, context(tmp_path, str(number)))
        assert read.rows == [(1, "y", "-U"), (1, "x", "+U")]
