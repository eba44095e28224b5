"""What a person asks for between updates: to drop the tables that the code no longer declares."""

from __future__ import annotations

from collections.abc import Collection

from framework.record.drafts import user_action
from framework.run.checkpoint_actions import changing, user_name
from framework.run.left_tables import LeftTable, LeftTables


def prune_tables(left: LeftTables, chosen: Collection[LeftTable]) -> None:
    """Drop the chosen ones of the tables that are left, under the update's lock, one event for each.

    Raises:
        OperationError: an update is running; TABLE_NOT_OWNED.
    """
    with changing(left.store.storage, left.store.pipeline) as log:
        left.finish_begun()
        for table in left.find():
            if table in chosen:
                left.drop(table)
                text = f"Table {table.name} at {table.path} dropped: no module declares it any more."
                log.record(user_action(action="PRUNE", user_name=user_name(), message=text))
