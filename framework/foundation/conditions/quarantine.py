"""Conditions of the quarantine."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "QUARANTINE_COLUMN_RESERVED": Condition(
        "Column {column} of flow {flow} has a name that the quarantine needs for itself.",
        "Rename the column in the query, or remove the table property `sluice.quarantine` of the target.",
    ),
    "QUARANTINE_OF_DROPPED_COLUMNS": Condition(
        "Table {dataset} has a quarantine, and an expectation over columns that the query of flow {flow} drops or "
        "renames. Quarantined rows do not have these columns.",
        "Keep the columns, or remove the table property `sluice.quarantine` of the table.",
    ),
    "QUARANTINE_INVALID": Condition(
        "Table {dataset} sets `sluice.quarantine` to {value!r}.", "Set the table property to `true` or `false`."
    ),
    "QUARANTINE_OF_VIEW": Condition(
        "{dataset} is a materialized view, which is computed anew. Only a streaming table has a quarantine.",
        "Remove the table property `sluice.quarantine`, or declare a streaming table.",
    ),
    "QUARANTINE_OF_SNAPSHOTS": Condition(
        "Table {dataset} has the flow {flow} from snapshots. A row that is left out of a snapshot would be deleted.",
        "Remove the table property `sluice.quarantine`.",
    ),
    "QUARANTINE_FLOW_NOT_FOUND": Condition(
        "No row of a flow {flow} is in the quarantine.{hint}",
        "Correct the name. `sluice quarantine list` names all flows with quarantined rows.",
    ),
    "QUARANTINE_REASON_NOT_FOUND": Condition(
        "No row of flow {flow} is in the quarantine for the reason {reason!r}. Its reasons: {reasons}.",
        "Name one of these reasons.",
    ),
    "QUARANTINE_FLOW_NOT_DECLARED": Condition(
        "Flow {flow} has quarantined rows, but the code does not declare it, or with another target.",
        "Declare the flow again to replay its rows, or discard them with `sluice quarantine drop`.",
    ),
    "QUARANTINE_UNREADABLE": Condition(
        "The quarantine {path} cannot be read: {cause}",
        "Put its folder back from a backup, or repair the file. Or, if its rows are not needed, move the folder away: "
        "`sluice plan` then has the ways out of each flow with rows in it. Flows without a quarantine run.",
    ),
    "QUARANTINE_REPLAY_FAILED": Condition(
        "The replay of flow {flow} failed: {cause}",
        "Correct the cause, and replay again. Rows that were not written stay in the quarantine, and none is written "
        "twice.",
    ),
    "QUARANTINE_NOT_CONFIRMED": Condition(
        "`sluice quarantine drop` asks before it deletes rows, and standard input is not a terminal.",
        "Add `--yes`.",
    ),
}
