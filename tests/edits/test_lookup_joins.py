"""Edits above a lookup join: what is kept goes on; what rows have found once is never looked up again as if it were that."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.consent import ConsentNeededError
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.properties.referee import assert_same
from tests.properties.test_lookup_joins import Shop, folded, wanted

FOUND = "l LEFT JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.id"
FORMER = f"SELECT name, COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS s FROM {FOUND} GROUP BY name"
CHANGES = "'connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'changelog-json'"


def shop(folder: Path, *queries: str) -> Shop:
    return Shop(folder, "json", queries, sink=CHANGES)


def planned(made: Shop, query: str, **options: str) -> Planned:
    made.queries = [query]
    made.options = options.get("options", "")
    (made.folder / "p.sql").write_text(made.sql())
    return plan_file(made.folder / "p.sql")


@pytest.mark.parametrize(
    ("query", "options", "verdict"),
    [
        (FORMER.replace("d.id", "q.id").replace("l.p ON", "PROCTIME() AS q ON"), "", "KEEP"),
        (FORMER, ", 'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 d'", "KEEP"),
        (f"{FORMER} HAVING name <> 'x'", "", "KEEP"),
        (FORMER.replace(" GROUP", " WHERE name <> 'x' GROUP"), "", "ADAPT"),
        (FORMER.replace("SUM(v)", "MAX(v)"), "", "BACKFILL"),
        (FORMER.replace("LEFT JOIN", "JOIN"), "", "BACKFILL"),
        (FORMER.replace("d.id", "d.factor"), "", "BACKFILL"),
        (FORMER.replace("FOR SYSTEM_TIME AS OF l.p ", ""), "", "BACKFILL"),
        (FORMER, ", 'source.path.regex-pattern' = '.*rows.*'", "BACKFILL"),
    ],
)
def test_what_becomes_of_the_state(tmp_path: Path, query: str, options: str, verdict: str) -> None:
    made = shop(tmp_path, FORMER)
    old, new = planned(made, FORMER), planned(made, query, options=options)
    found = [edit.verdict for edit in decide(old.physical, new.physical, new.state_nodes)]
    assert Verdict[verdict] in found
    assert set(found) <= {Verdict[verdict], Verdict.DROP}


def test_what_was_not_kept_begins_empty_by_consent(tmp_path: Path) -> None:
    made = shop(tmp_path, FORMER)
    made.run(max_epochs=2, sql="former")
    made.queries = [FORMER.replace("SUM(v)", "MAX(v)")]
    with pytest.raises(ConsentNeededError) as caught:
        made.run(sql="edited")
    [consent] = caught.value.consents
    assert (consent.accept, consent.why.code) == ("fresh:group_aggregate_1", "DAT008")
    assert "found in the table `d`" in consent.why.message
    made.run(sql="edited", accept=["fresh:group_aggregate_1"])
    assert len({version for _, version in made.met}) > 2
    # The counts are those of all rows, as they were found; the greatest value is of the rows since the edit.
    found = wanted("SELECT name, v FROM l LEFT JOIN d ON k = id", made.met)
    since = found[len(wanted("SELECT name, v FROM l LEFT JOIN d ON k = id", made.met[:2])) :]
    latest = {name: max(v for other, v in since if other == name) for name, _ in since}
    names = [name for name, _ in found]
    assert latest.keys() != set(names)
    assert_same(
        folded(tmp_path / "out_0"), [(name, names.count(name), latest.get(name)) for name in set(names)]
    )


def test_a_new_table_above_a_lookup_begins_now(tmp_path: Path) -> None:
    """Also where an operator below the join has all of its rows: what they found is nobody's."""
    distinct = "SELECT q.k, name FROM (SELECT DISTINCT k FROM l) AS q JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON q.k = d.id"
    rows = f"SELECT v, name FROM {FOUND}"
    made = shop(tmp_path, distinct)
    made.run(max_epochs=3, sql="former")
    given = folded(tmp_path / "out_0")
    assert given
    made.queries = [distinct, distinct.replace("q.k, name", "name, q.k"), rows]
    with pytest.raises(ConsentNeededError) as caught:
        made.run(sql="edited")
    assert {consent.accept for consent in caught.value.consents} == {"fresh:out_1", "fresh:out_2"}
    began = len(made.met)
    made.run(sql="edited", accept=["fresh:out_1", "fresh:out_2"])
    assert folded(tmp_path / "out_0")[: len(given)] == given
    since = folded(tmp_path / "out_0")[len(given) :]
    assert_same(folded(tmp_path / "out_1"), [(name, k) for k, name in since])
    everything = wanted("SELECT v, name FROM l LEFT JOIN d ON k = id", made.met)
    before = wanted("SELECT v, name FROM l LEFT JOIN d ON k = id", made.met[:began])
    assert_same(folded(tmp_path / "out_2"), everything[len(before) :])
