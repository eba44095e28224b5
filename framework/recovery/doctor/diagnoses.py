"""The table of diagnoses: one for each way in which a flow can break, in the order in which patterns are tried."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from framework.foundation.conditions.recovery import SOURCES_CHANGED
from framework.recovery.doctor.delta_diagnoses import DELTA_DIAGNOSES
from framework.recovery.doctor.diagnosis import Diagnosis, Fault, Way
from framework.recovery.doctor.session_diagnoses import SESSION_DIAGNOSES
from framework.sources.databases.dialects import every_facts
from framework.sources.databases.facts import Remedy, SourceDiagnosis

_RESETS = (Way.RESET_HERE, Way.RESET_START, Way.FULL_REFRESH)
_RESNAPSHOT = (Way.RESYNC, Way.FULL_REFRESH)

UNKNOWN = Diagnosis(
    name="UNKNOWN",
    meaning="The flow failed for a reason that is in no table. The error says what to correct.",
    ways=(Way.FOLLOW, Way.RUN_AGAIN),
)
SILENT = Diagnosis(
    name="SILENT",
    meaning=(
        "A continuous update runs the flow, but the flow reports nothing, not even that it is alive. A batch takes "
        "very long, or its thread hangs. A restart of the update continues at the checkpoint."
    ),
    ways=(Way.RESTART, Way.ADD_CAPACITY),
)
POSITION_STILL = Diagnosis(
    name="POSITION_STILL",
    meaning="The flow runs and has unread data, but commits nothing. A batch takes very long, or repeats and fails.",
    ways=(Way.RESTART, Way.ADD_CAPACITY),
)
FALLING_BEHIND = Diagnosis(
    name="FALLING_BEHIND",
    meaning="The flow runs, and its unread data grows: the source is faster than the flow.",
    ways=(Way.ADD_CAPACITY,),
)
HELD = Diagnosis(
    name="HELD",
    meaning="An operator has held the flow, so it does not run. Its position is kept.",
    ways=(Way.RESUME,),
)
TABLE_RESTORED = Diagnosis(
    name="TABLE_RESTORED",
    meaning=(
        "A RESTORE took rows that the flow wrote out of the table, and left its checkpoint as it was. The flow "
        "runs, and does not read these rows again. If that is meant, begin a new checkpoint where the old one ends."
    ),
    ways=(Way.REWIND, Way.RESET_HERE, Way.RESET_START, Way.FULL_REFRESH),
)
CHECKPOINT_DAMAGED = Diagnosis(
    name="CHECKPOINT_DAMAGED",
    meaning=(
        "Files of the flow's checkpoint are missing or damaged. Neither the query nor the sources are at fault, and a "
        "retry fails in the same way."
    ),
    faults=(
        Fault(condition="STREAMING_CHECKPOINT_MISSING_METADATA_FILE", sqlstate="42K03"),
        Fault(condition="STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", sqlstate="42K03"),
        Fault(condition="CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED", sqlstate="XX000"),
        Fault(condition="CANNOT_LOAD_STATE_STORE", sqlstate="58030"),
        Fault(condition="BATCH_METADATA_NOT_FOUND", sqlstate="42K03"),
        Fault(condition="MALFORMED_LOG_FILE", sqlstate="KD002"),
        Fault(condition="CLOUD_FILES_POSITION_LOST"),
        Fault(condition="CHECKPOINT_MANIFEST_DAMAGED"),
        Fault(condition="CHECKPOINT_FILE_DAMAGED"),
    ),
    patterns=(r"Incomplete log file", r"Failed to read log file", r"batch \d+ doesn't exist", r"Offsets? file .* not"),
    ways=(Way.ROLL_BACK, *_RESETS),
)

DIAGNOSES = (
    Diagnosis(
        name="STATEFUL_OPERATORS_CHANGED",
        meaning=(
            "The query has other stateful operators than the one that wrote the checkpoint. Spark stores the state of "
            "each operator by number and name, and refuses to guess which state belongs to which operator."
        ),
        faults=(Fault(condition="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", sqlstate="42K03"),),
        ways=(Way.RESTORE, *_RESETS),
    ),
    Diagnosis(
        name="STATE_CHANGED",
        meaning="The types of the state, or a setting that is fixed with the checkpoint, are not those of the query.",
        faults=(
            Fault(condition="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", sqlstate="XXKST"),
            Fault(condition="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", sqlstate="XXKST"),
            Fault(condition="STATE_STORE_INVALID_CONFIG_AFTER_RESTART", sqlstate="42K06"),
            Fault(condition="STREAMING_QUERY_EVOLUTION_ERROR", sqlstate="42KDE"),
        ),
        ways=(Way.RESTORE, *_RESETS),
    ),
    CHECKPOINT_DAMAGED,
    Diagnosis(
        name="TABLE_WENT_BACK",
        meaning=(
            "An older copy of the table, its auxiliary table or the quarantine is in its place, such as one from a "
            "backup of its folder. The checkpoint is not as old, so the flow would go on behind rows that are gone."
        ),
        faults=(Fault(condition="TABLE_OLDER_THAN_CHECKPOINT"),),
        ways=(Way.RESTORE, Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="TABLE_REWOUND",
        meaning=(
            "A rewind took the table back, and an older copy of the storage was put in place since. The checkpoint is "
            "from before the rewind: the flow would lose the rows that it undid, or repeat those that came after it."
        ),
        faults=(Fault(condition="CHECKPOINT_OLDER_THAN_REWIND"),),
        ways=(Way.RESTORE, Way.RESET_START, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="SOURCES_CHANGED",
        meaning=(
            "The checkpoint stores the positions of its sources by number. The query has more or fewer sources now, or "
            "has them in another order."
        ),
        faults=(Fault(condition=SOURCES_CHANGED),),
        ways=(Way.RESTORE, *_RESETS),
    ),
    *DELTA_DIAGNOSES,
    Diagnosis(
        name="KAFKA_OFFSETS_GONE",
        meaning=(
            "Kafka no longer has records that the flow has not read: retention deleted them, or the topic was deleted "
            "or created again."
        ),
        faults=(Fault(condition="KAFKA_DATA_LOSS", sqlstate="22000"),),
        patterns=(r"UnknownTopicOrPartition", r"OffsetOutOfRange"),
        ways=(Way.RESET_PARTITIONS, Way.RESET_EARLIEST, Way.RESET_LATEST),
    ),
    Diagnosis(
        name="NEW_COLUMNS",
        meaning=(
            "Sources have columns that the flow's schema lacks, or values that need wider types. What is new is "
            "recorded, and the next run has it; columns that are refused need a decision."
        ),
        faults=(
            Fault(condition="UNKNOWN_FIELD"),
            Fault(condition="WIDER_FIELD"),
            Fault(condition="SOURCE_COLUMNS_CHANGED"),
        ),
        patterns=(r"UnknownFieldException",),
        ways=(Way.FOLLOW, Way.RUN_AGAIN),
    ),
    Diagnosis(
        name="MERGE_AMBIGUOUS",
        meaning=(
            "Two source rows match one row of the target. AUTO CDC must make that impossible; another writer, or a "
            "fault of Sluice, has put several rows of one key into the target."
        ),
        faults=(Fault(condition="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", sqlstate="21506"),),
        ways=(Way.REPORT, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="SOURCE_POSITION_LOST",
        meaning="The database no longer has the changes after the stored position, or it is another one. Changes in "
        "between are in no log.",
        faults=(Fault(condition="DATABASE_POSITION_LOST"), Fault(condition="DATABASE_POSITION_INVALID")),
        ways=(Way.REPLACE_POSITION, Way.FOLLOW),
    ),
    Diagnosis(
        name="MYSQL_POSITION_LOST",
        meaning="The server has purged the binary log that the flow needs, or its transactions have a gap.",
        faults=(Fault(condition="MYSQL_POSITION_LOST"),),
        patterns=(r"Could not find first log file name in binary log", r"purged (?:required )?binary logs"),
        ways=_RESNAPSHOT,
    ),
    Diagnosis(
        name="SQLSERVER_POSITION_LOST",
        meaning="The clean-up of change tracking or change data capture went past the stored position.",
        faults=(Fault(condition="SQLSERVER_POSITION_LOST"),),
        patterns=(r"CHANGE_TRACKING_MIN_VALID_VERSION", r"fn_cdc_get_(?:all_changes|net_changes|min_lsn)"),
        ways=_RESNAPSHOT,
    ),
    Diagnosis(
        name="STREAM_POSITION_LOST",
        meaning="The source does not accept the stored position any more: a resume token has expired.",
        faults=(Fault(condition="RESUME_TOKEN_LOST"),),
        patterns=(r"resume token", r"ChangeStreamHistoryLost"),
        ways=_RESNAPSHOT,
    ),
    Diagnosis(
        name="SOURCE_TABLE_CHANGED",
        meaning=(
            "A table of the source database has other columns or another key than its copy expects. Additive changes "
            "are applied by themselves; this one is not additive."
        ),
        faults=(
            Fault(condition="DATABASE_TABLE_MISSING"),
            Fault(condition="DATABASE_NOT_A_TABLE"),
            Fault(condition="DATABASE_COLUMN_MISSING"),
            Fault(condition="DATABASE_COLUMN_UNKNOWN"),
            Fault(condition="DATABASE_TEXT_COLUMN_UNKNOWN"),
            Fault(condition="DATABASE_TABLE_WITHOUT_KEY"),
            Fault(condition="DATABASE_KEY_NULLABLE"),
            Fault(condition="INGESTION_WITHOUT_KEY"),
            Fault(condition="INGESTION_KEY_NOT_IN_LOG"),
            Fault(condition="INGESTION_KEY_EXCLUDED"),
            Fault(condition="INGESTION_KEY_OF_NAMES"),
            Fault(condition="INGESTION_COLUMN_UNKNOWN"),
            Fault(condition="INGESTION_COLUMNS_CASED"),
            Fault(condition="INGESTION_SOFT_DELETES_COLUMN"),
            Fault(condition="INGESTION_COLUMNS_CHANGED"),
            Fault(condition="INGESTION_COLUMNS_NEWER"),
            Fault(condition="INGESTION_TABLE_REDEFINED"),
            Fault(condition="INGESTION_ROW_FILTER_INVALID"),
            Fault(condition="SNAPSHOT_COLUMN_CHANGED"),
            Fault(condition="SNAPSHOT_SOURCE_CHANGED"),
            Fault(condition="SNAPSHOT_ROW_FILTER_INVALID"),
            Fault(condition="AUTOCDC_KEY_DRIFT"),
            Fault(condition="AUTOCDC_COLUMN_DRIFT"),
            Fault(condition="AUTOCDC_SEQUENCE_DRIFT"),
            Fault(condition="AUTOCDC_SCD_TYPE_DRIFT"),
            Fault(condition="AUTOCDC_SOFT_DELETES_DRIFT"),
            Fault(condition="SCHEMA_CANNOT_EVOLVE"),
            Fault(condition="SINK_TYPE_TOO_NARROW"),
            Fault(condition="CONSTRAINT_KEEPS_TYPE"),
            Fault(condition="GENERATED_COLUMN_KEEPS_TYPE"),
        ),
        ways=(Way.FOLLOW, Way.RUN_AGAIN, Way.RESYNC, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="SOURCE_TABLE_REPLACED",
        meaning=(
            "The log does not have the changes from the old rows of the source table to its present ones: the table "
            "was created again, was taken out of the log or is in it in part, was rewritten while its snapshot was "
            "read, or was truncated below a history. A retry fails in the same way."
        ),
        faults=(
            Fault(condition="INGESTION_TABLE_REPLACED"),
            Fault(condition="INGESTION_TABLE_UNPUBLISHED"),
            Fault(condition="INGESTION_PARTITIONS_CHANGED"),
            Fault(condition="SNAPSHOT_TABLE_REPLACED"),
            Fault(condition="DATABASE_TABLE_REPLACED"),
            Fault(condition="INGESTION_HISTORY_TRUNCATED"),
            Fault(condition="SNAPSHOT_PLAN_INVALID"),
            Fault(condition="SNAPSHOT_OFFSET_INVALID"),
        ),
        ways=(Way.RESYNC, Way.FOLLOW, Way.FULL_REFRESH),
    ),
    Diagnosis(
        name="SOURCE_VALUE_UNREADABLE",
        meaning=(
            "A change of the source table has a value that its Spark type can't hold, or that may no longer be read. "
            "The flow stops at this change, although the source may have a valid value by now."
        ),
        faults=(Fault(condition="INGESTION_CHANGE_UNREADABLE"), Fault(condition="DATABASE_VALUE_NOT_LOGGED")),
        ways=(Way.FOLLOW, Way.RESYNC),
    ),
    Diagnosis(
        name="REWIND_INTERRUPTED",
        meaning="A rewind of tables and checkpoints was interrupted. No flow runs before it is finished or given up.",
        faults=(Fault(condition="REWIND_UNFINISHED"), Fault(condition="REWIND_NOT_FINISHABLE")),
        ways=(Way.FOLLOW,),
    ),
    Diagnosis(
        name="PRUNE_INTERRUPTED",
        meaning="A prune was interrupted in the middle of a deletion. The next update or prune finishes it.",
        faults=(Fault(condition="PRUNE_UNFINISHED"),),
        ways=(Way.FOLLOW,),
    ),
    Diagnosis(
        name="PERMISSION_MISSING",
        meaning="A login or a grant is missing, or a password changed. A retry fails in the same way.",
        faults=(
            Fault(condition="DATABASE_LOGIN_REFUSED"),
            Fault(condition="DATABASE_PERMISSION"),
            Fault(condition="DATABASE_SELECT_MISSING"),
            Fault(condition="DATABASE_TLS_FAILED"),
            Fault(condition="STORAGE_NOT_WRITABLE"),
            Fault(condition="STORAGE_NOT_READABLE"),
            Fault(condition="DATASET_NOT_WRITABLE"),
            Fault(condition="FILE_ACCESS_DENIED"),
        ),
        patterns=(
            r"AccessDenied",
            r"AccessControlException",
            r"Permission denied",
            r"403 Forbidden",
            r"password authentication",
        ),
        ways=(Way.FOLLOW, Way.RUN_AGAIN),
    ),
    Diagnosis(
        name="ROW_NOT_USABLE",
        meaning=(
            "A row can't be parsed, cast or applied. It is read again in each update, so the flow stops at the same "
            "row until the row, the query or the expectation is corrected."
        ),
        faults=(
            Fault(condition="EXPECTATION_VIOLATION"),
            Fault(condition="PYTHON_EXCEPTION"),
            Fault(condition="PYTHON_PROCESS_ENDED_AGAIN"),
            Fault(condition="DATABASE_VALUE_NOT_REPRESENTABLE"),
            Fault(condition="AUTOCDC_MICROBATCH_VALIDATION"),
            Fault(condition="AUTOCDC_CONSTRAINT_VIOLATED"),
            Fault(condition="CAST_INVALID_INPUT", sqlstate="22018"),
            Fault(condition="CAST_OVERFLOW", sqlstate="22003"),
            Fault(condition="NUMERIC_VALUE_OUT_OF_RANGE", sqlstate="22003"),
            Fault(condition="DIVIDE_BY_ZERO", sqlstate="22012"),
            Fault(condition="MALFORMED_RECORD_IN_PARSING", sqlstate="22023"),
            Fault(condition="MALFORMED_CSV_RECORD", sqlstate="KD000"),
            Fault(condition="FAILED_READ_FILE", sqlstate="KD001"),
            Fault(condition="FILE_TYPE_MISMATCH"),
            Fault(condition="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", sqlstate="23001"),
            Fault(condition="DELTA_NOT_NULL_CONSTRAINT_VIOLATED", sqlstate="23502"),
        ),
        ways=(Way.QUARANTINE, Way.ALLOW_NULL, Way.FOLLOW, Way.RUN_AGAIN),
    ),
    Diagnosis(
        name="SOURCE_UNREADABLE",
        meaning=(
            "What the dataset reads is missing, damaged or out of reach. Its table, its checkpoints and those of its "
            "readers are untouched, and an update runs everything else."
        ),
        faults=(
            Fault(condition="FLOW_SOURCE_UNREADABLE"),
            Fault(condition="DATABASE_SCHEMA_MISSING"),
            *(Fault(condition=f"CLOUD_FILES_{each}") for each in ("FOLDER_MISSING", "SCHEMA_UN", "NAME_UNREADABLE")),
        ),
        ways=(Way.FOLLOW, Way.RUN_AGAIN),
    ),
    *SESSION_DIAGNOSES,
    Diagnosis(
        name="CONFLICTING_WRITER",
        meaning="Another writer changed the same table at the same time. Nothing was written by the failed attempt.",
        faults=(
            Fault(condition="DELTA_CONCURRENT", sqlstate="2D521"),
            Fault(condition="DELTA_METADATA_CHANGED", sqlstate="2D521"),
            Fault(condition="DELTA_PROTOCOL_CHANGED", sqlstate="2D521"),
            Fault(condition="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", sqlstate="KD007"),
            Fault(condition="FILES_GONE_BEFORE_COMMIT"),
        ),
        patterns=(
            r"Concurrent(?:Append|DeleteRead|DeleteDelete|Transaction|Write)Exception",
            r"(?:Metadata|Protocol)Changed",
        ),
        ways=(Way.RUN_AGAIN,),
    ),
    Diagnosis(
        name="CONNECTION_LOST",
        meaning="The source or the storage could not be reached. Retries did not help; the position is kept.",
        faults=(
            Fault(condition="DATABASE_UNREACHABLE"),
            Fault(condition="DATABASE_CONNECTION_LOST"),
            Fault(condition="DATABASE_BUSY"),
            Fault(condition="SNAPSHOT_CHUNK_TIMEOUT"),
        ),
        patterns=(
            r"Connection (?:refused|reset)",
            r"Connection(?:Refused|Reset|Aborted)Error",
            r"timed? ?out",
            r"TimeoutException",
            r"UnknownHostException",
            r"SocketException",
            r"Stale file handle",
            r"503 Service",
            r"429 Too Many",
            r"SlowDown",
        ),
        ways=(Way.FOLLOW, Way.RUN_AGAIN),
    ),
)
"""In the order in which patterns are tried: a permission error while connecting must not match a connection fault."""

WITHOUT_FAULT = (SILENT, POSITION_STILL, FALLING_BEHIND, HELD, TABLE_RESTORED, UNKNOWN)
"""The diagnoses that do not depend on the condition of an error."""


_REMEDIES = {
    Remedy.NEW_POSITION: Way.REPLACE_POSITION,
    Remedy.RESYNC: Way.RESYNC,
    Remedy.FULL_REFRESH: Way.FULL_REFRESH,
    Remedy.FOLLOW: Way.FOLLOW,
    Remedy.RUN_AGAIN: Way.RUN_AGAIN,
}


@cache
def every_diagnosis() -> tuple[Diagnosis, ...]:
    """Return all diagnoses: this module's, extended with the diagnoses and faults of the database dialects."""
    known = every_facts()
    more = {
        each.name: tuple(Fault(condition=name) for facts in known for name in facts.explained.get(each.name, ()))
        for each in DIAGNOSES
    }
    own = (replace(each, faults=(*each.faults, *more[each.name])) for each in DIAGNOSES)
    return (*own, *(_diagnosis(each) for facts in known for each in facts.diagnoses))


def _diagnosis(given: SourceDiagnosis) -> Diagnosis:
    return Diagnosis(
        name=given.name,
        meaning=given.meaning,
        faults=tuple(Fault(condition=name) for name in given.conditions),
        patterns=given.patterns,
        ways=tuple(_REMEDIES[each] for each in given.remedies),
    )


def diagnosis_of(condition: str, text: str = "") -> Diagnosis:
    """Return the diagnosis of an error, by the longest matching condition or else the first matching pattern.

    Args:
        condition: the error's condition.
        text: the messages of its cause chain.

    Examples:
        >>> diagnosis_of("KAFKA_DATA_LOSS.START_OFFSET_RESET").name
        'KAFKA_OFFSETS_GONE'
        >>> diagnosis_of("FLOW_FAILED", "java.net.ConnectException: Connection refused").name
        'CONNECTION_LOST'
    """
    known = every_diagnosis()
    matching = [(fault, each) for each in known for fault in each.faults if condition.startswith(fault.condition)]
    if matching:
        return max(matching, key=lambda pair: len(pair[0].condition))[1]
    found = (each for each in known for pattern in each.patterns if re.search(pattern, text))
    return next(found, UNKNOWN)


def sqlstate_of(condition: str) -> str:
    """Return the SQLSTATE of a condition of Spark, Delta or the Kafka connector; empty for a condition of Sluice.

    Examples:
        >>> sqlstate_of("DELTA_SOURCE_IGNORE_DELETE")
        '0A000'
    """
    states = [
        (len(fault.condition), fault.sqlstate)
        for each in every_diagnosis()
        for fault in each.faults
        if condition.startswith(fault.condition)
    ]
    return max(states, default=(0, ""))[1]
