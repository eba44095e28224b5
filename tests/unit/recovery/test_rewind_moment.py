"""`--to` names a time with its zone, or an update that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.record.drafts import update_progress
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.recovery.rewind.point_in_time import parse_point_in_time
from framework.testing.manual_clock import START, ManualClock

ENDED, RUNNING = "6a1f0c9e-7d1c-4a52-9c6a-3f0f5d2b8e11", "0b6e5a3c-1111-4f0e-8a58-2f7f2d6f9b22"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """An event log with an update that has ended a minute after the start, and one that has not."""
    storage = LocalStorage(str(tmp_path))
    clock = ManualClock()
    for update, state in ((ENDED, "COMPLETED"), (RUNNING, "RUNNING")):
        clock.sleep(30)
        with EventLog(storage, Origin(pipeline_id="p", pipeline_name="p", update_id=update), clock) as log:
            log.record(update_progress(state="INITIALIZING"))
            clock.sleep(30)
            log.record(update_progress(state=state))
    return storage


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2026-01-01T00:01:30Z", 90), ("2026-01-01 01:01:30.5+01:00", 90.5), (ENDED, 60), (ENDED.upper(), 60)],
)
def test_a_moment_is_a_time_or_the_end_of_an_update(storage: LocalStorage, text: str, seconds: float) -> None:
    """The moment has the time in the zone that is written, or of the last event of the update."""
    clock = ManualClock()
    clock.sleep(1000)
    found = parse_point_in_time(f" {text} ", storage, clock)
    assert found.time_ms == round((START.timestamp() + seconds) * 1000)
    assert (found.begun_ms is not None) == (found.request.lower() == ENDED)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("yesterday", "REWIND_TIME_INVALID"),
        ("2026-01-01T00:01:30", "REWIND_TIME_WITHOUT_ZONE"),
        ("2026-01-01", "REWIND_TIME_WITHOUT_ZONE"),
        ("2027-01-01T00:00:00Z", "REWIND_TIME_IN_FUTURE"),
        (ENDED.replace("6a", "7b"), "REWIND_UPDATE_NOT_FOUND"),
        (RUNNING, "REWIND_UPDATE_NOT_ENDED"),
    ],
)
def test_a_moment_that_is_not_clear_is_refused(storage: LocalStorage, text: str, condition: str) -> None:
    """Each fault has its condition; an update with a typing error names the nearest one."""
    with pytest.raises(UserError) as caught:
        parse_point_in_time(text, storage, ManualClock())
    assert caught.value.condition == condition
    if condition == "REWIND_UPDATE_NOT_FOUND":
        assert ENDED in caught.value.render()
