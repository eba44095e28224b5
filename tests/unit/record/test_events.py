"""Events have Databricks' field names, survive the way to a line and back, and hide secrets."""

from __future__ import annotations

import json

import pytest

from framework.foundation.errors import OperationError
from framework.record import drafts
from framework.record.events import (
    Event,
    EventError,
    EventLevel,
    EventType,
    ExceptionSummary,
    MaturityLevel,
    Origin,
    parse_event,
    summarize_error,
)

ERROR = EventError(fatal=True, exceptions=(ExceptionSummary(class_name="ValueError", message="no\nway"),))
EVENT = Event(
    id="e-1",
    sequence=7,
    origin=Origin(pipeline_id="p", pipeline_name="flights", update_id="u-1", dataset_name="m.f.t", flow_name="m.f.t"),
    timestamp="2026-01-01T00:00:00.000Z",
    message="Grüße\u2028\n",
    level=EventLevel.ERROR,
    maturity_level=MaturityLevel.STABLE,
    error=ERROR,
    details={"flow_progress": {"status": "FAILED"}},
    event_type=EventType.FLOW_PROGRESS,
)


def test_a_row_has_the_fields_of_databricks_event_log() -> None:
    """The row is the documented shape, name by name."""
    assert EVENT.to_row() == {
        "id": "e-1",
        "sequence": {"data_plane_id": {"instance": "u-1", "seq_no": 7}},
        "origin": {
            "pipeline_id": "p",
            "pipeline_name": "flights",
            "update_id": "u-1",
            "dataset_name": "m.f.t",
            "flow_name": "m.f.t",
        },
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": "Grüße\u2028\n",
        "level": "ERROR",
        "maturity_level": "STABLE",
        "error": {"fatal": True, "exceptions": [{"class_name": "ValueError", "message": "no\nway"}]},
        "details": {"flow_progress": {"status": "FAILED"}},
        "event_type": "flow_progress",
    }


def test_an_event_comes_back_from_its_line() -> None:
    """One event is one line, whatever its texts contain, and reads back equal."""
    line = EVENT.to_line()
    assert (line.count("\n"), line[-1], parse_event(line)) == (1, "\n", EVENT)


@pytest.mark.parametrize("line", ["", "{", "3", "null", "{}", EVENT.to_line()[:-30], '{"id": "e", "error": null}'])
def test_what_is_no_event_reads_as_none(line: str) -> None:
    """Cut-off and foreign lines are no events, and no errors."""
    assert parse_event(line) is None


def test_an_error_is_told_with_its_causes() -> None:
    """The outermost exception comes first, followed by its causes."""
    error = OperationError("STORAGE_NOT_WRITABLE", path="/x", problem="disk full")
    error.__cause__ = OSError("disk full")
    assert summarize_error(error, fatal=False) == EventError(
        fatal=False,
        exceptions=(
            ExceptionSummary(class_name="OperationError", message=str(error)),
            ExceptionSummary(class_name="OSError", message="disk full"),
        ),
    )


def test_every_constructor_has_one_key_named_after_its_type() -> None:
    """Each type has a constructor, whose details are JSON below the type's own name."""
    made = [
        drafts.create_update(cause="USER_ACTION"),
        drafts.user_action(action="STOP", user_name="ann"),
        drafts.update_progress(state="RUNNING"),
        drafts.flow_progress(flow="f", dataset="d", status="RUNNING"),
        drafts.flow_definition(flow="f", dataset="d", flow_type="APPEND"),
        drafts.dataset_definition(dataset="d", dataset_type="STREAMING_TABLE", num_flows=1),
        drafts.sink_definition(sink="s", format="kafka"),
        drafts.planning_information(dataset="d", technique="NO_OP", reason="nothing changed"),
        drafts.operation_progress(operation="CDC_SNAPSHOT", status="STARTED"),
        drafts.stream_progress(flow="f", dataset="d", progress={"batch_id": 3}),
        drafts.hook_progress(hook="h", status="FAILED", message="m"),
    ]
    assert {draft.event_type for draft in made} == set(EventType)
    assert [list(json.loads(json.dumps(draft.details))) for draft in made] == [[draft.event_type] for draft in made]


def test_a_flow_tells_its_metrics_and_data_quality() -> None:
    """The counts are at the paths that SQL queries of Databricks' log use."""
    quality = drafts.data_quality(
        dropped_records=2,
        expectations=[drafts.ExpectationRecord(name="valid", dataset="d", passed_records=8, failed_records=2)],
    )
    draft = drafts.flow_progress(
        flow="f", dataset="d", status="RUNNING", metrics={"num_output_rows": 8}, quality=quality
    )
    assert (draft.level, draft.dataset, draft.flow) == (EventLevel.METRICS, "d", "f")
    assert draft.details == {
        "flow_progress": {
            "status": "RUNNING",
            "metrics": {"num_output_rows": 8},
            "data_quality": {
                "dropped_records": 2,
                "expectations": [{"name": "valid", "dataset": "d", "passed_records": 8, "failed_records": 2}],
            },
        }
    }


@pytest.mark.parametrize(
    ("status", "level"),
    [("COMPLETED", "INFO"), ("FAILED", "ERROR"), ("SKIPPED", "WARN"), ("RUNNING", "INFO")],
)
def test_a_flow_that_failed_is_louder_than_one_that_completed(status: str, level: str) -> None:
    """The status of a flow sets the level of its event."""
    assert drafts.flow_progress(flow="f", dataset="d", status=status).level == level


def test_secrets_in_options_are_hidden() -> None:
    """Options with secret names show their key only; others are unchanged."""
    options = {"kafka.sasl.jaas.config": "x", "password": "x", "fs.s3a.access.key": "x", "topic": "t", "dbtable": "b"}
    draft = drafts.sink_definition(sink="s", format="kafka", options=options)
    assert draft.details["sink_definition"]["options"] == {
        "kafka.sasl.jaas.config": "[REDACTED]",
        "password": "[REDACTED]",
        "fs.s3a.access.key": "[REDACTED]",
        "topic": "t",
        "dbtable": "b",
    }
