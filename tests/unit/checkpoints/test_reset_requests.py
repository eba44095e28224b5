"""Resets that wait for the flow of a continuous update."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.testing.manual_clock import ManualClock

FLOW = QualifiedName(catalog="main", schema="s", table="größe.2")


class Killed(BaseException):
    """Ends a step as a kill does."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """No failpoint stays armed."""
    yield
    disarm()


def test_a_reset_that_dies_before_its_request_is_gone_is_done_again(tmp_path: Path) -> None:
    """The generation that it had begun has read nothing. The last request for a flow counts."""
    storage, clock = LocalStorage(str(tmp_path)), ManualClock()
    resets, generations = ResetRequests(storage, clock), GenerationStore(storage)
    for start in ("startingVersion=1", "startingVersion=2"):
        resets.ask(ResetRequest(dataset=FLOW, flow=FLOW, start=start))
    (asked,) = resets.new()

    def kill() -> None:
        raise Killed

    arm("resets.after_begin", action=kill)
    with pytest.raises(Killed):
        resets.begin(asked)
    assert resets.new() == ()
    clock.sleep(2)
    assert resets.new() == (asked,)
    assert resets.begin(asked).number == 2
    assert [(each.state, each.start) for each in generations.read(FLOW, FLOW)] == [
        (GenerationState.KEPT, "startingVersion=2"), (GenerationState.CURRENT, "startingVersion=2")
    ]  # fmt: skip
    assert resets.pending() == ()


def test_a_reset_is_done_once_although_its_request_comes_back(tmp_path: Path) -> None:
    """From an older copy of the storage's folder, or by a kill: an append flow would have all its rows twice."""
    storage, clock = LocalStorage(str(tmp_path)), ManualClock()
    resets, generations = ResetRequests(storage, clock), GenerationStore(storage)
    first = generations.begin(FLOW, FLOW, reason="first run")
    asked = ResetRequest(dataset=FLOW, flow=FLOW, start=None, ends=first.number)
    resets.ask(asked)
    (read,) = resets.pending()
    assert resets.begin(read).number == 2
    resets.ask(asked)  # the older copy
    assert resets.begin(asked).number == 2
    assert (resets.pending(), len(generations.read(FLOW, FLOW))) == ((), 2)
    resets.ask(ResetRequest(dataset=FLOW, flow=FLOW, start=None, ends=2))
    assert resets.begin(*resets.pending()).number == 3


def test_a_request_of_another_release_does_not_end_a_running_update(tmp_path: Path) -> None:
    """The update goes on with the other requests, and the file stays for the next update, which refuses to begin."""
    storage = LocalStorage(str(tmp_path))
    resets, asked = ResetRequests(storage, ManualClock()), ResetRequest(dataset=FLOW, flow=FLOW, start=None)
    resets.ask(asked)
    storage.write_text(storage.path("resets", "a~a.json"), '{"format": 9}')
    assert resets.new() == (asked,)
    with pytest.raises(OperationError, match=r"STORED_FORMAT_UNKNOWN"):
        resets.pending()
