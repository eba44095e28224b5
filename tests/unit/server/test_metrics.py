"""`/metrics` has what the storages have, for callers that may see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from framework.foundation.files.local_storage import LocalStorage
from framework.operations.alerting.explaining import first_way
from framework.operations.metrics.collector import PipelineSample, Sample, ServerSample, SluiceCollector
from framework.operations.metrics.event_counts import PipelineCounts
from framework.server.access.roles import Role
from framework.server.serving import Extras
from framework.server.signals.routes import Signals
from framework.server.web.routes import Route
from tests.support.served_pipelines import eventually, served
from tests.support.server_world import World, record_shop, record_update, world_of

SERVER = ServerSample(version="", pipelines=0, engines_running=0, engines_queued=0, engines_most=0, streams=0)
Found = dict[tuple[str, ...], float]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server over the recorded pipeline `shop`, and an empty one."""
    record_shop(tmp_path / "shop")
    served(tmp_path / "empty", "empty")
    signals = Signals(first_way)
    with world_of(tmp_path, extras=Extras(parts=signals.parts, routes=signals.routes)) as made:
        yield made


def scraped(world: World, **headers: str) -> Found:
    """The samples without buckets, as Prometheus' own parser reads the answer."""
    response = world.ask("GET", "/metrics", role=None if headers else Role.VIEW, headers=headers or None)
    assert (200, "text/plain; version=0.0.4; charset=utf-8") == (response.status_code, response.headers["content-type"])
    return {
        (each.name, *sorted(each.labels.values())): each.value
        for family in text_string_to_metric_families(response.text)
        for each in family.samples
        if "le" not in each.labels
    }


def test_the_answer_has_the_updates_of_the_log_and_the_server(world: World) -> None:
    """Attempts count as updates; a pipeline that never ran has a state and no updates."""
    found = scraped(world)
    assert 1.0 == found["sluice_update_total", "COMPLETED", "USER_ACTION", "shop"]
    assert 1.0 == found["sluice_update_total", "FAILED", "USER_ACTION", "shop"]
    assert 1.0 == found["sluice_update_total", "COMPLETED", "RETRY_ON_FAILURE", "shop"]
    assert 5.0 == found["sluice_flow_rows_total", "main.default.orders", "output", "shop"]
    assert 1.0 == found["sluice_pipeline_state", "IDLE", "empty"]
    assert (2.0, 0.0) == (found[("sluice_server_pipelines",)], found[("sluice_server_engines_running",)])
    assert [] == [key for key in found if key[0] == "sluice_update_total" and "empty" in key]


def test_new_events_are_counted_once(world: World) -> None:
    """Between two requests an update ends; a third request changes nothing."""
    key = ("sluice_update_total", "COMPLETED", "USER_ACTION", "shop")
    assert 1.0 == scraped(world)[key]
    storage = world.entry().storage
    assert isinstance(storage, LocalStorage)
    record_update(storage, "shop", "40000000-0000-4000-8000-000000000000", hours=3, rows=7)
    eventually(lambda: scraped(world)[key] == 2.0)
    assert 12.0 == scraped(world)["sluice_flow_rows_total", "main.default.orders", "output", "shop"]


def test_a_token_for_one_pipeline_sees_only_it(world: World) -> None:
    """Neither other pipelines nor the server's own numbers; without a token there is no answer."""
    _, token = world.server.tokens.create("prometheus", Role.VIEW, pipelines=("empty",))
    found = scraped(world, Authorization=f"Bearer {token}")
    assert {"empty"} == {label for key in found for label in key[1:] if label in {"empty", "shop"}}
    assert [] == [key for key in found if key[0].startswith("sluice_server")]
    assert 401 == world.ask("GET", "/metrics", role=None).status_code
    assert 400 == world.ask("GET", "/metrics?name=x").status_code


def test_the_rules_and_the_dashboard_are_served(world: World) -> None:
    """As files that Prometheus and Grafana load."""
    rules = world.ask("GET", "/metrics/alerts.yml", role=Role.VIEW)
    assert "sluice" == yaml.safe_load(rules.text)["groups"][0]["name"]
    assert "Sluice" == world.ask("GET", "/metrics/grafana.json", role=Role.VIEW).json()["title"]


@pytest.mark.parametrize("route", Signals(first_way).routes, ids=lambda route: f"{route.method} {route.path}")
def test_nobody_is_answered_without_a_token(world: World, route: Route) -> None:
    """Each route of schedules and metrics needs a role."""
    path = route.full_path.format(schedule="x", pipeline="x")
    body: dict[str, str] | None = {} if route.method == "POST" else None
    assert 401 == world.ask(route.method, path, body, role=None).status_code
    assert isinstance(route.role, Role)


def test_the_page_lists_every_metric() -> None:
    """docs/monitoring.md has each family with its labels, and a configuration that is YAML."""
    page = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(sluice_\w+)` \| ([\w, ]*?) ?\|", page, re.MULTILINE))
    sample = Sample(pipelines=[PipelineSample(name="shop", state="IDLE", counts=PipelineCounts("shop"))], server=SERVER)
    families = SluiceCollector(lambda: sample).collect()
    named = {each.name + ("_total" if each.type == "counter" else ""): each for each in families}
    labels = {name: ", ".join(getattr(each, "_labelnames")) for name, each in named.items()}  # noqa: B009 - no public name
    assert labels == rows
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert ["sluice"] == [each["job_name"] for each in yaml.safe_load(block)["scrape_configs"]]
