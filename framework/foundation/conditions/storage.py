"""Conditions of storage, checkpoints, the update lock and the event log."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "STORAGE_NOT_WRITABLE": Condition(
        "{path} cannot be written: {problem}.",
        "Grant the current user write permission, move a file away that is in the place of a folder, or set `storage` "
        "in the spec to a writable location.",
    ),
    "STORAGE_NOT_READABLE": Condition(
        "{path} cannot be read: {problem}.",
        "Grant the current user read permission, and check that the file system is reachable.",
    ),
    "DATASET_NOT_WRITABLE": Condition(
        "{path}, a folder of {dataset}, cannot be written: {problem}.",
        "Give the user that runs the update the right to write the folder and everything in it, such as with "
        "`chown -R` or `chmod -R`, or run the update as the user that owns it. Nothing was written.",
    ),
    "DISK_FULL": Condition(
        "{place} cannot be written: no space is left on the disk ({problem}).",
        "Free space on the disk of the storage, and on that of Spark's temporary files (`spark.local.dir`), then run "
        "again. Every flow continues at its checkpoint.",
    ),
    "DISK_QUOTA_EXCEEDED": Condition(
        "{place} cannot be written: the quota of the disk is used up ({problem}).",
        "Delete files of the user that runs Sluice, or raise the quota, then run again. Every flow continues at its "
        "checkpoint.",
    ),
    "FILE_SYSTEM_READ_ONLY": Condition(
        "{place} cannot be written: its file system is mounted read-only ({problem}).",
        "Mount it so that it can be written, or set `storage` in the spec to another location. A disk that became "
        "read-only by itself may have a fault: look at the system's log.",
    ),
    "FILE_ACCESS_DENIED": Condition(
        "{place} cannot be opened: the user that runs Spark lacks the permission ({problem}).",
        "Give that user the permission to read and write the file and its folder, such as with `chown` or `chmod`, "
        "then run again. Every flow continues at its checkpoint.",
    ),
    "TOO_MANY_OPEN_FILES": Condition(
        "{place} cannot be opened: as many files are open as this process or this machine may have ({problem}).",
        "Raise the limit in the shell that starts the update, such as with `ulimit -n 65536`, then run again. Every "
        "flow continues at its checkpoint.",
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
    "STORED_FILE_DAMAGED": Condition(
        "{path}, an internal file of Sluice, is damaged: {problem}.",
        "Restore the file from a backup.{otherwise} docs/ARCHITECTURE.md describes the storage layout.",
    ),
    "STORED_FORMAT_UNKNOWN": Condition(
        "{path}, an internal file of Sluice, has the format version {found}. This release reads version {reads}.",
        "Another release of Sluice wrote the file, and it stays as it is: use that release here. If the file came with "
        "a copy or a backup of a part of its folder, put the whole folder back.",
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
