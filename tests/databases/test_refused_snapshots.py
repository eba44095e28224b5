"""Tables that have to be read again, while their database gives no position for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import SourceError
from framework.ingest.operations import Operations
from framework.ingest.status import read_status
from framework.sources.databases.postgres.log import position
from framework.views.ingestion import status_head
from tests.support.copied_tables import at_source, copied, create, failures, pipeline_of, resync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]


def refuse(*_: object, **__: object) -> int:
    """Answer as a source in which a transaction does not end."""
    raise SourceError("DATABASE_TRANSACTIONS_OPEN", slot="s", seconds=1, pids="7")


def test_copies_with_rows_of_another_definition_wait_when_their_new_snapshot_can_t_begin(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """They keep rows and columns, whether they are built anew or not; other copies follow.

    Their database gives no position for the one, and no new slot for the other.
    """
    create(run, "grown", "shrunk", "same")
    pipeline = pipeline_of(interpreting, folder)
    assert failures(pipeline.run()) == {}
    rows = {table: copied(pipeline, table) for table in ("grown", "shrunk")}
    for table in ("grown", "shrunk", "same"):
        run(f"UPDATE {table} SET name = 'before' WHERE id = 1")
    run("ALTER TABLE grown ADD c INT DEFAULT 5; ALTER TABLE shrunk DROP name")
    resync(pipeline, "grown")
    Operations(storage=pipeline.storage).replace_position(*pipeline.gateways)
    pipeline = pipeline_of(interpreting, folder)
    with pytest.MonkeyPatch.context() as during:
        during.setattr(position, "settled_position", refuse)
        during.setattr(position, "drop_position", refuse)
        assert failures(pipeline.run()) == {}
        # Without the slot of before, the update says why there is no new one.
        run("SELECT pg_drop_replication_slot('sluice_shop')")
        changes = {"shop_changes": "DATABASE_TRANSACTIONS_OPEN"}
        assert failures(pipeline_of(interpreting, folder).run()) == changes
        (status,) = read_status(pipeline.storage, SystemClock().now())
        why = "DATABASE_TRANSACTIONS_OPEN"
        assert (status.gap, status.refused, status.way_out) == ("DATABASE_POSITION_LOST.SLOT_MISSING", why, None)
        assert {(each.state.value, each.error, each.way_out) for each in status.tables} == {("GAP", why, None)}
        assert f"not made ({why})" in status_head(status)
    assert rows == {table: copied(pipeline, table) for table in rows}
    assert copied(pipeline, "same") == at_source(run, "same")
    pipeline = pipeline_of(interpreting, folder)
    assert failures(pipeline.run()) == {}
    for table in ("grown", "shrunk", "same"):
        assert copied(pipeline, table) == at_source(run, table)
