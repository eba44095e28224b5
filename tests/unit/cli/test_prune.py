"""`sluice prune`: what left the code is dropped only when somebody says so."""

from __future__ import annotations

import json

from framework.run.tables.left_tables import LeftTable
from tests.support.fake_pipeline import FakePipeline, name
from tests.unit.cli.conftest import Sluice

OLD = LeftTable(name=name("old"), path="/data/old")


def dropped(pipeline: FakePipeline) -> list[object]:
    """What the pipeline was asked to drop."""
    return [value for what, value in pipeline.asked if what == "prune"]


def test_nothing_is_dropped_without_a_terminal_or_yes(pipeline: FakePipeline, sluice: Sluice) -> None:
    """A script must say --yes; the tables are shown all the same."""
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
    """The result has only what was dropped."""
    pipeline.left = pipeline.changed = (OLD,)
    result = sluice("prune", "--yes", "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert "kept main.shop.old: it is declared again, or was written to" in result.stderr
