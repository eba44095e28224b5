"""The diagnoses of flows whose Delta source was changed outside the pipeline."""

from __future__ import annotations

from framework.foundation.conditions.recovery import COLUMNS_DROPPED, PUT_BACK
from framework.recovery.doctor.diagnosis import Diagnosis, Fault, Way

DELTA_DIAGNOSES = (
    Diagnosis(
        name="DELTA_SOURCE_REPLACED",
        meaning=(
            "The Delta table that the flow reads was dropped and created again, so that the stored version is one of "
            "another table."
        ),
        faults=(
            Fault(condition="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", sqlstate="55019"),
            Fault(condition="DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID", sqlstate="22000"),
        ),
        ways=(Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="DELTA_SOURCE_PUT_BACK",
        meaning=(
            "The folder of the Delta table that the flow reads was put back from a backup, and written on to. The "
            "versions that the flow has read since the backup are other commits now: it would pass over their rows."
        ),
        faults=(Fault(condition=PUT_BACK),),
        ways=(Way.RESTORE, Way.FULL_REFRESH, Way.RESET_AFTER_COMMON, Way.RESET_START),
    ),
    Diagnosis(
        name="DELTA_SOURCE_CHANGED",
        meaning=(
            "Rows of the Delta source were updated or deleted. A stream of a table has inserted rows only, so it can't "
            "represent the commit."
        ),
        faults=(
            Fault(condition="DELTA_SOURCE_TABLE_IGNORE_CHANGES", sqlstate="0A000"),
            Fault(condition="DELTA_SOURCE_IGNORE_DELETE", sqlstate="0A000"),
        ),
        ways=(Way.RESTORE, Way.RESET_AFTER_CHANGE, Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="DELTA_SOURCE_COLUMNS_REPLACED",
        meaning=(
            "A column of the Delta source was renamed, dropped or changed its type in a commit that the flow has not "
            "read yet. Delta reads no commits from before and after it as one stream."
        ),
        faults=(Fault(condition="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE", sqlstate="42KD4"),),
        ways=(Way.TRACK_SCHEMA, Way.RESET_AFTER_CHANGE, Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="DELTA_SOURCE_COLUMNS_DROPPED",
        meaning=(
            "A column of the Delta source was dropped, or got another type, and the flow has not read on from there "
            "yet. Delta reads the last batch again when a stream starts, and reads it with the present columns only."
        ),
        faults=(Fault(condition=COLUMNS_DROPPED),),
        ways=(Way.RESET_AT_CHANGE, Way.RESET_START, Way.FULL_REFRESH, Way.FOLLOW),
    ),
    Diagnosis(
        name="DELTA_SOURCE_FILES_GONE",
        meaning=(
            "Files of commits of the Delta source that the flow has not read were removed from the table, such as by "
            "OPTIMIZE, and deleted by VACUUM since. The rows may be in other files of the table."
        ),
        faults=(Fault(condition="DELTA_SOURCE_FILES_GONE"),),
        ways=(Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="DELTA_SOURCE_SCHEMA_CHANGED",
        meaning="The columns of the Delta source changed in a commit that the flow has not read yet.",
        faults=(
            Fault(condition="DELTA_SCHEMA_CHANGED", sqlstate="KD007"),
            Fault(condition="DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART", sqlstate="KD007"),
        ),
        ways=(Way.RUN_AGAIN, Way.TRACK_SCHEMA, Way.RESET_AFTER_CHANGE, Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="DELTA_SCHEMA_RECORDED",
        meaning=(
            "The flow tracks the columns of its Delta source. Delta has recorded them, or a change of them, and reads "
            "on with them when the flow starts again."
        ),
        faults=(Fault(condition="DELTA_STREAMING_METADATA_EVOLUTION", sqlstate="22000"),),
        ways=(Way.RUN_AGAIN,),
    ),
    Diagnosis(
        name="DELTA_SCHEMA_CHANGE_NOT_ALLOWED",
        meaning=(
            "The flow tracks the columns of its Delta source, and has read up to a change that renames or drops a "
            "column, or changes its type. Delta reads on when the code allows the change."
        ),
        faults=(Fault(condition="DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION", sqlstate="KD002"),),
        ways=(Way.ALLOW_CHANGE,),
    ),
    Diagnosis(
        name="DELTA_SCHEMA_LOG_MISPLACED",
        meaning=(
            "The read option `schemaTrackingLocation` is a folder outside of the checkpoint that the flow runs with, "
            "such as that of an earlier checkpoint."
        ),
        faults=(Fault(condition="DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT", sqlstate="22000"),),
        ways=(Way.TRACK_SCHEMA,),
    ),
    Diagnosis(
        name="DELTA_HISTORY_GONE",
        meaning=(
            "Commits of the Delta source that the flow has not read are no longer in the table's log, or their change "
            "data was removed."
        ),
        faults=(
            Fault(condition="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE", sqlstate="42K03"),
            Fault(condition="DELTA_TRUNCATED_TRANSACTION_LOG", sqlstate="42K03"),
            Fault(condition="DELTA_VERSIONS_NOT_CONTIGUOUS", sqlstate="KD00C"),
            Fault(condition="DELTA_MISSING_CHANGE_DATA", sqlstate="KD002"),
            Fault(condition="DELTA_CHANGE_DATA_FILE_NOT_FOUND"),
        ),
        ways=(Way.RESET_FIRST_KEPT, Way.RESET_START, Way.FULL_REFRESH),
    ),
)
"""In the order in which patterns are tried."""
