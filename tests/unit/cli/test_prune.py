"""`sluice prune`: tables without code are dropped only after confirmation."""

from __future__ import annotations

import json

from framework.run.tables.left_tables import LeftTable
from tests.support.fake_pipeline import FakePipeline, name
from tests.unit.cli.conftest import Sluice

OLD = LeftTable(name=name("old"), path="/data/old")


def dropped(pipeline: FakePipeline) -> list[object]:
    """Return the tables that the pipeline was called to drop."""
    return [value for what, value in pipeline.asked if what == "prune"]


def test_nothing_is_dropped_without_a_terminal_or_yes(pipeline: FakePipeline, sluice: Sluice) -> None:
    """A script must pass --yes; the tables are still listed."""
    pipeline.left = (OLD,)
    result = sluice("prune")
    assert (result.exit_code, dropped(pipeline), result.stdout) == (2, [], "")
    assert "  main.shop.old  /data/old" in result.stderr
    assert "[PRUNE_NOT_CONFIRMED]" in result.stderr


def test_yes_drops_and_names_what_was_dropped(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The result is the list, as text or as JSON."""
    pipeline.left = (OLD,)
    assert sluice("prune", "--yes").stdout == "dropped main.shop.old\n"
    result = sluice("prune", "--yes", "-o", "json")
    assert json.loads(result.stdout) == [{"table": "main.shop.old", "path": "/data/old"}]
    assert dropped(pipeline) == [(OLD,), (OLD,)]


def test_nothing_left_is_nothing_to_ask(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Without tables to drop there is no question, and JSON is an empty list."""
    result = sluice("prune")
    assert (result.exit_code, result.stdout) == (0, "Nothing to prune: the code declares every table of shop.\n")
    assert (sluice("prune", "-o", "json").stdout, dropped(pipeline)) == ("[]\n", [])


def test_what_changed_meanwhile_is_kept_and_named(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The result contains only the dropped tables."""
    pipeline.left = pipeline.changed = (OLD,)
    result = sluice("prune", "--yes", "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert "kept main.shop.old: it was declared again or written to meanwhile" in result.stderr
