"""docs/connectors/: the examples are planned as they stand, and every option is described with its type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.connectors.filesystem.formats import FORMATS
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.catalog.source_options import SOURCE_OPTIONS
from sqlstream_planner.diagnostics import DiagnosticError

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "connectors.md", *sorted((DOCS / "connectors").glob("*.md"))]
#: Pages that describe a connector beside its own.
MORE = {"filesystem": ("formats", "changelogs")}
QUERIES = """
EXECUTE STATEMENT SET BEGIN
INSERT INTO totals
SELECT CAST(window_start AS DATE), auction, CAST(SUM(price) AS DECIMAL(38, 2))
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end, auction;
INSERT INTO shown
SELECT bid.auction, COUNT(*)
FROM TABLE(TUMBLE(TABLE nexmark, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
WHERE event_type = 2
GROUP BY window_start, window_end, bid.auction;
INSERT INTO lake SELECT auction, price, CAST(ts AS DATE) FROM bid;
INSERT INTO bids_lake SELECT auction, price, CAST(ts AS DATE) FROM bid;
INSERT INTO standing SELECT auction, COUNT(*), MAX(price) FROM bid GROUP BY auction;
INSERT INTO hole SELECT id, customer FROM generated UNION ALL SELECT auction, CAST(price AS INT) FROM sold
UNION ALL SELECT id, CAST(price AS INT) FROM orders_lake;
INSERT INTO busiest SELECT auction, COUNT(*) FROM bid GROUP BY auction;
INSERT INTO hole SELECT id, CAST(balance AS INT) FROM accounts;
INSERT INTO hole SELECT account, 1 FROM transfers UNION ALL SELECT 1, 2 FROM airports;
INSERT INTO hole SELECT region_id, 1 FROM regions UNION ALL SELECT item, 2 FROM shop_prices
UNION ALL SELECT CAST(seconds AS INT), 3 FROM visits;
INSERT INTO carrier_delays SELECT CAST(id AS STRING), MAX(customer) FROM orders GROUP BY CAST(id AS STRING);
END;
"""


def test_the_examples_can_be_planned(tmp_path: Path) -> None:
    blocks = [
        block for page in PAGES for block in re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    path = tmp_path / "p.sql"
    path.write_text("\n".join([*blocks, QUERIES]))
    planned = plan_file(path)
    assert {spec.connector for spec in planned.physical.sources} == {
        "filesystem",
        "nexmark",
        "datagen",
        "delta",
        "postgres",
        "postgres-cdc",
        "iceberg",
        "spark",
        "jdbc",
    }
    assert {spec.connector for spec in planned.physical.sinks} == {
        "filesystem",
        "print",
        "blackhole",
        "duckdb",
        "postgres",
        "delta",
        "iceberg",
    }


#: Options that the text beside the tables speaks of, and how it writes their names.
IN_PROSE = {
    "sink.rolling-policy.": "the other `sink.rolling-policy.*`",
    "sink.partition-commit.": "`sink.partition-commit.*`",
    "partition.time-extractor.": "`partition.time-extractor.*`",
    "auto-compaction": "`auto-compaction`",
    "csv.array-element-delimiter": "`csv.array-element-delimiter`",
    "parquet.utc-timezone": "`parquet.utc-timezone` = `false`",
    "sink.parallelism": "`sink.parallelism`",
    "lookup.": "[looked up](lookup.md), with the options `lookup.*`",
    "avro.": "those of `avro` in its [own page](avro.md#files)",
}


def _page(name: str) -> str:
    """What the pages of a connector say."""
    return "".join((DOCS / f"connectors/{n}.md").read_text() for n in (name, *MORE.get(name, ())))


def _rows(text: str) -> list[tuple[list[str], str, str]]:
    """The rows of the tables of options: the names, with what `and so for` leaves out, the type and the default."""
    found = []
    heading = r"\| option \| type \| default \| what it does \|\n\|[-|]+\n((?:\|.*\n)+)"
    for table in re.findall(heading, text):
        for row in table.splitlines():
            names, kind, default = (re.split(r" ?\| ?", row.lstrip("| ")))[:3]
            found.append((re.findall(r"`([^`]+)`", names), kind, default))
    return found


@pytest.mark.parametrize("descriptor", [*REGISTERED.descriptors], ids=lambda d: d.name)
def test_every_option_is_described_and_no_other(descriptor: ConnectorDescriptor) -> None:
    section = _page(descriptor.name)
    known = {o.name.replace("fields.#", "fields.<c>"): o for o in descriptor.all_options}
    described = set()
    for names, kind, default in _rows(section):
        for name in names:
            whole = f"fields.<c>{name}" if name.startswith(".") else name
            assert whole in known, f"there is no option {whole}"
            described.add(whole)
            if whole.startswith("debezium-json."):
                described |= {whole.replace("debezium-json", f.name) for f in FORMATS if f.changelog}
            option = known[whole]
            assert kind == option.kind.value, f"the type of {whole}"
            if option.required:
                assert default == "required"
            elif option.default is not None and len(names) == 1:
                assert f"`{option.default}`" in default, f"the default of {whole}"
    for name in known.keys() - described:
        if descriptor.name.endswith("kafka") and descriptor.format(_format_of(name)) is not None:
            prefix = f"`{name.split('.')[0]}.` before them" if name.startswith(("key.", "value.")) else ""
            assert "[the format's](formats.md)" in section
            assert prefix in section
            continue
        prose = next((text for prefix, text in IN_PROSE.items() if name.startswith(prefix)), None)
        assert prose is not None, f"{name} is not described"
        assert prose in " ".join(section.split())


def _format_of(option: str) -> str:
    return option.removeprefix("key.").removeprefix("value.").split(".")[0]


def test_every_option_of_a_table_that_is_looked_up_is_described_once() -> None:
    listed = [name for names, _, _ in _rows(_page("lookup")) for name in names]
    assert sorted(listed) == sorted(option.name for option in LOOKUP_OPTIONS)


def test_every_option_of_a_table_that_is_read_is_described() -> None:
    rows = _rows(PAGES[0].read_text())
    assert sorted(name for names, _, _ in rows for name in names) == sorted(o.name for o in SOURCE_OPTIONS)


@pytest.mark.parametrize("format_", [f.name for f in FORMATS if f.changelog])
def test_the_options_of_changelog_formats_are_known_where_they_belong(format_: str) -> None:
    """And documented, by their own name or by the first format's that has them all."""
    own = [option for f in FORMATS if f.name == format_ for option in f.options]
    text = _page("filesystem")
    for option in own:
        first = option.name.replace(format_, "debezium-json")
        assert f"`{option.name}`" in text or (f"`{first}`" in text and "for the other three" in text)
    values = {
        o.name: o.default or "x"
        for o in own
        if Role.SOURCE in o.roles or o.name.endswith("ignore-null-fields")
    }
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in values.items())
    table = f"(a INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = '{format_}', {listed});"
    planned = plan_file(f"CREATE TABLE t {table}\nSELECT a FROM t;\n", file="t.sql")
    assert planned.physical.sources[0].options == {"path": "x", "format": format_, **values}


@pytest.mark.parametrize("format_", [f.name for f in FORMATS if f.changelog and Role.SINK not in f.roles])
def test_some_changelog_formats_are_only_read(format_: str) -> None:
    sql = f"""
    CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
    CREATE TABLE s (a INT) WITH ('connector' = 'filesystem', 'path' = 'y', 'format' = '{format_}');
    INSERT INTO s SELECT a FROM t;
    """
    with pytest.raises(DiagnosticError, match="only reads"):
        plan_file(sql, file="t.sql")
