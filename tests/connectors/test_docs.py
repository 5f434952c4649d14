"""The examples in docs/connectors.md are planned as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.connectors.filesystem.formats import FORMATS
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.diagnostics import DiagnosticError

DOCS = Path(__file__).parents[2] / "docs/connectors.md"
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
INSERT INTO hole SELECT id, customer FROM orders;
INSERT INTO busiest SELECT auction, COUNT(*) FROM bid GROUP BY auction;
INSERT INTO carrier_delays SELECT CAST(id AS STRING), MAX(customer) FROM orders GROUP BY CAST(id AS STRING);
END;
"""


def test_the_examples_can_be_planned(tmp_path: Path) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)
    hole = "CREATE TABLE hole (id BIGINT, customer INT) WITH ('connector' = 'blackhole');"
    path = tmp_path / "p.sql"
    path.write_text("\n".join([*blocks, hole, QUERIES]))
    planned = plan_file(path)
    assert {spec.connector for spec in planned.physical.sources} == {"filesystem", "nexmark", "datagen"}
    assert {spec.connector for spec in planned.physical.sinks} == {
        "filesystem",
        "print",
        "blackhole",
        "duckdb",
        "postgres",
    }


def test_every_option_of_the_tables_that_are_kept_up_to_date_is_described() -> None:
    text = DOCS.read_text()
    for definition in REGISTERED.descriptors:
        if not definition.sink.keyed:
            continue
        section = text.split(f"\n## {definition.name}\n")[1].split("\n## ")[0]
        described = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
        assert described == {option.name for option in definition.options}


@pytest.mark.parametrize("format_", [f.name for f in FORMATS if f.changelog])
def test_the_options_of_changelog_formats_are_known_where_they_belong(format_: str) -> None:
    """And documented, by their own name or by the first format's that has them all."""
    own = [option for f in FORMATS if f.name == format_ for option in f.options]
    text = DOCS.read_text()
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
