"""The prune between updates, which drops tables that the code no longer declares."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from framework.foundation.files.storage import Storage
from framework.foundation.processes import user_name
from framework.record.drafts import user_action, warned
from framework.run.tables.left_tables import LeftTable, LeftTables
from framework.run.update.checkpoint_actions import changing


def prune_tables(
    storage: Storage, pipeline: str, find: Callable[[], LeftTables], chosen: Collection[LeftTable]
) -> tuple[LeftTable, ...]:
    """Drop the chosen undeclared tables under the update's lock, and record one event for each.

    Args:
        storage: the pipeline's storage.
        pipeline: its name.
        find: loads the pipeline's code; called under the lock, because the code may have changed since the listing.
        chosen: the tables that the user confirmed; a table that changed since is kept.

    Returns:
        The dropped tables, with `left_entry` if their catalog did not respond.

    Raises:
        OperationError: an update is running; TABLE_NOT_OWNED.
    """
    dropped = []
    with changing(storage, pipeline) as log:
        left = find()
        for error in left.finish_begun():
            log.record(warned(error))
        for table in left.find():
            if table in chosen:
                entry = left.drop(table)
                dropped.append(replace(table, left_entry=entry))
                text = f"Table {table.name} at {table.path} dropped: it is no longer declared."
                log.record(user_action(action="PRUNE", user_name=user_name(), message=text))
                if entry is not None:
                    log.record(warned(entry))
    return tuple(dropped)
