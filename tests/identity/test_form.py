"""Forms: content decides, sharing costs nothing, depth does not matter, and JSON gives them back."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Form, form, from_json, size, sort_forms, text, to_json, walk

PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
FORMS = st.recursive(
    st.builds(Form, st.text(max_size=3), st.lists(PLAIN, max_size=3).map(tuple)),
    lambda inner: st.builds(Form, st.text(max_size=3), st.lists(inner | PLAIN, max_size=4).map(tuple)),
    max_leaves=12,
)
DATA = st.recursive(
    FORMS | PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4).filter(lambda name: name != "form"), inner, max_size=3)
    ),
    max_leaves=8,
)


def content(data: Any) -> Any:
    """The content as nested lists with the type of everything, the definition of equality."""
    if isinstance(data, Form):
        return ["form", data.op, [content(a) for a in data.args]]
    return [type(data).__name__, data]


@given(FORMS, FORMS)
def test_equal_exactly_when_the_contents_are(a: Form, b: Form) -> None:
    assert (a == b) == (content(a) == content(b))
    assert (a.digest == b.digest) == (a == b)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (form("a", "b"), form("ab")),
        (form("a", "b", "c"), form("a", "bc")),
        (form("a", 1), form("a", "1")),
        (form("a", 1), form("a", True)),
        (form("a", 0), form("a", False)),
        (form("a", None), form("a")),
        (form("a", None), form("a", "None")),
        (form("a", form("b")), form("a", form("b").digest)),
        (form("a", form("b"), "c"), form("a", form("b", "c"))),
        (form("a", "s1:b"), form("a", "b")),
        (form("a", 12), form("a", 1, 2)),
        (form("a", "\ud800"), form("a", "?")),
        (form("a", "é"), form("a", "e\u0301")),
    ],
)
def test_no_two_contents_run_together(one: Form, other: Form) -> None:
    assert one != other


def test_digests_never_change() -> None:
    # They are in stored identities: another digest for the same content loses everybody's state.
    assert form("a").digest == "11eb1295eac340ba28644b476cc40da6"
    assert (
        form("+", form("column", "é"), -5, True, None, form("x", "")).digest
        == "a008af486afa17218a1e765eb63c29ea"
    )


def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from sqlstream_planner.identity.form import form; print(form('a', form('b', 'c', 7)).digest)"
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == form("a", form("b", "c", 7)).digest


def test_what_is_no_argument_is_a_bug() -> None:
    with pytest.raises(InternalError, match="float is no argument"):
        form("a", 1.5)  # type: ignore[arg-type]


@given(st.dictionaries(st.text(max_size=4).filter(lambda name: name != "form"), DATA, max_size=3))
def test_json_gives_back_what_it_was_given(roots: dict[str, Any]) -> None:
    written = to_json(roots)
    read = from_json(json.loads(json.dumps(written)))
    assert read == roots
    assert to_json(read) == written


@given(FORMS, FORMS)
def test_json_does_not_depend_on_the_order_of_the_roots(a: Form, b: Form) -> None:
    assert json.dumps(to_json({"x": a, "y": b})) == json.dumps(to_json({"y": b, "x": a}))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"forms": [], "roots": []},
        {"forms": [[]], "roots": {}},
        {"forms": [[1]], "roots": {}},
        {"forms": [["a", [0]]], "roots": {}},
        {"forms": [["a"], ["b", [0, 0]]], "roots": {}},
        {"forms": [["a"], ["b", [True]]], "roots": {}},
        {"forms": [["a", 1.5]], "roots": {}},
        {"forms": [], "roots": {"x": {"form": 0}}},
        {"forms": [["a"]], "roots": {"x": {"form": -1}}},
        {"forms": [["a"]], "roots": {"x": 1.5}},
    ],
)
def test_what_is_no_forms_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"form|identity"):
        from_json(data)


def test_a_root_that_would_be_read_as_a_reference_is_a_bug() -> None:
    with pytest.raises(InternalError, match="read back"):
        to_json({"x": {"form": 1}})


def test_sharing_costs_nothing() -> None:
    at = form("column", "a")
    for _ in range(300):
        at = form("+", at, at)  # 2^300 leaves
    assert size(at) == 301
    written = to_json({"root": at})
    assert len(written["forms"]) == 301
    assert from_json(written)["root"] == at
    assert len(text(at).splitlines()) < 310


def test_depth_does_not_matter() -> None:
    at = form("column", "a")
    for _ in range(20_000):
        at = form("-", at)
    assert size(at) == 20_001
    assert from_json(json.loads(json.dumps(to_json({"root": at}))))["root"] == at
    assert pickle.loads(pickle.dumps(at)) == at
    assert copy.deepcopy(at) is at
    assert repr(at).startswith("Form('-', 1 arguments")
    assert text(at).count("\n") > 100
    del at  # freeing it must not recurse either


def test_the_walk_meets_arguments_first_and_each_once() -> None:
    a, b = form("a"), form("b")
    both = form("+", a, b)
    assert [f.op for f in walk(form("*", both, b, both))] == ["a", "b", "+", "*"]


def test_sorting_does_not_depend_on_the_order_given() -> None:
    forms = [form("a", i) for i in range(20)]
    assert sort_forms(forms) == sort_forms(reversed(forms))
    assert len(set(sort_forms(forms))) == 20


def test_text_is_unambiguous_for_odd_operators() -> None:
    assert text(form("a b", '"', None, True, -1, "é\n")) == '("a b" "\\"" null true -1 "\\u00e9\\n")'
    assert text(form("", form("()"))) == '("" ("()"))'
