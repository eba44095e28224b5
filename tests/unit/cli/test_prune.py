"""`sluice prune` drops undeclared tables only after a confirmation."""

from __future__ import annotations

import json

from framework.declare.specs import IngestedGateway
from framework.ingest.state import GatewayState, GatewayStore
from framework.run.tables.left_tables import LeftTable
from tests.support.fake_pipeline import FakePipeline, name
from tests.unit.cli.conftest import Sluice

OLD = LeftTable(name=name("old"), path="/data/old")


def dropped(pipeline: FakePipeline) -> list[object]:
    """The tables of the call of `prune`."""
    return [value for what, value in pipeline.calls if what == "prune"]


def test_nothing_is_dropped_without_a_terminal_or_yes(pipeline: FakePipeline, sluice: Sluice) -> None:
    """A script has to pass --yes; the tables are listed without it, too."""
    pipeline.left = (OLD,)
    result = sluice("prune")
    assert (result.exit_code, dropped(pipeline), result.stdout) == (2, [], "")
    assert "  main.shop.old  /data/old" in result.stderr
    assert "[PRUNE_NOT_CONFIRMED]" in result.stderr


def test_yes_drops_the_tables_and_lists_them(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The result is the list, as text or as JSON."""
    pipeline.left = (OLD,)
    assert sluice("prune", "--yes").stdout == "dropped main.shop.old\n"
    result = sluice("prune", "--yes", "-o", "json")
    assert json.loads(result.stdout) == [{"table": "main.shop.old", "path": "/data/old"}]
    assert dropped(pipeline) == [(OLD,), (OLD,)]


def test_the_slot_of_dropped_changes_is_named(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Its database keeps the log until somebody drops it; that of changes that stay is read on."""
    for number, changes in enumerate(("old", "new")):
        gateway = IngestedGateway(
            name=f"shop_{number}", connection="bank", folder="", scheme="postgresql", position_name=f"slot_{number}",
            table_list=f"slot_{number}", changes=name(changes), tables=(),
        )  # fmt: skip
        GatewayStore(pipeline.storage).write(GatewayState(gateway=gateway))
    pipeline.left = (OLD,)
    result = sluice("prune", "--yes")
    assert result.stdout == "dropped main.shop.old\n"
    (line,) = result.stderr.splitlines()
    assert line.endswith("run there: SELECT pg_drop_replication_slot('slot_0'); DROP PUBLICATION slot_0")


def test_without_tables_there_is_no_question(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Without tables to drop, the JSON result is an empty list."""
    result = sluice("prune")
    assert (result.exit_code, result.stdout) == (0, "Nothing to prune: the code declares every table of shop.\n")
    assert (sluice("prune", "-o", "json").stdout, dropped(pipeline)) == ("[]\n", [])


def test_a_table_that_changed_is_kept_and_named(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The result has only the dropped tables."""
    pipeline.left = pipeline.changed = (OLD,)
    result = sluice("prune", "--yes", "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert "kept main.shop.old: it is declared again, or was written to" in result.stderr
