from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from sqlstream.connectors.api import Limits
from sqlstream.formats.boundaries import csv_range_end
from sqlstream.formats.csv.shape import CsvShape
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from tests.connectors.harness import Read, context, read_all, source_spec

SCHEMA = {"a": "BIGINT", "s": "VARCHAR", "t": "TIMESTAMP"}


def _read(
    tmp_path: Path,
    duck: DuckSession,
    content: str | bytes,
    limits: Limits | None = None,
    options: dict[str, str] | None = None,
) -> Read:
    (tmp_path / "a.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    spec = source_spec(SCHEMA, options, path="a.csv", format="csv")
    return read_all(duck, spec, context(tmp_path), limits)


def test_rows_nulls_quotes_and_line_ends(tmp_path: Path, duck: DuckSession) -> None:
    read = _read(
        tmp_path,
        duck,
        '\ufeff1,x,2020-01-01 00:00:00\r\n2,"",\r\n\r\n3,"a ""b""\n,c",2020-01-01T00:00:00+02:00\r\n'
        ",,\r\n4,é,",
    )
    assert read.rows == [
        (1, "x", datetime(2020, 1, 1)),
        (2, "", None),
        (3, 'a "b"\n,c', datetime(2019, 12, 31, 22)),
        (None, None, None),
        (4, "é", None),
    ]
    assert read.bad == []


@pytest.mark.parametrize("limits", [None, Limits(rows=1), Limits(rows=2)])
def test_a_header_is_seen_by_its_names_and_maps_columns(
    tmp_path: Path, duck: DuckSession, limits: Limits | None
) -> None:
    read = _read(tmp_path, duck, 'T,more,"A", s \n,x,1,y\n,x,2,z\n2020-01-01,,3,\n', limits)
    assert read.rows == [(1, "y", None), (2, "z", None), (3, None, datetime(2020, 1, 1))]


def test_files_with_different_headers(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/1.csv").write_text("a,s,t\n1,x,\n")
    (tmp_path / "d/2.csv").write_text("s,t,a\ny,,2\n")
    (tmp_path / "d/3.csv").write_text("3,z,\n")
    spec = source_spec(
        SCHEMA, path="d", format="csv", columns=["s", "a"], metadata=[("n", "file.name", "VARCHAR")]
    )
    read = read_all(duck, spec, context(tmp_path))
    assert read.rows == [("x", 1, "1.csv"), ("y", 2, "2.csv"), ("z", 3, "3.csv")]


def test_header_false_reads_the_first_line_as_data(tmp_path: Path, duck: DuckSession) -> None:
    read = _read(tmp_path, duck, "a,s,t\n1,x,\n", options={"csv.header": "false"})
    assert read.rows == [(1, "x", None)]
    assert [(b.line, b.raw) for b in read.bad] == [(1, "a,s,t")]


def test_header_true_with_other_names_is_positional(tmp_path: Path, duck: DuckSession) -> None:
    read = _read(tmp_path, duck, "Amount,s,When\n1,x,\n", options={"csv.header": "true"})
    assert read.rows == [(1, "x", None)]


@pytest.mark.parametrize("header", ["s,a,when", "a,s", "a,s,when,more"])
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, duck: DuckSession, header: str) -> None:
    with pytest.raises(DataError, match=r"a\.csv: the header has no column t; it has"):
        _read(tmp_path, duck, f"{header}\n1,x,\n", options={"csv.header": "true"})


def test_delimiter_quote_escape_null_and_comments(tmp_path: Path, duck: DuckSession) -> None:
    read = _read(
        tmp_path,
        duck,
        "#a;b\n1;'x;\\'y';NA\nNA;;NA\n",
        options={
            "csv.field-delimiter": ";",
            "csv.quote-character": "'",
            "csv.escape-character": "\\",
            "csv.null-literal": "NA",
            "csv.allow-comments": "true",
        },
    )
    assert read.rows == [(1, "x;'y", None), (None, "", None)]


@pytest.mark.parametrize("rows", [None, 1])
def test_only_lines_that_begin_with_it_are_comments(
    tmp_path: Path, duck: DuckSession, rows: int | None
) -> None:
    text = '\ufeff#it"s\n1,x#y,\n# "2",b,\n3,#z,\n4,"#a\n#b",#\nbad\n#\n5,#,'
    read = _read(tmp_path, duck, text, Limits(rows=rows), options={"csv.allow-comments": "true"})
    assert [row[:2] for row in read.rows] == [(1, "x#y"), (3, "#z"), (5, "#")]
    assert [(b.line, b.raw.splitlines()[0]) for b in read.bad] == [(5, '4,"#a'), (7, "bad")]


def test_a_file_with_the_mark_of_comments_is_refused(tmp_path: Path, duck: DuckSession) -> None:
    with pytest.raises(DataError, match=r"a\.csv: has the character U\+0003"):
        _read(tmp_path, duck, "1,\x03,\n", options={"csv.allow-comments": "true"})


def test_no_quotes(tmp_path: Path, duck: DuckSession) -> None:
    read = _read(tmp_path, duck, '1,"x,\n2,y",\n', options={"csv.disable-quote-character": "true"})
    assert read.rows == [(1, '"x', None), (2, 'y"', None)]


BAD = {
    "too few": (b"1,x", 1),
    "too many": (b"1,x,,z", 1),
    "not a number": (b"x,y,", 1),
    "not a time": (b"1,y,soon", 1),
    "not UTF-8": (b"1,\xff,", 1),
    "text after a quote": (b'1,"a"b,', 1),
    "two bad values": (b"x,y,soon", 1),
}


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_goes_to_the_dead_letters(
    tmp_path: Path, duck: DuckSession, name: str, newline: bytes
) -> None:
    line, _ = BAD[name]
    content = newline.join([b'7,"two' + newline + b'lines",', b"8,b,", line, b"9,c,", b""])
    read = _read(tmp_path, duck, content)
    assert [row[0] for row in read.rows] == [7, 8, 9]
    assert [(b.origin, b.line) for b in read.bad] == [(str(tmp_path / "a.csv"), 4)]
    assert str(read.bad[0].raw).replace("?", "\ufffd") == line.decode("utf-8", "replace")
    assert read.bad[0].reason


def test_a_missing_quote_at_the_end(tmp_path: Path, duck: DuckSession) -> None:
    read = _read(tmp_path, duck, '1,a,\n2,"b,\n')
    assert [row[0] for row in read.rows] == [1]
    assert [(b.line, b.raw) for b in read.bad] == [(2, '2,"b,')]


def test_line_numbers_are_those_of_the_file_when_it_is_cut(tmp_path: Path, duck: DuckSession) -> None:
    lines = [f'{i},"a\nb",' if i % 7 else f"bad{i},," for i in range(100)]
    read = _read(tmp_path, duck, "\n".join(lines), Limits(rows=9))
    assert [row[0] for row in read.rows] == [i for i in range(100) if i % 7]
    expected = [(1 + sum(1 + line.count("\n") for line in lines[:i]), lines[i]) for i in range(0, 100, 7)]
    assert [(b.line, b.raw) for b in read.bad] == expected
    assert len(read.splits) == 12


def test_columns_that_nobody_needs_are_not_checked(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "a.csv").write_text("1,x,never\n")
    spec = source_spec(SCHEMA, path="a.csv", format="csv", columns=["a"])
    assert read_all(duck, spec, context(tmp_path)).rows == [(1,)]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ('a,5" pipe\nb,"c"\n', CsvShape()),
        ('a,"b"c\nd,e\n', CsvShape()),
        ("a\rb\r", CsvShape()),
        ('a\\",b\nc,d\n', CsvShape(escape="\\")),
        ('#it"s\na,b\n', CsvShape(comments=True)),
        ("a§b\nc\n", CsvShape(delimiter="§")),
    ],
)
def test_what_is_not_well_formed_is_not_cut(tmp_path: Path, text: str, shape: CsvShape) -> None:
    (tmp_path / "a").write_bytes(text.encode())
    with (tmp_path / "a").open("rb") as file:
        assert csv_range_end(shape, file, 0, len(text.encode()), 1, None) == (len(text.encode()), None)


@pytest.mark.parametrize("rows", [None, 1, 2])
def test_line_ends_of_several_kinds(tmp_path: Path, duck: DuckSession, rows: int | None) -> None:
    """DuckDB gives up on these; a line end inside quotes decides nothing and is kept."""
    text = '1,"a\nb",\r\n2,"c\r\nd",\r\n3,e,\n4,f,\r\n5,g,'
    read = _read(tmp_path, duck, text, Limits(rows=rows))
    assert [row[:2] for row in read.rows] == [(1, "a\nb"), (2, "c\r\nd"), (3, "e"), (4, "f"), (5, "g")]
    assert read.bad == []


@pytest.mark.parametrize("rows", [None, 2])
def test_a_stray_return_costs_its_own_record_only(
    tmp_path: Path, duck: DuckSession, rows: int | None
) -> None:
    text = '1,"a\nb",\n2,c\rd,\n3,"e\n",\n4,f,\n'
    read = _read(tmp_path, duck, text, Limits(rows=rows))
    assert [row[0] for row in read.rows] == [1, 3, 4]
    assert [(b.line, b.raw) for b in read.bad] == [(3, "2,c\rd,")]


@pytest.mark.parametrize("places", [(3,), (0,), (3, 4, 500), (998,), (999,)])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quote_that_nothing_closes_costs_its_own_line(
    tmp_path: Path, duck: DuckSession, places: tuple[int, ...], end: str
) -> None:
    """It would take all that follows with it."""
    lines = [f"{n},x{n}," for n in range(1000)]
    for place in places[-1:]:
        lines[place] = f'{place},"never closed,'
    for place in places[:-1]:
        lines[place] = f'{place},"closed" badly,'
    read = _read(tmp_path, duck, end.join(lines) + end)
    assert [row[0] for row in read.rows] == [n for n in range(1000) if n not in places]
    assert [(bad.line, bad.raw) for bad in read.bad] == [(place + 1, lines[place]) for place in places]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("wrong", "lines"),
    [
        ({3: '3,"never closed,', 900: '900,"nor this,'}, [3, 900]),
        ({3: '3,"never closed,', 900: '900,"all right",'}, [3]),
        ({3: '3,"never closed,', 4: '4,"all right",'}, [3]),
        (
            {3: '3,"a,', 400: '400,"b,', 401: '401,"c",', 700: '700,"d,', 900: '900,"e" f,'},
            [3, 400, 700, 900],
        ),
        ({0: '0,"never closed,', 999: '999,"nor this,'}, [0, 999]),
    ],
)
def test_quotes_far_apart_cost_their_own_lines(
    tmp_path: Path, duck: DuckSession, wrong: dict[int, str], lines: list[int], end: str
) -> None:
    """The second one would close the first."""
    texts = [f"{n},x{n}," for n in range(1000)]
    for place, text in wrong.items():
        texts[place] = text
    read = _read(tmp_path, duck, end.join(texts) + end)
    assert [row[0] for row in read.rows] == [n for n in range(1000) if n not in lines]
    assert [(bad.line, bad.raw) for bad in read.bad] == [(place + 1, texts[place]) for place in lines]


def test_lines_of_a_text_are_no_records(tmp_path: Path, duck: DuckSession) -> None:
    """What stands between quotes is read as records only if all of it can be."""
    texts = ["1,a,", '2,"he said,', "3,b,", "and left", '4,"c",', "5,d,"]
    read = _read(tmp_path, duck, "\n".join(texts) + "\n")
    assert [row[0] for row in read.rows] == [1, 5]
    assert [str(bad.raw).count("\n") for bad in read.bad] == [3]


def test_several_quotes_that_nothing_closes(tmp_path: Path, duck: DuckSession) -> None:
    """Two of them are one value for whoever reads the file, badly closed; what is behind is read."""
    lines = [f"{n},x{n}," for n in range(10)]
    lines[8] = '8,"a,'
    lines[9] = '9,"b,'
    read = _read(tmp_path, duck, "\n".join(lines))
    assert [row[0] for row in read.rows] == list(range(8))
    text = "\n".join(str(bad.raw) for bad in read.bad)
    assert '8,"a' in text
    assert '9,"b' in text
