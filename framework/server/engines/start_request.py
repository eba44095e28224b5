"""A request to start an update, as the API has it, and the command line of its engine."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.secrets.secrecy import is_secret_name
from framework.run.update.control.identity import UpdateIdentity
from framework.server.pipelines import PipelineEntry

_LISTS = {
    "refresh_selection": "--refresh",
    "full_refresh_selection": "--full-refresh",
    "reset_checkpoint_selection": "--reset-checkpoint",
}
LONGEST_REASON = 1_000
"""The characters of a reason, which is kept in files and shown in lists."""
_LONGEST_ARGUMENT = 10_000
_MOST_NAMES = 1_000
_FLAGS = ("full_refresh", "validate_only")
_OURS = ("keep_history", "history_keys", "starts", "reason", "queue", "continuous")
_KNOWN = (*_LISTS, *_FLAGS, "parameters", "cause", "development", "sluice")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A request to start an update.

    Args:
        body: the fields of Databricks' `start_update`, and ours below `sluice`.
        user: who asks.
        request_id, attempt: for a further attempt of a request; None for a new request.
        key: the same request with the same key is one request, however often it is sent.
        is_compared: whether a request with the key of another one must have its body.
        queue: wait for the update that runs, instead of an error.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None
    request_id: str | None = None
    attempt: int = 1
    cause: str = "API_CALL"
    key: str | None = None
    is_compared: bool = False
    queue: bool = False

    def identity(self, entry: PipelineEntry) -> UpdateIdentity:
        """Return the identity of the update: by the key, or a new one.

        Raises:
            UserError: UPDATE_IDENTITY_INVALID.
        """
        made = uuid.uuid4() if self.key is None else uuid.uuid5(uuid.UUID(entry.pipeline_id), self.key)
        return UpdateIdentity.of(
            update_id=str(made),
            request_id=self.request_id,
            attempt=self.attempt,
            cause=self.body.get("cause", self.cause),
        )

    @property
    def ours(self) -> Mapping[str, Any]:
        """The fields below `sluice`."""
        return self.body.get("sluice") or {}

    @property
    def waits(self) -> bool:
        """Whether it waits for the update that runs."""
        return self.queue or bool(self.ours.get("queue"))

    def check(self) -> None:
        """Check the names and types of all fields: what is ignored would be done wrong.

        Raises:
            UserError: UPDATE_REQUEST_INVALID.
        """
        _check_names(self.body, _KNOWN)
        ours = self.body.get("sluice", {})
        _check("sluice", ours, isinstance(ours, dict), "an object")
        _check_names(ours, _OURS, prefix="sluice.")
        for name in _LISTS:
            _check_list(name, self.body.get(name))
        _check_list("sluice.history_keys", ours.get("history_keys"))
        flags = {each: self.body.get(each) for each in (*_FLAGS, "development")}
        flags |= {f"sluice.{each}": ours.get(each) for each in ("keep_history", "queue", "continuous")}
        for name, value in flags.items():
            _check(name, value, value is None or isinstance(value, bool), "true or false")
        _check_texts("parameters", self.body.get("parameters"))
        for flow, starts in _mapping("sluice.starts", ours.get("starts")).items():
            _check_list(f"sluice.starts.{flow}", [starts] if isinstance(starts, str) else starts)
        reason = ours.get("reason")
        good = reason is None or (isinstance(reason, str) and len(reason) <= LONGEST_REASON)
        _check("sluice.reason", reason, good, f"a text of at most {LONGEST_REASON:,} characters")


def engine_command(entry: PipelineEntry, request: StartRequest, identity: UpdateIdentity) -> tuple[str, ...]:
    """Return the command line of the engine for a request; each value is one argument with its option.

    Raises:
        UserError: UPDATE_REQUEST_INVALID.
    """
    body, ours = request.body, request.ours
    if body.get("development") not in (None, entry.spec.development):
        raise _invalid("development", "The spec decides it.")
    program = [sys.executable, "-m", "framework"]
    parameters = [f"--param={key}={value}" for key, value in (body.get("parameters") or {}).items()]
    if body.get("validate_only"):
        return (*program, "validate", f"--spec={entry.spec_file}", *parameters)
    starts = {flow: [each] if isinstance(each, str) else each for flow, each in (ours.get("starts") or {}).items()}
    selected = [
        argument
        for name, option in _LISTS.items()
        for each in body.get(name) or ()
        for argument in (f"{option}={each}", *(f"--from={start}" for start in _starts(option, each, starts)))
    ]
    flags = {"--full-refresh-all": body.get("full_refresh"), "--keep-history": ours.get("keep_history"),
             "--continuous": ours.get("continuous")}  # fmt: skip
    return (
        *program, "run", f"--spec={entry.spec_file}", f"--update-id={identity.update_id}",
        f"--request-id={identity.request_id}", f"--attempt={identity.attempt}", f"--cause={identity.cause}",
        *selected, *(flag for flag, is_set in flags.items() if is_set),
        *(f"--history-keys={key}" for key in ours.get("history_keys") or ()), *parameters,
    )  # fmt: skip


def _starts(option: str, flow: str, starts: Mapping[str, list[str]]) -> list[str]:
    return starts.get(flow, []) if option == "--reset-checkpoint" else []


def _check_names(values: Mapping[str, Any], known: tuple[str, ...], prefix: str = "") -> None:
    for name in values:
        if name not in known:
            why = f"The field does not exist, or is not supported.{nearest_hint(name, known)}"
            raise _invalid(prefix + name, why)


def _check_list(name: str, value: object) -> None:
    good = value is None or (isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value))
    _check(name, value, good, "a list of texts")
    short = not isinstance(value, list) or (
        len(value) <= _MOST_NAMES and all(len(each) <= _LONGEST_ARGUMENT for each in value)
    )
    _check(name, value, short, f"a list of at most {_MOST_NAMES:,} names of at most {_LONGEST_ARGUMENT:,} characters")
    commas = [each for each in value or () if "," in each] if isinstance(value, list) else []
    _check(name, value, not commas, "a list of names without commas")


def _check_texts(name: str, value: object) -> None:
    for key, text in _mapping(name, value).items():
        _check(f"{name}.{key}", text, isinstance(text, str), "a text")
        short = len(key) + len(text) <= _LONGEST_ARGUMENT
        _check(f"{name}.{key[:80]}", text, short, f"a text of at most {_LONGEST_ARGUMENT:,} characters")
        _check(f"{name}.{key}", text, key.strip() and "=" not in key, "named without an equals sign")
        if is_secret_name(key):
            why = "Its name is that of a secret, and command lines are visible to other users."
            raise _invalid(f"{name}.{key}", why)


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    _check(name, value, value is None or isinstance(value, dict), "an object")
    return value if isinstance(value, dict) else {}


def _check(name: str, value: object, is_good: object, expected: str) -> None:
    del value  # it may be a secret
    if not is_good:
        raise _invalid(name, f"It must be {expected}.")


def _invalid(name: str, why: str) -> UserError:
    return UserError("UPDATE_REQUEST_INVALID", field=name, why=why)
