"""What the dashboard answers is what the manifests say, within bounds, and to nobody else."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.state.committed import find_committed
from sqlstream.state.overview import overview
from sqlstream.state.query import StateDatabase
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoints
from sqlstream.ui import epochs as epoch_pages
from sqlstream.ui import letters as letter_pages
from sqlstream.ui import queries
from sqlstream.ui.app import STATIC
from sqlstream.ui.pipelines import Pipelines
from sqlstream.ui.server import TOKEN, served
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.ui.dashboards import SHOP, Client, dashboard, run, write_orders


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> CheckpointStore:
    """A pipeline that ran twice, and has a savepoint between."""
    folder = tmp_path_factory.mktemp("shop")
    write_orders(folder, "0.json", 200)
    store = run(folder, max_rows_per_epoch=100)
    Savepoints(store).create("before")
    write_orders(folder, "1.json", 100, first=200)
    return run(folder)


@pytest.fixture(scope="module")
def client(shop: CheckpointStore) -> Iterator[Client]:
    with dashboard(shop) as found:
        yield found


@pytest.fixture(scope="module")
def one(client: Client) -> str:
    (found,) = client.get("pipelines")["pipelines"]
    return f"pipelines/{found['id']}"


def test_a_pipeline_is_as_status_says(shop: CheckpointStore, client: Client, one: str) -> None:
    expected = json.loads(json.dumps(overview(shop, "shop").to_json()))
    found = client.get(one)
    assert {name: found[name] for name in expected if name != "state_dir"} == {
        name: value for name, value in expected.items() if name != "state_dir"
    }
    assert client.get("pipelines")["pipelines"] == [found]
    assert (found["state"], found["pipeline"]) == ("ended", "shop")


def test_the_graph_has_the_figures_of_the_manifest(shop: CheckpointStore, client: Client, one: str) -> None:
    graph = client.get(f"{one}/graph")
    journal = Journal(shop)
    manifest = journal.manifest(journal.epochs()[1][-1])
    nodes = {node["id"]: node for node in graph["nodes"]}
    states = {state.state_id: state for state in manifest.states}
    operators = [node for node in graph["nodes"] if node["kind"] == "operator"]
    assert len(operators) == len(states) == 2
    for node in operators:
        figures = node["state"]
        shards = [(int(s["rows"]), int(s["bytes"])) for s in find_state(shop, node["step"]).shards]
        assert (figures["rows"], figures["bytes"]) == (sum(r for r, _ in shards), sum(b for _, b in shards))
        assert [(s["rows"], s["bytes"]) for s in figures["shards"]] == shards
        assert node["rows"] is not None
        # the clause is where the GROUP BY is
        lines = client.get(f"{one}/source")["text"].split("\n")
        line = lines[node["clause"]["line"] - 1]
        assert line[node["clause"]["column"] - 1 :].startswith(("window_start", "customer")), line
    assert nodes["source:orders"]["rows_read"] == manifest.sources[0].rows
    assert nodes["source:orders"]["watermark"] == manifest.sources[0].applied
    assert nodes["sink:spent"]["epoch"] == manifest.epoch
    assert {edge["kind"] for edge in graph["edges"]} == {"local", "exchange"}


def find_state(store: CheckpointStore, step: str) -> Any:
    committed = find_committed(store)
    spec = next(s.operator for s in committed.plan.operators if s.name == step)
    return next(s for s in committed.manifest.states if s.state_id == spec.state.state_id)


def test_epochs_are_those_that_were_committed(shop: CheckpointStore, client: Client, one: str) -> None:
    journal = Journal(shop)
    found = client.get(f"{one}/epochs")
    listed = {epoch["epoch"]: epoch for epoch in found["epochs"]}
    assert list(listed) == sorted(listed, reverse=True)
    assert found["next"] is None
    for number in journal.epochs()[1]:
        manifest = journal.manifest(number)
        assert listed[number]["rows_read"] == sum(manifest.rows.values())
        assert listed[number]["state_rows"] == sum(s.rows for s in manifest.states)
        assert listed[number]["dead_letters"] == sum(manifest.dead_letters.values())
        detail = client.get(f"{one}/epochs/{number}")
        assert detail["read"] == dict(manifest.rows)
        assert detail["written"] == {n: sum(p.rows for p in parts) for n, parts in manifest.sinks.items()}
        assert detail["task_count"] >= len(detail["tasks"]) > 0
        assert detail["task_us"]["read"] > 0
    total = client.get(one)["rows_read"]["orders"]
    assert sum(epoch["rows_read"] for epoch in listed.values()) == total == 302
    series = client.get(f"{one}/series?epochs=100")
    assert series["epoch"] == sorted(listed)
    assert sum(series["rows_read"]) == total
    assert client.ask(f"api/{one}/epochs/99999")[0] == 404


def test_pages_of_epochs_are_bounded(client: Client, one: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_pages.page, "__defaults__", (2,))
    seen: list[int] = []
    before = ""
    while True:
        page = client.get(f"{one}/epochs{before}")
        assert len(page["epochs"]) <= 2
        seen += [epoch["epoch"] for epoch in page["epochs"]]
        if page["next"] is None:
            break
        before = f"?before={page['next']}"
    assert seen == list(range(seen[0], 0, -1))
    monkeypatch.setattr(epoch_pages.series, "__defaults__", (2,))
    series = client.get(f"{one}/series?epochs=100")
    assert len(series["epoch"]) == 2
    assert sum(series["rows_read"]) == 302


def test_state_is_what_a_query_says(shop: CheckpointStore, client: Client, one: str) -> None:
    names = {relation["name"]: relation for relation in client.get(f"{one}/relations")}
    assert names["group_aggregate_1"]["node"] == "op:group_aggregate_1"
    sql = "SELECT customer, spent FROM group_aggregate_1 ORDER BY 1"
    found = client.post(f"{one}/query", {"sql": sql})
    with StateDatabase(find_committed(shop)) as database:
        assert [tuple(row) for row in found["rows"]] == list(database.query(sql).rows)
    assert found["rows"]
    assert found["columns"] == ["customer", "spent"]


def test_a_query_is_bounded(client: Client, one: str) -> None:
    found = client.post(f"{one}/query", {"sql": "SELECT * FROM range(5000)"})
    assert (len(found["rows"]), found["more"]) == (1000, True)
    status, answer, _ = client.ask(f"api/{one}/query", {"sql": "DROP TABLE x"})
    assert (status, answer["diagnostics"][0]["code"]) == (422, "STA022")
    status, answer, _ = client.ask(f"api/{one}/query", {"sql": "SELECT * FROM group_agregate_1"})
    assert (status, answer["diagnostics"][0]["help"]) == (422, "did you mean `group_aggregate_1`?")


def test_what_a_query_may_use_is_bounded(shop: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs beside the pipeline, perhaps in its process."""
    from sqlstream.ui.pipelines import Pipelines
    from sqlstream_planner.diagnostics import DiagnosticError

    (pipeline,) = Pipelines(lambda: [("shop", shop)]).all()
    monkeypatch.setattr(queries, "_MOST_MEMORY", 64 << 20)
    running = queries.Queries()
    # What DuckDB counts, and what only the system does; the next query is answered by another process, if need be.
    for sql in ("SELECT list(range) FROM range(50000000)", "SELECT length(repeat('x', 2000000000))"):
        with pytest.raises(DiagnosticError) as caught:
            running.run(pipeline, sql)
        (told,) = caught.value.diagnostics
        assert (told.code, told.message) == ("STA023", "the query needs more than 32 MiB of memory")
    found = running.run(pipeline, "SELECT repeat('x', 1000000) AS x, customer FROM group_aggregate_1 LIMIT 1")
    assert (found["columns"], len(found["rows"][0][0])) == (["x", "customer"], 2000)
    running.close()


@pytest.mark.parametrize(
    "body", ['{"sql": "\\ud800"}', "[" * 200_000, "[]", "{", ""], ids=["half", "deep", "list", "cut", "none"]
)
@pytest.mark.parametrize("path", ["query", "plan"])
def test_what_is_no_request_is_refused(client: Client, one: str, path: str, body: str) -> None:
    status, answer, _ = client.ask(f"api/{one}/{path}", body.encode())
    assert (status, answer) == (400, {"error": "no JSON object"})


def test_a_query_that_takes_long_is_ended_and_keeps_nobody_waiting(
    shop: CheckpointStore, one: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries.Queries.__init__, "__defaults__", (3.0,))
    answered: list[str] = []
    with dashboard(shop) as client:

        def ask() -> None:
            sql = "SELECT COUNT(*) FROM range(1000000000000) AS a(x) WHERE hash(x) = 1"
            _, answer, _ = client.ask(f"api/{one}/query", {"sql": sql})
            answered.append(answer["diagnostics"][0]["code"])

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.2)
        client.get(f"{one}/graph")
        answered.append("a page")
        thread.join()
    assert answered == ["a page", "UIS003"]


def test_a_process_of_queries_that_ended_is_followed_by_another(shop: CheckpointStore) -> None:
    from sqlstream.ui.pipelines import Pipelines

    (pipeline,) = Pipelines(lambda: [("shop", shop)]).all()
    running = queries.Queries()
    for signal_number in (signal.SIGKILL, None):
        assert running.run(pipeline, "SELECT 1 AS one")["rows"] == [["1"]]
        (process,) = running._idle
        if signal_number is not None:
            os.kill(process._process.pid or 0, signal_number)
            process._process.join()
    running.close()
    assert not process.lives


def test_an_edit_is_planned_and_nothing_is_changed(shop: CheckpointStore, client: Client, one: str) -> None:
    def there() -> dict[str, bytes]:
        folder = Path(shop.path(""))
        return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    before = there()
    same = client.post(f"{one}/plan", {"text": SHOP})
    assert (same["ok"], same["plan"]["changes"]) == (True, False)
    assert {node["verdict"] for node in same["nodes"] if node["kind"] == "operator"} == {"KEEP"}
    more = SHOP.replace("SUM(amount) AS spent", "SUM(amount) AS spent, MAX(amount) AS most")
    edited = client.post(f"{one}/plan", {"text": more})
    verdicts = {node["id"]: node["verdict"] for node in edited["nodes"] if node["verdict"]}
    assert verdicts["op:group_aggregate_1"] == "BACKFILL"
    assert edited["plan"]["counts"]["BACKFILL"] >= 1
    wrong = client.post(f"{one}/plan", {"text": SHOP.replace("customer, SUM", "custmer, SUM")})
    assert wrong["ok"] is False
    (diagnostic, *_) = wrong["diagnostics"]
    assert diagnostic["span"]["line"] == 10
    assert there() == before


def test_a_template_in_a_page_sees_nothing(client: Client, one: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "hunter2")
    for text in ("{{ env_var('SECRET_OF_THE_MACHINE') }}", "{% include '/etc/passwd' %}"):
        found = client.post(f"{one}/plan", {"text": f"SELECT '{text}';"})
        assert found["ok"] is False
        assert "hunter2" not in json.dumps(found)
        assert "root:" not in json.dumps(found)


def test_dead_letters(client: Client, one: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = client.get(f"{one}/letters")
    assert found["total"] == client.get(one)["dead_letters"] == len(found["letters"]) == 2
    assert [row["epoch"] for row in found["letters"]] == sorted(
        (r["epoch"] for r in found["letters"]), reverse=True
    )
    assert {row["place"].rpartition("/")[2] for row in found["letters"]} == {
        "0.json, line 201",
        "1.json, line 101",
    }
    assert all('"many"' in row["row"] for row in found["letters"])
    (reason,) = found["reasons"]
    assert (reason["source"], reason["kind"], reason["rows"]) == ("orders", "malformed", 2)
    monkeypatch.setattr(letter_pages, "PAGE", 1)
    pages = [client.get(f"{one}/letters?offset={n}") for n in range(3)]
    assert [(page["more"], len(page["letters"])) for page in pages] == [(True, 1), (False, 1), (False, 0)]
    assert [row for page in pages for row in page["letters"]] == found["letters"]


def test_savepoints(client: Client, one: str) -> None:
    found = client.get(f"{one}/savepoints")
    assert [s["name"] for s in found["savepoints"]] == ["before"]
    assert found["savepoints"][0]["epoch"] < client.get(one)["epoch"]


def test_no_password_is_shown(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_orders(tmp_path, "0.json", 5)
    url = "'url' = 'postgresql://u:hunter2@localhost:1/x'"
    sink = f"CREATE TABLE x WITH ('connector' = 'postgres', {url}, 'table-name' = 't')"
    sql = SHOP + f"{sink} AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;"
    store = run(tmp_path)
    with dashboard(store) as client:
        (found,) = client.get("pipelines")["pipelines"]
        answer = client.post(f"pipelines/{found['id']}/plan", {"text": sql})
        assert "hunter2" not in json.dumps(answer)


def test_only_the_machine_itself_is_answered(client: Client) -> None:
    assert client.ask("api/pipelines", headers={"Host": "evil.example"})[0] == 421
    assert client.ask("api/pipelines", headers={"Host": "localhost:1"})[0] == 200
    request = urllib.request.Request(f"{client.url}api/pipelines/x/plan", b"text=x")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 415
    delete = urllib.request.Request(f"{client.url}api/pipelines", method="DELETE")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(delete)
    assert caught.value.code == 405


def test_every_answer_has_the_policy(client: Client) -> None:
    for path in ("", "api/pipelines", "static/main.js", "api/nothing"):
        headers = client.ask(path)[2]
        assert "script-src 'self'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
    index = client.ask("")[1]
    assert not re.findall(r"https?://", index), "nothing is loaded from elsewhere"


def test_elsewhere_a_token_is_needed(shop: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "open sesame")
    with served(lambda: [("shop", shop)], "127.0.0.1", 0) as url:
        assert url.endswith("/#token=open%20sesame")
        client = Client(url.partition("#")[0])
        assert client.ask("api/pipelines")[0] == 401
        assert client.ask("api/events")[0] == 401
        assert client.ask("")[0] == 200, "the page that asks for the token"
        assert client.ask("api/pipelines", headers={"Authorization": "Bearer nothing"})[0] == 401
        assert client.ask("api/pipelines", headers={"Authorization": "Bearer open sesame"})[0] == 200
        assert client.ask("api/login", {"token": "x"})[0] == 401
        status, _, headers = client.ask("api/login", {"token": "open sesame"})
        cookie = headers["set-cookie"]
        assert status == 200
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.ask("api/pipelines", headers={"Cookie": cookie.partition(";")[0]})[0] == 200


def test_without_a_name_of_this_machine_there_is_a_token(
    shop: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    with served(lambda: [("shop", shop)], "0.0.0.0", 0) as url:
        assert re.fullmatch(r"http://0\.0\.0\.0:\d+/#token=\S{20,}", url)


def test_a_damaged_state_directory_is_shown_as_that(tmp_path: Path) -> None:
    write_orders(tmp_path, "0.json", 5)
    store = run(tmp_path)
    with dashboard(store) as client:
        (found,) = client.get("pipelines")["pipelines"]
        for file in (tmp_path / "state" / "epochs").glob("*.manifest.json"):
            file.write_text(file.read_text()[:-20])
        now = client.get(f"pipelines/{found['id']}")
        assert now["state"] == "damaged"
        assert (now["dead_letters"], now["state_rows"], now["state_bytes"]) == (None, None, None), "not 0"
        status, answer, _ = client.ask(f"api/pipelines/{found['id']}/graph")
        assert (status, answer["diagnostics"][0]["code"]) == (422, "STA001")


def test_a_run_that_failed_in_its_first_epoch_has_its_plan_and_the_reason(tmp_path: Path) -> None:
    write_orders(tmp_path, "0.json", 20)
    sql = SHOP.replace("SUM(amount) AS spent", "MAX(CAST(customer AS INT)) AS spent")
    with pytest.raises(DiagnosticError):
        run(tmp_path, sql)
    with dashboard(CheckpointStore(tmp_path / "state")) as client:
        (found,) = client.get("pipelines")["pipelines"]
        graph, source = (client.get(f"pipelines/{found['id']}/{what}") for what in ("graph", "source"))
    (problem,) = found["problems"]
    assert (found["state"], found["epoch"], problem["code"]) == ("failed", None, "DAT001")
    assert problem["span"]["line"] == sql[: sql.index("CAST(customer")].count("\n") + 1
    assert any("0.json" in note for note in problem["notes"])
    assert (graph["epoch"], graph["parallelism"]) == (None, None)
    assert {n["title"] for n in graph["nodes"] if n["kind"] == "sink"} == {"per_hour", "spent"}
    assert all(n["clause"] for n in graph["nodes"] if n["kind"] == "operator")
    assert "CAST(customer AS INT)" in source["text"]


def test_hundreds_of_pipelines_of_one_name_are_all_there(tmp_path: Path) -> None:
    """Also two whose short digests are the same: each has an address of its own."""
    stores = [CheckpointStore(str(tmp_path / f"s{n}" / "orders")) for n in range(1000)]
    pipelines = Pipelines(lambda: [("orders", store) for store in stores])
    found = pipelines.all()
    assert len({one.id for one in found}) == 1000
    assert {len(one.id) for one in found} == {11, 23}, "there is no pair among them any more: take more"
    assert all((pipelines.find(one.id) or found[0]).store.uri == one.store.uri for one in found)
    with dashboard(*stores[:250]) as client:
        pages = [client.get(f"pipelines?offset={at}") for at in (0, 200)]
    assert [page["total"] for page in pages] == [250, 250]
    assert len({one["id"] for page in pages for one in page["pipelines"]}) == 250


def test_many_pipelines_are_looked_at_more_seldom(tmp_path: Path) -> None:
    """So that hundreds do not keep a processor busy: what takes 0.2 s is good for 4 s."""
    now = [0.0]
    looked: list[float] = []

    def places() -> list[tuple[str, CheckpointStore]]:
        looked.append(now[0])
        now[0] += 0.2
        return [("orders", CheckpointStore(str(tmp_path)))]

    pipelines = Pipelines(places, lambda: now[0])
    for at in (0.0, 1.5, 4.1, 4.3, 5.0, 9.0):
        now[0] = max(now[0], at)
        pipelines.overviews()
    assert looked == [0.0, 4.3, 9.0]


def test_an_empty_place(tmp_path: Path) -> None:
    with dashboard(CheckpointStore(str(tmp_path / "state"))) as client:
        (found,) = client.get("pipelines")["pipelines"]
        assert found["state"] == "empty"
        for path in ("graph", "epochs", "series", "source", "relations", "letters", "savepoints"):
            client.get(f"pipelines/{found['id']}/{path}")
        assert client.ask("api/pipelines/none/graph")[0] == 422


def test_vendored_files_are_those_of_their_packages() -> None:
    """As the npm packages have them; see docs/adr/0046-dashboard.md."""
    expected = {
        "dagre.min.js": "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578",  # @dagrejs/dagre 3.1.3
        "uPlot.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",  # uplot 1.6.32
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }
    folder = STATIC / "vendor"
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in expected} == expected
    assert {f.name for f in folder.iterdir()} - expected.keys() == {"dagre.LICENSE", "uPlot.LICENSE"}
