"""The table of diagnoses: each fault has one, and the ways out of each are in the order of their cost."""

from __future__ import annotations

import re
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from framework.foundation.conditions.databases import CONDITIONS as DATABASE_CONDITIONS
from framework.foundation.conditions.databases import RETRYABLE
from framework.foundation.conditions.recovery import BREAKS
from framework.recovery.doctor import ways
from framework.recovery.doctor.amounts import NONE, Amount, Cost, unknown
from framework.recovery.doctor.diagnoses import UNKNOWN, WITHOUT_FAULT, diagnosis_of, every_diagnosis, sqlstate_of
from framework.recovery.doctor.diagnosis import Diagnosis, Way
from framework.recovery.doctor.evidence.failures import parse_error
from framework.recovery.doctor.way_out import WayOut
from framework.recovery.doctor.ways import _WAYS, ways_out
from framework.run.update.fault_classification import _CAN_HEAL
from framework.sources.databases.postgres.conditions import CONDITIONS as POSTGRES_CONDITIONS
from framework.sources.databases.postgres.facts import FACTS
from tests.support.conditions import EVERY_CONDITION, OF_TESTS

# The rows of the table in docs/doctor.md, by what is seen: a condition, or the text of a cause without one.
ROWS = {
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": ("STATEFUL_OPERATORS_CHANGED", "42K03"),
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": ("STATE_CHANGED", "XXKST"),
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": ("STATE_CHANGED", "XXKST"),
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART": ("STATE_CHANGED", "42K06"),
    "STREAMING_QUERY_EVOLUTION_ERROR": ("STATE_CHANGED", "42KDE"),
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE": ("CHECKPOINT_DAMAGED", "42K03"),
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY": ("CHECKPOINT_DAMAGED", "42K03"),
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED": ("CHECKPOINT_DAMAGED", "XX000"),
    "java.lang.IllegalStateException: Incomplete log file in /c/offsets/3": ("CHECKPOINT_DAMAGED", ""),
    "TABLE_OLDER_THAN_CHECKPOINT": ("TABLE_WENT_BACK", ""),
    "CHECKPOINT_OLDER_THAN_REWIND": ("TABLE_REWOUND", ""),
    "STREAMING_SOURCES_CHANGED": ("SOURCES_CHANGED", ""),
    "DELTA_SOURCE_PUT_BACK": ("DELTA_SOURCE_PUT_BACK", ""),
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE": ("DELTA_SOURCE_REPLACED", "55019"),
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES": ("DELTA_SOURCE_CHANGED", "0A000"),
    "DELTA_SOURCE_IGNORE_DELETE": ("DELTA_SOURCE_CHANGED", "0A000"),
    "DELTA_SCHEMA_CHANGED_WITH_VERSION": ("DELTA_SOURCE_SCHEMA_CHANGED", "KD007"),
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG": ("DELTA_SOURCE_COLUMNS_REPLACED", "42KD4"),
    "DELTA_SOURCE_COLUMNS_DROPPED": ("DELTA_SOURCE_COLUMNS_DROPPED", ""),
    "DELTA_SOURCE_FILES_GONE": ("DELTA_SOURCE_FILES_GONE", ""),
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE": ("DELTA_HISTORY_GONE", "42K03"),
    "DELTA_TRUNCATED_TRANSACTION_LOG": ("DELTA_HISTORY_GONE", "42K03"),
    "DELTA_VERSIONS_NOT_CONTIGUOUS": ("DELTA_HISTORY_GONE", "KD00C"),
    "DELTA_MISSING_CHANGE_DATA": ("DELTA_HISTORY_GONE", "KD002"),
    "KAFKA_DATA_LOSS.START_OFFSET_RESET": ("KAFKA_OFFSETS_GONE", "22000"),
    "UNKNOWN_FIELD": ("NEW_COLUMNS", ""),
    "DELTA_STREAMING_METADATA_EVOLUTION": ("DELTA_SCHEMA_RECORDED", "22000"),
    "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION": ("DELTA_SCHEMA_CHANGE_NOT_ALLOWED", "KD002"),
    "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT": ("DELTA_SCHEMA_LOG_MISPLACED", "22000"),
    "UnknownFieldException: files have new columns": ("NEW_COLUMNS", ""),
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE": ("MERGE_AMBIGUOUS", "21506"),
    "java.net.ConnectException: Connection refused": ("CONNECTION_LOST", ""),
    "DATABASE_UNREACHABLE": ("CONNECTION_LOST", ""),
    "DATABASE_LOGIN_REFUSED": ("PERMISSION_MISSING", ""),
    "DATABASE_SELECT_MISSING": ("PERMISSION_MISSING", ""),
    "DATABASE_POSITION_LOST.SLOT_MISSING": ("POSTGRES_POSITION_LOST", ""),
    "DATABASE_POSITION_LOST.SLOT_INVALID": ("POSTGRES_POSITION_LOST", ""),
    "DATABASE_POSITION_LOST.SLOT_REPLACED": ("POSTGRES_SLOT_OF_ANOTHER", ""),
    "DATABASE_SLOT_NOT_OURS": ("POSTGRES_SLOT_OF_ANOTHER", ""),
    "DATABASE_SLOT_OF_OTHER_STORAGE": ("POSTGRES_SLOT_OF_ANOTHER", ""),
    "DATABASE_TRANSACTIONS_OPEN.PREPARED": ("POSTGRES_TRANSACTION_PREPARED", ""),
    "DATABASE_POSITION_LOST.PARTITION_ROOT": ("POSTGRES_POSITION_KEPT", ""),
    "DATABASE_POSITION_LOST.OTHER_SLOT": ("POSTGRES_POSITION_KEPT", ""),
    "DATABASE_POSITION_LOST.TWO_PHASE": ("POSTGRES_POSITION_KEPT", ""),
    "MYSQL_LOG_OFF": ("MYSQL_LOG_INCOMPLETE", ""),
    "DATABASE_POSITION_LOST.GTIDS_MISSING": ("MYSQL_SERVER_REPLACED", ""),
    "DATABASE_POSITION_LOST.GTIDS_UNREAD": ("MYSQL_SERVER_REPLACED", ""),
    "MYSQL_SERVER_TAKEN_OVER": ("MYSQL_SERVER_TAKEN_OVER", ""),
    "DATABASE_POSITION_LOST.SQLSERVER_DISABLED": ("SQLSERVER_CAPTURE_LOST", ""),
    "DATABASE_POSITION_LOST.SQLSERVER_WAY": ("SQLSERVER_OTHER_WAY", ""),
    "SQLSERVER_CAPTURE_GAP": ("SOURCE_TABLE_REPLACED", ""),
    "SQLSERVER_KEY_MOVED": ("SOURCE_TABLE_REPLACED", ""),
    "SQLSERVER_DRIVER_NOT_LOADED": ("SQLSERVER_DRIVER_INCOMPLETE", ""),
    "DATABASE_POSITION_LOST.LOG_RESET": ("SOURCE_POSITION_LOST", ""),
    "DATABASE_POSITION_INVALID": ("SOURCE_POSITION_LOST", ""),
    "Could not find first log file name in binary log index file": ("MYSQL_POSITION_LOST", ""),
    "the source has purged required binary logs with GTIDs": ("MYSQL_POSITION_LOST", ""),
    "the position is below CHANGE_TRACKING_MIN_VALID_VERSION": ("SQLSERVER_POSITION_LOST", ""),
    "DATABASE_COLUMN_MISSING": ("SOURCE_TABLE_CHANGED", ""),
    "INGESTION_WITHOUT_KEY": ("SOURCE_TABLE_CHANGED", ""),
    "INGESTION_TABLE_REPLACED": ("SOURCE_TABLE_REPLACED", ""),
    "INGESTION_HISTORY_TRUNCATED": ("SOURCE_TABLE_REPLACED", ""),
    "INGESTION_CHANGE_UNREADABLE": ("SOURCE_VALUE_UNREADABLE", ""),
    "FILE_ACCESS_DENIED": ("PERMISSION_MISSING", ""),
    "DATASET_NOT_WRITABLE": ("PERMISSION_MISSING", ""),
    "PRUNE_UNFINISHED": ("PRUNE_INTERRUPTED", ""),
    "DATABASE_LOG_NOT_READABLE": ("PERMISSION_MISSING", ""),
    "DATABASE_COMMIT_NOT_VISIBLE": ("CONNECTION_LOST", ""),
    "REWIND_UNFINISHED": ("REWIND_INTERRUPTED", ""),
    "REWIND_NOT_FINISHABLE": ("REWIND_INTERRUPTED", ""),
    "FLOW_SOURCE_UNREADABLE": ("SOURCE_UNREADABLE", ""),
    "CLOUD_FILES_SCHEMA_UNREADABLE": ("SOURCE_UNREADABLE", ""),
    "SPARK_OUT_OF_MEMORY": ("RESOURCES_EXHAUSTED", ""),
    "PYTHON_OUT_OF_MEMORY": ("RESOURCES_EXHAUSTED", ""),
    "PYTHON_PROCESS_ENDED": ("RESOURCES_EXHAUSTED", ""),
    "PYTHON_PROCESS_ENDED_AGAIN": ("ROW_NOT_USABLE", ""),
    "SPARK_LOST": ("RESOURCES_EXHAUSTED", ""),
    "SESSION_SETTING_INVALID": ("SESSION_UNFIT", ""),
    "SESSION_LIBRARY_MISSING": ("SESSION_UNFIT", ""),
    "STORAGE_CONNECTOR_FAILED": ("SESSION_UNFIT", ""),
    "PYTHON_OF_TASKS_UNFIT": ("SESSION_UNFIT", ""),
    "STORED_FILE_DAMAGED": ("STORED_FILE_DAMAGED", ""),
    "STORED_FORMAT_UNKNOWN": ("STORED_FILE_DAMAGED", ""),
    "QUARANTINE_UNREADABLE": ("STORED_FILE_DAMAGED", ""),
    "TEMPORARY_FOLDER_UNFIT": ("SESSION_UNFIT", ""),
    "CATALOG_SILENT": ("CATALOG_SILENT", ""),
    "CATALOG_ENTRY_LEFT": ("CATALOG_SILENT", ""),
    "java.io.EOFException": ("RESOURCES_EXHAUSTED", ""),
    "java.io.IOException: No space left on device": ("RESOURCES_EXHAUSTED", ""),
    "CAST_INVALID_INPUT": ("ROW_NOT_USABLE", "22018"),
    "EXPECTATION_VIOLATION": ("ROW_NOT_USABLE", ""),
    "the resume token was not found": ("STREAM_POSITION_LOST", ""),
}


@pytest.mark.parametrize("seen", ROWS)
def test_each_row_of_the_table_has_its_diagnosis(seen: str) -> None:
    """What an operator sees, a condition or a bare cause, leads to the diagnosis of its row, with its SQLSTATE."""
    is_condition = re.fullmatch(r"[A-Z0-9_.]+", seen) is not None
    found = diagnosis_of(seen if is_condition else "FLOW_FAILED", "" if is_condition else seen)
    assert (found.name, sqlstate_of(seen)) == ROWS[seen]


def test_no_diagnosis_is_without_a_row() -> None:
    """Each diagnosis of a fault is reached by a row, except for those that only Sluice itself can tell apart."""
    assert {each.name for each in every_diagnosis()} - OF_TESTS - {name for name, _ in ROWS.values()} == {
        "CONFLICTING_WRITER"
    }


def test_every_break_and_every_fault_that_may_heal_has_a_diagnosis() -> None:
    """A condition that stops a flow until someone acts, and one that retries gave up on, is never unknown."""
    assert [each for each in (*BREAKS, *RETRYABLE, *FACTS.retryable) if diagnosis_of(each) is UNKNOWN] == []
    texts = [re.sub(r"\(\?:([^|)]*)[^)]*\)", r"\1", each).replace("? ?", "").replace("?", "") for each in
             re.split(r"\|(?![^(]*\))", _CAN_HEAL.pattern)]  # fmt: skip
    assert [text for text in texts if diagnosis_of(text, text) is UNKNOWN] == []


def test_each_fault_of_a_source_database_has_a_diagnosis() -> None:
    """No condition with which a table, a snapshot or the log of a database fails a flow is unknown.

    Those that a declaration or a connection string causes say all that there is to say.
    """
    declared = ("OPTION", "CONNECTION", "KIND", "PARAMETER", "DRIVER", "SCHEMA", "NOT_FOUND", "QUERY")
    server = ("VERSION", "STANDBY", "ENCODING", "WAL_LEVEL", "SLOT_LOG", "LOG_SHORTER", "PARTITION_ROOT")
    notes = ("CHILD_TABLES", "GENERATED_COLUMNS", "TOAST_READ_AGAIN")
    flows = [
        name
        for name in (*POSTGRES_CONDITIONS, *DATABASE_CONDITIONS)
        if name.startswith(("SNAPSHOT_", "DATABASE_"))
        and not name.removeprefix("DATABASE_").startswith((*declared, *server, *notes))
    ]
    unknown = [name for name in flows if diagnosis_of(name) is UNKNOWN]
    assert (unknown, len(flows) > 40) == (["SNAPSHOT_IN_ONE_CHUNK"], True)  # which is no fault


def test_a_condition_of_ours_in_the_table_exists() -> None:
    """Faults without SQLSTATE are conditions of Sluice, or of sources that are still to come."""
    to_come = {"MYSQL_POSITION_LOST", "SQLSERVER_POSITION_LOST", "RESUME_TOKEN_LOST", "DATABASE_TABLE_REPLACED"}
    own = {
        fault.condition
        for each in every_diagnosis()
        if each.name not in OF_TESTS
        for fault in each.faults
        if not fault.sqlstate
    } - to_come
    known = {*EVERY_CONDITION, *RETRYABLE}
    assert [name for name in sorted(own) if not any(each.startswith(name) for each in known)] == []


def test_each_way_has_its_builder_and_a_diagnosis() -> None:
    """No way is named that nothing computes, and none is computed that no diagnosis has."""
    used = {way for each in (*every_diagnosis(), *WITHOUT_FAULT) for way in each.ways}
    assert used == set(Way) == set(_WAYS)


def test_the_cause_is_the_innermost_condition() -> None:
    """A flow's failure is named by what Spark or Delta raised, with the remedy and the line of the error."""
    text = (
        "[FLOW_FAILED] Flow main.s.t failed: [DELTA_SOURCE_IGNORE_DELETE] Rows are gone.\n"
        "  at shop.py:4\n  -> Correct the cause."
    )
    found = parse_error(text)
    assert (found.condition, found.cause) == ("DELTA_SOURCE_IGNORE_DELETE", "Rows are gone.")
    assert (found.location, found.remedy) == ("shop.py:4", "Correct the cause.")


AMOUNTS = (NONE, Amount(rows=2), unknown("a log is gone"))
COSTS = tuple(Cost(lost=lost, repeated=repeated) for lost, repeated in product(AMOUNTS, AMOUNTS))


@pytest.mark.parametrize("diagnosis", [*every_diagnosis(), *WITHOUT_FAULT], ids=lambda each: each.name)
def test_no_way_comes_before_one_with_less_harm(diagnosis: Diagnosis, swap: pytest.MonkeyPatch) -> None:
    """Whatever two ways of a diagnosis cost: one that loses rows is behind one that does not, then one that repeats.

    Ways of the same harm stay in the order of the diagnosis.
    """
    for (first, second), costs in product(combinations(diagnosis.ways, 2), product(COSTS, COSTS)):
        built = {
            way: lambda _, way=way, cost=cost: WayOut(way=way, text="", cost=cost)
            for way, cost in zip((first, second), costs, strict=True)
        }
        swap.setattr(ways, "_WAYS", {way: built.get(way, lambda _: None) for way in Way})
        case: Any = SimpleNamespace()
        before, after = ways_out(case, diagnosis)
        harms = [(each.cost.lost != NONE, each.cost.repeated != NONE) for each in (before, after)]
        assert harms == sorted(harms), (before, after)
        if costs[0] == costs[1]:
            assert (before.way, after.way) == (first, second)


def test_rows_that_no_way_brings_back_do_not_count_as_lost() -> None:
    """What Kafka has deleted is lost in each way: the one that reads what is left comes before one that skips it."""
    gone = unknown("unread records that Kafka has deleted", is_gone=True)
    earliest = Cost(lost=gone.plus(NONE), repeated=Amount(rows=10, at_most=True))
    latest = Cost(lost=gone.plus(unknown("all unread records")))
    assert Cost(lost=gone).severity < earliest.severity < latest.severity
