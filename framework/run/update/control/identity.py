"""The identity of an update: its id, its request and attempt, and the cause."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

_MOST_CHARACTERS = 200
_MOST_ATTEMPTS = 1_000_000


class UpdateCause(StrEnum):
    """The causes of an update, with Databricks' names."""

    API_CALL = "API_CALL"
    INFRASTRUCTURE_MAINTENANCE = "INFRASTRUCTURE_MAINTENANCE"
    JOB_TASK = "JOB_TASK"
    RETRY_ON_FAILURE = "RETRY_ON_FAILURE"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"
    SERVICE_UPGRADE = "SERVICE_UPGRADE"
    USER_ACTION = "USER_ACTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateIdentity:
    """The identity of one update; `of` validates external values.

    Args:
        update_id: the id of one update of a storage, a UUID. A retry is another update with its own id.
        request_id: the id shared by all attempts of one request; by default the id of the first attempt.
        attempt: the number of the attempt, from 1 to a million.
        cause: why the update was started.
        is_chosen: whether the id was chosen externally, so that another update may have it.
    """

    update_id: str
    request_id: str
    attempt: int = 1
    cause: UpdateCause = UpdateCause.USER_ACTION
    is_chosen: bool = False

    @classmethod
    def of(
        cls,
        *,
        update_id: str | None = None,
        request_id: str | None = None,
        attempt: int = 1,
        cause: str = UpdateCause.USER_ACTION,
    ) -> Self:
        """Return an identity; by default the identity of a new request.

        Raises:
            UserError: UPDATE_IDENTITY_INVALID.
        """
        made = str(uuid.uuid4()) if update_id is None else update_id
        request = made if request_id is None else request_id
        one_line = request.isprintable() and request.strip() and len(request) <= _MOST_CHARACTERS
        form = "It is a UUID in lower case, such as 7b1c0f3e-5a1f-4c5e-9d43-0d6f2a1b8c9e."
        line = f"It is one line of 1 to {_MOST_CHARACTERS} characters."
        numbers = f"Attempts are counted from 1 to {_MOST_ATTEMPTS:,}."
        known = f"It is one of {', '.join(UpdateCause)}.{nearest_hint(cause, tuple(UpdateCause))}"
        _check(_is_uuid(made), "id", made, form, "a new one")
        _check(one_line, "request id", request, line, "the id of the update")
        _check(1 <= attempt <= _MOST_ATTEMPTS, "attempt", attempt, numbers, "1")
        _check(cause in tuple(UpdateCause), "cause", cause, known, UpdateCause.USER_ACTION)
        return cls(
            update_id=made,
            request_id=request,
            attempt=attempt,
            cause=UpdateCause(cause),
            is_chosen=update_id is not None,
        )


def _is_uuid(text: str) -> bool:
    """Whether a text is a UUID in Python's spelling: the id is a file name, so it must have one spelling."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _check(is_valid: object, what: str, value: object, expected: str, default: str) -> None:
    if not is_valid:
        raise UserError("UPDATE_IDENTITY_INVALID", what=what, value=value, expected=expected, default=default)
