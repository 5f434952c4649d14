"""What is kept of DuckDB's answers is what DuckDB says, and never stands in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sqlstream.type_oracle.duckdb_types import DuckDbTypes
from sqlstream.type_oracle.remembered import RememberedTypes
from sqlstream_operators.plan.types import DOUBLE, INTEGER, NULL, UNKNOWN, VARCHAR, SqlType, array, struct
from sqlstream_planner.expressions.oracle import Listed, Question, Refused, Rows, Signature

QUESTIONS = {
    Question('"$0" || "$1"', (VARCHAR, VARCHAR)): VARCHAR,
    Question('"$0" || "$1"', (array(INTEGER), array(NULL))): array(INTEGER),
    Question("""from_json("$0", '{"a b": "INTEGER"}')""", (VARCHAR,)): struct(("a b", INTEGER)),
    Question('md5_number("$0")', (VARCHAR,)): UNKNOWN,
    Question("[]"): array(NULL),
    Question("""atan2("$0", '1')""", (INTEGER,), rows=Rows.NULLS): DOUBLE,
}
GOOD, WRONG = "regexp_matches('', 'a|b')", "CAST('2023-02-29' AS DATE)"
WRONG_BECAUSE = 'date field value out of range: "2023-02-29"'


class Silent:
    """Knows nothing, and must not be asked."""

    def type_of(self, question: Question) -> SqlType | Refused:
        raise AssertionError(question)

    def failures(self, constants: Sequence[str]) -> Sequence[str | None]:
        raise AssertionError(constants)

    def functions(self) -> Mapping[str, Listed]:
        raise AssertionError

    def signatures(self, name: str) -> tuple[Signature, ...]:
        raise AssertionError(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "below" / "types.json"
    oracle = RememberedTypes(DuckDbTypes(), made)
    assert {q: oracle.type_of(q) for q in QUESTIONS} == QUESTIONS
    assert oracle.failures([GOOD, WRONG]) == [None, WRONG_BECAUSE]
    oracle.save()
    return made


def test_what_is_kept_needs_no_duckdb(file: Path) -> None:
    oracle = RememberedTypes(Silent(), file)
    assert {q: oracle.type_of(q) for q in QUESTIONS} == QUESTIONS
    assert oracle.functions() == DuckDbTypes().functions()
    assert oracle.failures([GOOD]) == [None]
    with pytest.raises(AssertionError):  # what fails is asked again, for its words
        oracle.failures([GOOD, WRONG])


@pytest.mark.parametrize("harm", ["cut off", "another type", "writable by others", "empty"])
def test_what_was_tampered_with_is_not_believed(file: Path, harm: str) -> None:
    text = file.read_text(encoding="utf-8")
    if harm == "writable by others":
        file.chmod(0o666)
    else:
        damaged = {"cut off": text[:-9], "another type": text.replace("VARCHAR", "INTEGER"), "empty": ""}
        file.write_text(damaged[harm], encoding="utf-8")
    oracle = RememberedTypes(DuckDbTypes(), file)
    assert {q: oracle.type_of(q) for q in QUESTIONS} == QUESTIONS
    with pytest.raises(AssertionError):
        RememberedTypes(Silent(), file).functions()


def test_nothing_fails_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    oracle = RememberedTypes(DuckDbTypes(), tmp_path / "taken" / "types.json")
    assert oracle.type_of(Question("1 + 1")) == INTEGER
    oracle.save()


@pytest.mark.parametrize(
    ("question", "value"),
    [
        (Question('upper("$0")', (INTEGER,)), False),
        (Question('no_such_function("$0")', (INTEGER,)), False),
        # The first argument is a NULL, and the text is still looked at.
        (Question("""atan2("$0", 'x')""", (INTEGER,), rows=Rows.NULLS), True),
        (Question("""regexp_matches("$0", '(')""", (VARCHAR,)), True),
    ],
)
def test_a_refusal_says_whether_it_is_about_a_value(question: Question, value: bool) -> None:
    answer = DuckDbTypes().type_of(question)
    assert isinstance(answer, Refused)
    assert answer.value is value
    assert "\n" not in answer.words
