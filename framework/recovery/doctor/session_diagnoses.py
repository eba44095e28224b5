"""The diagnoses of faults of the session or the machine, which keep any flow from running."""

from __future__ import annotations

from framework.foundation.resource_faults import RESOURCE_CONDITIONS
from framework.recovery.doctor.diagnosis import Diagnosis, Fault, Way

_MEMORY = ("SPARK_LOST", "SPARK_OUT_OF_MEMORY", "PYTHON_OUT_OF_MEMORY", "PYTHON_PROCESS_ENDED")

SESSION_DIAGNOSES = (
    Diagnosis(
        name="SESSION_UNFIT",
        meaning=(
            "A setting, a library, a storage connector or the Python of the session does not fit. Neither the query "
            "nor its sources are at fault, the checkpoint is sound, and a retry fails in the same way."
        ),
        faults=tuple(
            Fault(condition=each)
            for each in (
                "SESSION_SETTING_INVALID",
                "SESSION_LIBRARY_MISSING",
                "SESSION_WITHOUT_DELTA",
                "SPARK_SETTING_INVALID",
                "STORAGE_CONNECTOR_FAILED",
                "PYTHON_OF_TASKS_UNFIT",
                "TEMPORARY_FOLDER_UNFIT",
            )
        ),
        ways=(Way.FOLLOW, Way.RUN_AGAIN),
    ),
    Diagnosis(
        name="STORED_FILE_DAMAGED",
        meaning=(
            "A file that Sluice keeps in the storage can't be read, or is of another release. Only what needs it "
            "fails, and all else runs."
        ),
        faults=tuple(
            Fault(condition=each)
            for each in (
                "STORED_FILE_DAMAGED",
                "STORED_FORMAT_UNKNOWN",
                "QUARANTINE_UNREADABLE",
                "DATABASE_CONTINUITY_INVALID",
            )
        ),
        ways=(Way.FOLLOW, Way.RUN_AGAIN),
    ),
    Diagnosis(
        name="CATALOG_SILENT",
        meaning=(
            "The catalog of tables does not answer. Flows run all the same, because tables are read and written at "
            "their paths; other programs do not find them by their names, and new names wait for the catalog."
        ),
        faults=(Fault(condition="CATALOG_SILENT"), Fault(condition="CATALOG_ENTRY_LEFT")),
        ways=(Way.FOLLOW,),
    ),
    Diagnosis(
        name="RESOURCES_EXHAUSTED",
        meaning="Disk, memory or executors were gone. The checkpoint is sound, and the next update continues there.",
        faults=(
            Fault(condition="EVENT_LOG_NOT_WRITABLE"),
            *(Fault(condition=each) for each in (*_MEMORY, *sorted(RESOURCE_CONDITIONS))),
            Fault(condition="CANNOT_WRITE_STATE_STORE", sqlstate="58030"),
        ),
        patterns=(
            r"No space left on device",
            r"OutOfMemory",
            r"Java heap space",
            r"ExecutorLost",
            r"FetchFailed",
            r"Python worker (?:failed|exited)",
            r"EOFException(?=: null|[^:]|$)",
            r"Broken pipe",
            r"Disk quota exceeded",
        ),
        ways=(Way.FREE_RESOURCES, Way.FOLLOW, Way.RUN_AGAIN),
    ),
)
"""In the order in which patterns are tried."""
