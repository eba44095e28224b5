"""Conditions of rewinds to an earlier time."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_OTHER_WAYS = (
    "a flow can also start anew with `sluice run --reset-checkpoint FLOW --from START`, or its table be rebuilt with "
    "`sluice run --full-refresh TABLE --keep-history`"
)

CONDITIONS: dict[str, Condition] = {
    "REWIND_TIME_INVALID": Condition(
        "{time!r} is neither a time nor the id of an update.",
        "Write a time such as `2025-04-09T13:55:00Z`, or an id of `sluice events`: the end of that update is meant.",
    ),
    "REWIND_TIME_WITHOUT_ZONE": Condition(
        "The time {time} has no time zone.", "Add it: `{example}Z` for UTC, or for example `{example}+02:00`."
    ),
    "REWIND_TIME_IN_FUTURE": Condition("{time} is in the future.", "Name a time in the past."),
    "REWIND_UPDATE_NOT_FOUND": Condition(
        "The event log has no update {update}.{hint}",
        "`sluice events` prints the updates that it has. For an older one, name a time.",
    ),
    "REWIND_UPDATE_NOT_ENDED": Condition(
        "Update {update} has not ended, or was killed.", "Name a time, as `DESCRIBE HISTORY` of its tables has them."
    ),
    "REWIND_NOT_A_STREAMING_TABLE": Condition(
        "{dataset} is a {kind}, which has no checkpoint to rewind.",
        "Name the streaming tables that it reads: the next update computes it from their rows.",
    ),
    "REWIND_REACHES_SINK": Condition(
        "The sink {sink} reads {tables}, and rows that it has delivered cannot be taken back.",
        "Name tables that no sink reads. Or remove the sink from the code, rewind, add it again, and start its flow "
        "after the restore: `sluice run --reset-checkpoint FLOW --from startingVersion=VERSION`.",
    ),
    "REWIND_TOO_EARLY": Condition(
        "{dataset} cannot go back to {to}: its log begins with version {first}, of {time}.",
        "Name a time from then on. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_CLOCK_SET_BACK": Condition(
        "The clock was set back from {after} to {before} while {dataset} was written, so that it is unknown which of "
        "its commits had happened at {to}.",
        "Name a time before {before} or after {after}. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_FILES_MISDATED": Condition(
        "Version {version} of {dataset} was committed at {begun} by the clock of its writer, and at {written} by the "
        "time of its file, so that it is unknown whether it had happened at {to}. A copy of a table without the times "
        "of its files has that of copying.",
        "Name a time after {written}. Copy storages with the times of their files (`cp -p`, `rsync -t`). Else "
        + _OTHER_WAYS
        + ".",
    ),
    "REWIND_POSITION_UNKNOWN": Condition(
        "The log of {dataset} begins with version {first}, and has no batch of flow {flow} from before that time.",
        "Name a later time. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_NOT_CONSISTENT": Condition(
        "At {to} and before, there is no state from which {flow} can continue without a gap or a repeat.",
        "Name another time, best the end of an update. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_DURING_FULL_REFRESH": Condition(
        "A full refresh of {dataset} is not finished.", "Finish it with `sluice run`, then rewind."
    ),
    "REWIND_OF_APPEND_ONLY_TABLE": Condition(
        "{dataset} has the property delta.appendOnly, so that no row can leave it.",
        "Set the property to false with ALTER TABLE, rewind, and set it again.",
    ),
    "REWIND_VERSION_GONE": Condition(
        "Delta no longer restores version {version} of {dataset}, of {time}: its log was cleaned, or it is older than "
        "the table's delta.deletedFileRetentionDuration (7 days by default).",
        "Name a later time. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_FILES_GONE": Condition(
        "Version {version} of {dataset}, of {time}, has {count} files that are gone, such as {file}. VACUUM deletes "
        "them.",
        "Name a later time, after the last VACUUM at the latest. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_OF_FORMER_VIEW": Condition(
        "{dataset} was a materialized view at {time}, and its flows have no position in the rows of then.",
        "Name a time after its full refresh as a streaming table.",
    ),
    "REWIND_FLOW_NOT_DECLARED": Condition(
        "The flow {flow} wrote to {dataset} after {time}, and the code no longer declares it.",
        "Declare it again, rewind, then remove it. Its rows would leave the table, and it could not write them again.",
    ),
    "REWIND_CHECKPOINT_GONE": Condition(
        "The checkpoint of flow {flow} no longer has {missing}. Spark keeps the last 100 batches "
        "(spark.sql.streaming.minBatchesToRetain).",
        "{earliest} Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_SOURCE_NOT_REREADABLE": Condition(
        "Flow {flow} has read a source of kind {kind} since, which may not have those rows any more.",
        "Name tables that do not depend on it. A copy of a database is read again with `sluice ingest resync`. Else "
        + _OTHER_WAYS
        + ".",
    ),
    "REWIND_PAST_SNAPSHOT": Condition(
        "After {time}, flow {flow} has read {dataset} from its source, or has deleted the rows that the source "
        "no longer had. It would do neither again.",
        "Name a later time, or other tables. Rows of a copy that are wrong are read again with `sluice ingest resync`.",
    ),
    "REWIND_SOURCE_GONE": Condition(
        "Flow {flow} cannot read again what it has read since: {lost}.",
        "Put it back, or name a later time. Else " + _OTHER_WAYS + ".",
    ),
    "REWIND_PAST_RESTORE": Condition(
        "Flow {flow} would read the commits of {source} that an earlier rewind has undone, up to its restore in "
        "version {version}.",
        "Name {source} as well, so that both go back. Or name a time after that rewind.",
    ),
    "REWIND_START_IN_RESTORED_TABLE": Condition(
        "Flow {flow} had read {source} in one batch at most at that time. It starts at a version of that table, and "
        "that one may be undone.",
        "Remove the start from the code, or reset the flow without one, then rewind.",
    ),
    "REWIND_CHANGED": Condition(
        "The rewind to {to} is no longer what was shown: a table or a checkpoint has changed. Nothing was changed.",
        "Run `sluice rewind` again.",
    ),
    "REWIND_NOT_CONFIRMED": Condition(
        "`sluice rewind` asks for confirmation, but standard input is not a terminal.",
        "Review it with `--dry-run`, then add `--yes`.",
    ),
    "REWIND_OF_OTHER_STORAGE": Condition(
        "The rewind to {to}, which was interrupted, would restore the table of {dataset} at {path}. That table belongs "
        "to another storage, {other}.",
        "Finish the rewind there, and copy the storage again. Or give it up here: `sluice rewind --abandon`. "
        "Or, if the other storage is not used any more, let the table belong to this one: {statement}",
    ),
    "REWIND_OF_OTHER_PIPELINE": Condition(
        "The rewind to {to} takes back {dataset}, a table of pipeline {pipeline} in the same storage.",
        "Give it up with that pipeline: its code says which tables read this one.",
    ),
    "REWIND_UNFINISHED": Condition(
        "The rewind to {to}, begun at {begun_at}, was interrupted. Some tables may be restored and others not.",
        "`sluice run` finishes it before anything else, and so does the same `sluice rewind` again.",
    ),
    "REWIND_NOT_FINISHABLE": Condition(
        "The rewind to {to}, begun at {begun_at}, was interrupted and cannot be finished. {problems}.",
        "Put back what is gone, as it was: then `sluice run` finishes it.\n"
        "  -> Or: give it up: `sluice rewind --abandon` shows what becomes of each table, and asks. Tables that cannot "
        "go back are fully refreshed, if others went back already.",
    ),
}
