"""Conditions of storage, checkpoints, the update lock and the event log."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "STORAGE_NOT_WRITABLE": Condition(
        "{path} can't be written: {problem}.",
        "Give this user the right to write there, or set `storage` in the spec to a place that can be written.",
    ),
    "STORAGE_NOT_READABLE": Condition(
        "{path} can't be read: {problem}.",
        "Give this user the right to read it, and check that its file system can be reached.",
    ),
    "STORAGE_NEEDS_SPARK": Condition(
        "The storage {path} lies on a Hadoop file system, which is reached through Spark only.",
        "Pass the Spark session to `open_storage`, or use a local path.",
    ),
    "FAILPOINT_UNKNOWN": Condition(
        "The failpoint {name!r} is not registered.", "Add it to FAILPOINTS in framework/foundation/failpoints.py."
    ),
}
