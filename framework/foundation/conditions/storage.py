"""Conditions of storage, checkpoints, the update lock and the event log."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "STORAGE_NOT_WRITABLE": Condition(
        "{path} cannot be written: {problem}.",
        "Grant the current user write permission, or set `storage` in the spec to a writable location.",
    ),
    "STORAGE_NOT_READABLE": Condition(
        "{path} cannot be read: {problem}.",
        "Grant the current user read permission, and check that the file system is reachable.",
    ),
    "FILE_SYSTEM_MISSING": Condition("Spark has no file system for {path}: {problem}.", "{advice}"),
    "STORAGE_NEEDS_SPARK": Condition(
        "The storage {path} is on a Hadoop file system, which needs a Spark session.",
        "Pass the Spark session to `open_storage`, or use a local path.",
    ),
    "CHECKPOINT_MANIFEST_DAMAGED": Condition(
        "The checkpoint manifest {path} of a flow is damaged: {problem}.",
        "Restore the file from a backup, or delete it and run a full refresh of the dataset.",
    ),
    "CHECKPOINT_FILE_DAMAGED": Condition(
        "{path}, a file of the checkpoint of the flow {flow}, is empty, cut off or not an offset of its source.",
        "Run `sluice doctor`, which names the ways out and their costs.",
    ),
    "STORED_FILE_DAMAGED": Condition(
        "{path}, an internal file of Sluice, is damaged: {problem}.",
        "Restore the file from a backup. docs/ARCHITECTURE.md describes the storage layout.",
    ),
    "GENERATION_MISUSED": Condition(
        "Generation {number} of flow {flow} does not allow `{action}`: {problem}.",
        "This is a bug in Sluice. Report it with the checkpoint manifest of the flow.",
    ),
    "UPDATE_ALREADY_RUNNING": Condition(
        "Another update of this pipeline is running: {holder} (lock: {path}).",
        "Wait until that update ends, or stop it. {advice}",
    ),
    "UPDATE_LOCK_LOST": Condition(
        "This update lost its lock {path}: the lease was not renewed in time, and another update may have started.",
        "Check that the storage is reachable and what both updates did (`sluice events`), then run again.",
    ),
    "EVENT_LOG_NOT_WRITABLE": Condition(
        "Events of this update cannot be written: {problem}",
        "Free disk space or grant write permission, then run again.",
    ),
    "FAILPOINT_UNKNOWN": Condition(
        "Failpoint {name!r} is not registered.", "Add it to FAILPOINTS in framework/foundation/failpoints.py."
    ),
}
