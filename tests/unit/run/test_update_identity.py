"""The id, the request, the attempt and the cause that an update gets from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from framework.foundation.errors import UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.record import drafts
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.record.reader import read_events
from framework.run.update.control.identity import UpdateCause, UpdateIdentity
from framework.run.update.control.update_log import claim_id

CLAIM = """
import sys
from framework.foundation.files.local_storage import LocalStorage
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.update_log import claim_id

claim_id(LocalStorage(sys.argv[1]), UpdateIdentity.of(update_id=sys.argv[2]))
"""
UPDATE = "7b1c0f3e-5a1f-4c5e-9d43-0d6f2a1b8c9e"


class WithoutAppend(LocalStorage):
    """A storage in which each write creates a file, as on S3."""

    can_append = False


def test_an_update_is_the_first_attempt_of_its_own_request_by_default() -> None:
    """A new id each time, which is that of the request too; the cause is a user's action."""
    first, second = UpdateIdentity.of(), UpdateIdentity.of()
    assert str(UUID(first.update_id)) == first.update_id != second.update_id
    assert (first.request_id, first.attempt, first.cause, first.is_chosen) == (first.update_id, 1, "USER_ACTION", False)


def test_what_comes_from_outside_is_kept() -> None:
    """A retry has the id of its own, and the request of the attempt before."""
    found = UpdateIdentity.of(update_id=UPDATE, request_id="nightly 2026-11-28", attempt=2, cause="RETRY_ON_FAILURE")
    assert found == UpdateIdentity(
        update_id=UPDATE, request_id="nightly 2026-11-28", attempt=2, cause=UpdateCause.RETRY_ON_FAILURE, is_chosen=True
    )


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"update_id": "../../etc/passwd"}, "id"),
        ({"update_id": UPDATE.upper()}, "id"),
        ({"update_id": UPDATE.replace("-", "")}, "id"),
        ({"update_id": f"{UPDATE}-00001"}, "id"),
        ({"update_id": ""}, "id"),
        ({"request_id": "two\nlines"}, "request id"),
        ({"request_id": " "}, "request id"),
        ({"request_id": "x" * 201}, "request id"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": 1_000_001}, "attempt"),
        ({"cause": "USER_ACTON"}, "cause"),
    ],
)
def test_what_can_not_be_an_identity_is_refused(given: dict[str, Any], what: str) -> None:
    """An id is the name of a file and has one spelling; the error names what is wrong with which value."""
    with pytest.raises(UserError) as caught:
        UpdateIdentity.of(**given)
    assert (caught.value.condition, caught.value.fields["what"]) == ("UPDATE_IDENTITY_INVALID", what)


@pytest.mark.parametrize(
    ("given", "default"),
    [
        ({"update_id": "x"}, "a new one"),
        ({"request_id": ""}, "the id of the update"),
        ({"attempt": 10**30}, "1"),
        ({"cause": "x"}, "USER_ACTION"),
    ],
)
def test_the_remedy_names_the_default_of_what_is_refused(given: dict[str, Any], default: str) -> None:
    """Each of the four has its own default."""
    with pytest.raises(UserError) as caught:
        UpdateIdentity.of(**given)
    assert caught.value.remedy == f"Correct it, or leave it out: it is then {default}."


@pytest.mark.parametrize("kind", [LocalStorage, WithoutAppend])
def test_an_id_is_claimed_once_and_two_updates_never_write_to_one_log(kind: type[LocalStorage], tmp_path: Path) -> None:
    """The second claim is refused, also if the first update was killed before its first event."""
    storage, identity = kind(str(tmp_path)), UpdateIdentity.of(update_id=UPDATE)
    claim_id(storage, identity)
    with pytest.raises(UserError) as caught:
        claim_id(storage, replace(identity, attempt=2))
    assert caught.value.condition == "UPDATE_ID_USED"
    with EventLog(storage, Origin.of("shop", storage.root, UPDATE)) as log:
        log.record(drafts.update_progress(state="RUNNING"))
    assert [event.sequence for event in read_events(storage)] == [1]
    claim_id(storage, UpdateIdentity.of(request_id=UPDATE, attempt=2))


def test_an_update_that_is_killed_after_its_claim_has_used_its_id(tmp_path: Path) -> None:
    """It has no event; its id is refused, and the next attempt, with another id, has the log to itself."""
    environment = {**os.environ, "SLUICE_FAILPOINT": "updates.after_claim"}
    killed = subprocess.run([sys.executable, "-c", CLAIM, str(tmp_path), UPDATE], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    storage = LocalStorage(str(tmp_path))
    assert read_events(storage) == []
    with pytest.raises(UserError) as caught:
        claim_id(storage, UpdateIdentity.of(update_id=UPDATE))
    assert caught.value.condition == "UPDATE_ID_USED"
    claim_id(storage, UpdateIdentity.of(update_id=UPDATE.replace("7", "6"), request_id=UPDATE, attempt=2))


def test_an_id_is_used_while_any_file_of_its_log_exists(tmp_path: Path) -> None:
    """A log that began before thirty days has lost its first file."""
    storage = LocalStorage(str(tmp_path))
    storage.write_text(storage.path("events", f"{UPDATE}-00007.jsonl"), "")
    with pytest.raises(UserError) as caught:
        claim_id(storage, UpdateIdentity.of(update_id=UPDATE))
    assert caught.value.condition == "UPDATE_ID_USED"
