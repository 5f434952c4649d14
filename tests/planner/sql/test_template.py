"""Templates: what they give, where each part of it came from, and what they may not do."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.large_stack import on_large_stack
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, render
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.sql.template import render_template

MACROS = "{% macro window(table, minutes=1) -%}\nTUMBLE(TABLE {{ table }}, {{ minutes }})\n{%- endmacro %}"
PART = "-- part\nSELECT oops FROM {{ t }};\n"


#: What would be a text of gigabytes.
WIDE = (
    "{{ 'a'.ljust(4 * 10 ** 9) }}",
    "{{ 'a'.zfill(4000000000) }}",
    "{{ 'a'|center(4000000000) }}",
    "{{ 'a\\nb'|indent(4000000000) }}",
    "{{ '%4000000000s' % 'x' }}",
    "{{ '%*s' % (4000000000, 'x') }}",
    "{{ '%4000000000s'|format('x') }}",
    "{{ '{:4000000000}'.format('x') }}",
    "{{ ('a' * 10 ** 7).replace('a', 'a' * 10 ** 7) }}",
)

#: The same, where braces inside of the text end what messages show of it.
WIDE_WITH_BRACES = (
    "{% set x = '{:>{w}}'.format('x', w=4000000000) %}",
    "{% set x = '{:>{}}'.format('x', 4000000000) %}",
    "{% set x = '{x:4000000000}'.format_map({'x': 1}) %}",
    "{% set x = '{x:{w}}'.format_map({'x': 1, 'w': 4000000000}) %}",
    "{% set x = 'a' * 10 ** 6 %}{% set y = x.split('a')|join(x) %}",
    "{% set x = 'a' * 10 ** 6 %}{% set y = x.split('a')|join(d=x) %}",
    "{% set x = 'a' * 10 ** 6 %}{% set y = x.join(x.split('a')) %}",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "macros").mkdir()
    (tmp_path / "macros" / "windows.sql").write_text(MACROS)
    (tmp_path / "part.sql").write_text(PART)
    (tmp_path.parent / "secret.sql").write_text("secret")
    return tmp_path


def rendered(text: str, folder: Path, **variables: object) -> RenderedSql:
    return render_template(text, str(folder / "q.sql"), variables=variables, env={"HOME": "/home/x"})


def origin(sql: RenderedSql, word: str, nth: int = 0) -> tuple[str, int, str]:
    """The file, the line and the text there of the nth `word` of the rendered text."""
    found = list(re.finditer(re.escape(word), sql.text))[nth]
    span = sql.span(*found.span())
    line = sql.sources[span.file].split("\n")[span.line - 1]
    return Path(span.file).name, span.line, line[span.column - 1 : span.column - 1 + span.length]


@given(st.text(alphabet=st.sampled_from("ab {}%\n\r\t'\"é;--"), max_size=40).filter(
    lambda t: not re.search(r"\{[{%#]", t)))  # fmt: skip
@settings(max_examples=100)
def test_a_file_without_jinja_is_itself(text: str) -> None:
    sql = render_template(text, "q.sql")
    assert sql.text == text
    for number, line in enumerate(text.split("\n"), start=1):
        for column in range(1, len(line) + 2):
            assert sql.locate(number, column) == ("q.sql", number, column)


def test_text_and_values() -> None:
    text = "{{ var('x') }} {{ var('y', 'no') }} {{ env_var('A') }} {{ env_var('B', 'b') }} {{ 1 + 1 }}"
    sql = render_template(text, "q.sql", variables={"x": 5}, env={"A": "a"})
    assert sql.text == "5 no a b 2"


def test_every_word_leads_back_to_its_place(folder: Path) -> None:
    sql = rendered(
        "SELECT {{ var('x', 5) }} AS a,\n"
        "{%- for c in ['p', 'q'] %}\n"
        "  f({{ c }}) AS {{ c }}_x,\n"
        "{%- endfor %}\n"
        "  bad\n"
        "{% import 'windows.sql' as w %}FROM {{ w.window('bid', 3) }};\n"
        "{% set t = 'u' %}{% include 'part.sql' %}\n"
        "{# note #}{% raw %}{{ kept }}{% endraw %} end",
        folder,
    )
    assert origin(sql, "SELECT") == ("q.sql", 1, "SELECT")
    assert origin(sql, "5") == ("q.sql", 1, "{{ var('x', 5) }}")
    assert origin(sql, "AS a") == ("q.sql", 1, "AS a")
    assert origin(sql, "f(") == origin(sql, "f(", 1) == ("q.sql", 3, "f(")
    assert origin(sql, "q", 0) == ("q.sql", 3, "{{ c }}")
    assert origin(sql, "bad") == ("q.sql", 5, "bad")
    assert origin(sql, "FROM") == ("q.sql", 6, "FROM")
    assert origin(sql, "TUMBLE") == ("windows.sql", 2, "TUMBLE")
    assert origin(sql, "bid") == ("windows.sql", 2, "{{ table }}")
    assert origin(sql, "oops") == ("part.sql", 2, "oops")
    assert origin(sql, "u;") == ("part.sql", 2, "{{ t }}")
    assert origin(sql, "kept") == ("q.sql", 8, "kept")
    assert origin(sql, "end") == ("q.sql", 8, "end")


pieces = st.lists(
    st.sampled_from(
        ["SELECT ", "a\n", "{{ var('x') }}", "{% for i in [1, 2] %}b {{ i }}\n{% endfor %}", "{%- if true -%} c {% endif %}",
         "{# no #}", "{% set y = 'z' %}", "{{- ' d ' -}}", "{% raw %}{{ e }}{% endraw %}", "é\n\n", "{{ 'f\ng' }}",
         "{% macro m(v) %}<{{ v }}>{% endmacro %}{{ m('h') }}", "{% filter upper %}k{{ 1 }}{% endfilter %}", "\r\nl"]
    ),
    max_size=8,
)  # fmt: skip


@given(pieces)
@settings(max_examples=100, deadline=None)
def test_text_that_stands_in_the_file_maps_to_itself(parts: list[str]) -> None:
    """Marks never change the text, and each verbatim character maps to the same character."""
    text = "".join(parts)
    import jinja2

    environment = jinja2.Environment(keep_trailing_newline=True)
    expected = environment.from_string(text, globals={"var": lambda name: "5"}).render()
    sql = render_template(text, "q.sql", variables={"x": 5})
    assert sql.text == (expected if re.search(r"\{[{%#]", text) else text)
    for segment, following in zip(sql.segments, [*sql.segments[1:], None], strict=True):
        stop = following.start if following is not None else len(sql.text)
        if segment.verbatim and stop > segment.start:
            written = sql.text[segment.start : stop]
            source = sql.sources["q.sql"][segment.source_offset : segment.source_offset + len(written)]
            assert source.upper() == written.upper()


def test_a_template_that_measures_its_own_text_is_not_disturbed() -> None:
    text = "{% set b %}abc{% endset %}{{ b | length }}\n{% if b == 'abc' %}yes{% endif %}\nSELECT 1"
    sql = render_template(text, "q.sql")
    assert sql.text == "3\nyes\nSELECT 1"
    assert sql.locate(3, 8) == ("q.sql", 3, 8)


def failure(text: str, folder: Path, **variables: object) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        rendered(text, folder, **variables)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@pytest.mark.parametrize(
    ("text", "word", "help_"),
    [
        ("SELECT * FROM {{ ref('orders') }}", "ref", "CREATE TEMPORARY VIEW"),
        ("SELECT * FROM {{ source('raw', 'orders') }}", "source", "CREATE TABLE name"),
        ("{{ config(materialized='table') }}", "config", "SET 'name' = 'value'"),
        ("{% if is_incremental() %} x {% endif %}", "is_incremental", "leave it out"),
        ("SELECT * FROM {{ this }}", "this", "INSERT INTO"),
        ("SELECT * FROM {{ this.schema }}", "this", "INSERT INTO"),
        ("{{ target.name }}", "target", "sqlstream.toml"),
    ],
)
def test_what_is_dbts_is_said_to_be(folder: Path, text: str, word: str, help_: str) -> None:
    diagnostic = failure(text, folder)
    assert (diagnostic.code, diagnostic.message) == ("TPL002", f"'{word}' is undefined")
    assert f"`{word}` is dbt's" in diagnostic.notes[0]
    assert help_ in (diagnostic.help or "")
    assert "--var" not in (diagnostic.help or "")


def test_a_variable_may_be_called_as_something_of_dbts(folder: Path) -> None:
    assert failure("{{ source }}", folder, source="x").help == "write {{ var('source') }}"


@pytest.mark.parametrize(
    ("text", "code", "line", "marked", "help_"),
    [
        ("a\n{{ var('y') }}", "TPL005", 2, "var('y'", "--var y=…"),
        ("a\n{{ var('tabel') }}", "TPL005", 2, "var('tabel'", "did you mean 'table'"),
        ("{{ env_var('HOM') }}", "TPL006", 1, "env_var('HOM'", "export HOM=…"),
        ("x\n\n  {{ foo }}", "TPL002", 3, "foo", "var('foo')"),
        ("{{ table }}", "TPL002", 1, "table", "write {{ var('table') }}"),
        ("{% for i in [1] %}\n{{ i.a.b }}{% endfor %}", "TPL002", 2, "{{ i.a.b }}", None),
        ("a\n{% if %}", "TPL001", 2, "{% if %}", None),
        ("{{ x", "TPL001", 1, "{{ x", None),
        ("a\nWHERE s LIKE '{% x' AND x", "TPL001", 2, "{% x' AND x", None),
        ("a\nWHERE s LIKE 'a{%1' AND x", "TPL001", 2, "{%1' AND x", "{{ '{%' }}"),
        ("{% for i in [1] %}", "TPL001", 1, "{% for i in [1] %}", None),
        ("{{ 1 | nope }}", "TPL001", 1, "{{ 1 | nope }}", None),
        ("a\n {% include 'prat.sql' %}", "TPL003", 2, "prat.sql", "part.sql"),
        ("{% include '../secret.sql' %}", "TPL004", 1, "../secret.sql", None),
        ("{% include '/etc/passwd' %}", "TPL004", 1, "/etc/passwd", None),
        ("{{ ''.__class__.__mro__ }}", "TPL004", 1, "{{ ''.__class__.__mro__ }}", "Python"),
        ("{{ var.__globals__ }}", "TPL004", 1, "{{ var.__globals__ }}", "Python"),
        (
            "{% for i in range(1000) %}{% for j in range(1000) %}.{% endfor %}{% endfor %}",
            "TPL007",
            1,
            "range(",
            None,
        ),
        ("{{ 'a' * 10 ** 9 }}", "TPL007", 1, "{{ 'a' * 10 ** 9 }}", None),
        *((text, "TPL007", 1, text, None) for text in WIDE),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "TPL007", 1, "{% macro m() %}", None),
        ("\n{{ 1 / 0 }}", "TPL008", 2, "{{ 1 / 0 }}", None),
        ("{% set t = 1 %}\n{% include 'bad.sql' %}", "TPL002", 3, "missing", None),
    ],
)
def test_mistakes(folder: Path, text: str, code: str, line: int, marked: str, help_: str | None) -> None:
    (folder / "bad.sql").write_text("one\ntwo\n{{ missing }}")
    diagnostic = failure(text, folder, table="t")
    assert diagnostic.code == code
    assert diagnostic.span is not None
    assert diagnostic.span.line == line
    source = "one\ntwo\n{{ missing }}" if diagnostic.span.file.endswith("bad.sql") else text
    at = source.split("\n")[line - 1]
    assert at[diagnostic.span.column - 1 :][: diagnostic.span.length] == marked
    assert (help_ or "") in (diagnostic.help or "")
    assert render(diagnostic, source)


def test_a_link_does_not_lead_out_of_the_folder(folder: Path) -> None:
    (folder / "link.sql").symlink_to(folder.parent / "secret.sql")
    assert failure("{% include 'link.sql' %}", folder).code == "TPL003"


def test_a_folder_that_is_searched_twice_is_named_once(folder: Path) -> None:
    (folder / "macros").mkdir(exist_ok=True)
    again = folder / "." / "macros" / ".." / "macros"
    with pytest.raises(DiagnosticError) as raised:
        render_template("{% include 'lost.sql' %}", str(folder / "p.sql"), search_path=(again,))
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.notes == (f"looked in {folder}, {folder / 'macros'}",)


@pytest.mark.parametrize("operator", ["+", "~"])
def test_a_text_that_is_doubled_again_and_again(folder: Path, operator: str) -> None:
    text = (
        "{% set n = namespace(x='aa') %}{% for i in range(40) %}{% set n.x = n.x "
        f"{operator} n.x %}}{{% endfor %}}"
    )
    assert failure(text, folder).code == "TPL007"


@pytest.mark.parametrize("text", [*WIDE, *WIDE_WITH_BRACES])
def test_a_text_of_gigabytes_is_refused_before_it_is_made(folder: Path, text: str) -> None:
    tracemalloc.start()
    try:
        assert failure(text, folder).code == "TPL007"
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_numbers_do_not_grow_without_end(folder: Path) -> None:
    text = "{% set n = namespace(x=2) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}"
    assert failure(text, folder).message == "the number is too large"
    assert failure("{{ (10 ** 900) ** 900 }}", folder).code == "TPL007"


def test_numbers_that_are_filled_in_are_no_widths(folder: Path) -> None:
    number = 1704067200
    text = f"{{{{ '%d' % {number} }}}} {{{{ '%d'|format({number}) }}}} {{{{ '{{}}'.format({number}) }}}}"
    assert render_template(text, str(folder / "q.sql")).text == f"{number} {number} {number}"
    text = "{{ '%(a)s' % {'a': 10 ** 9} }}"
    assert render_template(text, str(folder / "q.sql")).text == "1000000000"


def test_texts_of_a_usual_length(folder: Path) -> None:
    text = "{{ 'a'.ljust(5) ~ 'b'|center(5) ~ '%5s' % 'c' ~ '{:>5}'.format('d') ~ 'e e'.replace('e', 'fg') ~ ['h']|join }}"
    assert render_template(text, str(folder / "q.sql")).text == "a      b      c    dfg fgh"
    amounts = "{{ 99999999 + 1 }} {{ '123456789' }} {{ var('n', 12345678901) }} {{ [5, 12345678901]|max }}"
    assert (
        render_template(amounts, str(folder / "q.sql")).text == "100000000 123456789 12345678901 12345678901"
    )


def test_a_file_that_includes_itself_ends(folder: Path) -> None:
    (folder / "loop.sql").write_text("{% include 'loop.sql' %}")
    assert failure("{% include 'loop.sql' %}", folder).code == "TPL007"


def test_search_path(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "x.sql").write_text("from there")
    sql = render_template("{% include 'x.sql' %}", str(folder / "q.sql"), search_path=[other])
    assert sql.text == "from there"
    assert sql.locate(1, 6) == (str(other / "x.sql"), 1, 6)


@pytest.mark.parametrize("variables", [{"x": "{{ var('y') }}"}, {"x": "'; DROP"}])
def test_values_are_not_templates(variables: Mapping[str, str]) -> None:
    assert render_template("{{ var('x') }}", "q.sql", variables=variables).text == variables["x"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "1,000 levels deep"),
        (
            "{% macro m() %}{{ n() }}{% endmacro %}{% macro n() %}{{ m() }}{% endmacro %}{{ m() }}",
            "1,000 levels deep",
        ),
        (
            "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
            "more than 300,000 times",
        ),
    ],
)
def test_macros_without_an_end_are_told_soon(template: str, message: str) -> None:
    """Planning's stack holds a quarter of a million frames: filling it takes a minute."""
    with pytest.raises(DiagnosticError) as raised:
        on_large_stack(render_template)(template, "p.sql")
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.code == "TPL007"
    assert message in diagnostic.message


def test_macros_may_call_themselves() -> None:
    template = "{% macro m(n) %}{% if n %}x{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(900) }}"
    assert on_large_stack(render_template)(template, "p.sql").text == "x" * 900


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '{{' AS a, 'x{{' AS b",
        "SELECT format('{{}}', 1), format('{{{}}}', x)\nFROM t WHERE s LIKE '{%' OR s LIKE 'a{#'",
        "SELECT '}}' || '{{'",
    ],
)
def test_braces_that_no_template_can_mean_are_text(text: str) -> None:
    assert render_template(text, "q.sql").text == text
    beside = render_template(f"{text}\nAND {{% if true %}}y = 1{{% endif %}}", "q.sql")
    assert beside.text == f"{text}\nAND y = 1"
    start = beside.text.index("y = 1")
    assert (beside.span(start, start + 1).line, beside.span(0, 6).column) == (text.count("\n") + 2, 1)


@pytest.mark.parametrize("text", ["SELECT '{{ x'", "SELECT '{{var('x')'", "SELECT '{% x'"])
def test_a_mistyped_template_is_told_as_one(text: str) -> None:
    """It must not become a path."""
    with pytest.raises(DiagnosticError) as raised:
        render_template(text, "q.sql")
    assert raised.value.diagnostics[0].code.startswith("TPL")


@pytest.mark.parametrize(("text", "rendered"), [("'{{'a' ~ 1}}'", "'a1'"), ("'{# a #}'", "''")])
def test_what_is_closed_is_a_template(text: str, rendered: str) -> None:
    assert render_template(text, "q.sql").text == rendered


@pytest.mark.parametrize(
    ("text", "place", "length", "fragment"),
    [
        (
            "SELECT '{{' || k || '}}'",
            (1, 9),
            15,
            "from `{{` to the next `}}` is a template, also inside a text",
        ),
        ("SELECT k,\n  '{{' AS z, '}}' AS y", (2, 4), 13, "from `{{` to the next `}}` is a template"),
        ("SELECT 'it''s {{' || k || '}}'", (1, 15), 15, "from `{{` to the next `}}` is a template"),
        ("SELECT '{#' || k || '#}'", (1, 9), 15, "from `{#` to the next `#}` is a template's comment"),
        ('SELECT \'{"a": {{"b": 1}}}\'', (1, 15), 10, "expected token"),
    ],
)
def test_braces_of_texts_are_not_taken_for_a_template(
    text: str, place: tuple[int, int], length: int, fragment: str
) -> None:
    with pytest.raises(DiagnosticError) as raised:
        render_template(text, "q.sql")
    [found] = raised.value.diagnostics
    assert found.span is not None
    assert (found.code, fragment in found.message) == ("TPL001", True), found
    assert ((found.span.line, found.span.column), found.span.length) == (place, length)
    assert found.help is not None
    assert "{% raw %}" in found.help


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("SELECT '{{ '{{' }}' || k || '}}'", "SELECT '{{' || k || '}}'"),
        ("{% raw %}SELECT '{{' || k || '}}'{% endraw %}", "SELECT '{{' || k || '}}'"),
        ("SELECT '{{ '{#' }}' || k || '#}'", "SELECT '{#' || k || '#}'"),
        ("SELECT {{ 'k' }}, '{{ 'a' ~ 1 }}'", "SELECT k, 'a1'"),
        ("SELECT 'a{# a note #}'", "SELECT 'a'"),
        ("-- it's\nSELECT {{ 'k' }}", "-- it's\nSELECT k"),
    ],
)
def test_templates_beside_texts(text: str, given: str) -> None:
    assert render_template(text, "q.sql").text == given
