"""docs/running/deploy.md and docs/running/grafana.json: units, manifests and panels name what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import click
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from sqlstream.cli.main import cli
from sqlstream.metrics.exporter import Exporter

DOCS = Path(__file__).parents[2] / "docs/running"
PAGE = (DOCS / "deploy.md").read_text(encoding="utf-8")
BOARD = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
(UNIT,) = re.findall(r"^```ini\n(.*?)^```", PAGE, re.M | re.S)
(MANIFEST,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
#: Of Prometheus' functions, and of what is written after a metric.
_METRIC = re.compile(r"sqlstream_\w+")


def options_of(command: str) -> set[str]:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    return {option for parameter in found.params for option in parameter.opts}


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    unit = UNIT.replace("/srv/venv/bin/sqlstream", "/bin/true").replace("/srv/shop", str(tmp_path))
    file = tmp_path / "sqlstream@orders.service"
    file.write_text(unit.replace("User=sqlstream", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60
    )
    own = [line for line in done.stderr.splitlines() if file.name in line]
    assert (done.returncode, own) == (0, []), done.stderr


def test_the_commands_have_the_options_that_are_given() -> None:
    given = re.findall(r"(--[a-z-]+)", UNIT) + re.findall(r"- (--[a-z-]+)", MANIFEST)
    assert len(given) == 4
    assert set(given) <= options_of("run")


def test_the_manifest_is_one() -> None:
    (found,) = yaml.safe_load_all(MANIFEST)
    pod = found["spec"]["template"]
    assert found["spec"]["strategy"] == {"type": "Recreate"}
    assert found["spec"]["replicas"] == 1
    assert pod["metadata"]["labels"].items() >= found["spec"]["selector"]["matchLabels"].items()
    (container,) = pod["spec"]["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}
    port = str(container["ports"][0]["containerPort"])
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == port
    assert any(argument.endswith(f":{port}") for argument in container["args"])


def test_panels_show_metrics_and_labels_that_there_are() -> None:
    exporter = Exporter("p")
    labels: dict[str, set[str]] = {}
    for metric in exporter.registry._collector_to_names:  # by the names of its samples
        for name in exporter.registry._collector_to_names[metric]:
            labels[name] = {*metric._labelnames}  # type: ignore[attr-defined]
    shown: set[str] = set()
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            (name,) = set(_METRIC.findall(target["expr"]))
            assert name in labels, panel["title"]
            shown.add(name)
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            there = set(re.split(r", ", grouped[0])) if grouped else labels[name]
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= there, panel["title"]
    families = {name.removesuffix("_bucket") for name in shown}
    documented = set(re.findall(r"^\| `(sqlstream_\w+)`", (DOCS / "metrics.md").read_text(), re.M))
    assert documented - families == {"sqlstream_last_epoch"}, (
        "every metric that says something is on the board"
    )


def test_panels_have_a_place_each() -> None:
    boxes = [panel["gridPos"] for panel in BOARD["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    for one, other in combinations(boxes, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD["panels"]))) - {"__rate_interval"}
    assert used <= variables


def test_the_board_is_one_by_grafanas_schema() -> None:
    """Grafana's own types read it and write it again: what they don't know, or know otherwise, would be missing."""
    register_default_plugins()
    written = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert list(lost(BOARD, written)) == []
    assert list(lost({"panels": [{"kind": 1}]}, {"panels": [{}]})) == ["/panels/0/kind"]


def lost(one: object, other: object, place: str = "") -> Iterator[str]:
    """The places of a document whose value another has not."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key, value in one.items():
            yield from lost(value, other.get(key), f"{place}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (value, there) in enumerate(zip(one, other, strict=True)):
            yield from lost(value, there, f"{place}/{number}")
    elif one != other:
        yield place
