"""The workspace as a deploy calls it: the SDK's client, with writes that are never blindly made twice."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from databricks.sdk.errors import NotFound, PermissionDenied, ResourceConflict, Unauthenticated
from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.single_attempts import CALL_ERRORS, SingleTries, is_passing, is_refusal, seconds_asked_for
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.secrecy import hide_in_text

if TYPE_CHECKING:
    from databricks.sdk.core import Config

_MOST_TRIES = 8
_MOST_WAIT_SECONDS = 900.0
_RETRY_SECONDS = 300.0


class AnswerLost(OperationError):  # noqa: N818 - it tells what happened, and may be no error in the end
    """A write whose effect is not known: the line was cut, or the service failed on its way.

    Args:
        wait_seconds: before it is asked again; what the service said, if it did.
    """

    def __init__(self, condition: str, *, wait_seconds: float = 1.0, **fields: Any) -> None:
        super().__init__(condition, **fields)
        self.wait_seconds = wait_seconds


class Workspace:
    """Reads and writes of one workspace.

    Reads are tried again while there is hope. Writes are tried again only after a 429, which says that nothing
    was done; what else may have taken effect is for the caller to look up. A time to wait that the service names
    is kept to, up to a quarter of an hour for one call.

    Args:
        config: of the SDK: host, credentials, warehouse; its time for retries bounds those of reads.
        clock: what waits between tries go by.
    """

    def __init__(self, config: Config, *, clock: Clock) -> None:
        self.warehouse_id: str | None = config.warehouse_id
        self.host: str = config.host or ""
        self.clock = clock
        self._retry_seconds = float(config.retry_timeout_seconds or _RETRY_SECONDS)
        self._tries = SingleTries(config)

    def read(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a GET answers.

        Raises:
            NotFound: there is nothing.
            OperationError: WORKSPACE_UNAUTHENTICATED, WORKSPACE_FORBIDDEN, WORKSPACE_CALL_FAILED.
        """
        patience = _Patience(self.clock, self._retry_seconds)
        while True:
            try:
                return self._tries.call("GET", path, query=query)
            except NotFound:
                raise
            except CALL_ERRORS as error:
                if not is_passing(error) or not patience.waits(error):
                    raise _translated(error, "GET", path) from None

    def find(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """What a GET answers; None when there is nothing."""
        try:
            return self.read(path, query)
        except NotFound:
            return None

    def write(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a write answers, made once.

        Raises:
            AnswerLost: WORKSPACE_ANSWER_LOST when it may have taken effect.
            NotFound, ResourceConflict: the caller knows what they mean.
            OperationError: it was refused.
        """
        patience = _Patience(self.clock, self._retry_seconds)
        while True:
            try:
                return self._tries.call(method, path, query=None, body=body)
            except (NotFound, ResourceConflict):
                raise
            except CALL_ERRORS as error:
                if not is_refusal(error):
                    seconds = seconds_asked_for(error) or 1.0
                    raise AnswerLost("WORKSPACE_ANSWER_LOST", wait_seconds=seconds, method=method, path=path) from None
                if not is_passing(error) or not patience.waits(error):
                    raise _translated(error, method, path) from None

    def repeat(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a write answers that may be made twice, such as overwriting a file; a lost answer is asked for again."""
        waited = 0.0
        for _ in range(_MOST_TRIES - 1):
            try:
                return self.write(method, path, body)
            except AnswerLost as lost:
                waited += lost.wait_seconds
                if waited > _MOST_WAIT_SECONDS:
                    raise
                self.clock.sleep(lost.wait_seconds)
        return self.write(method, path, body)

    def read_file(self, path: str) -> str | None:
        """The text of a workspace file; None when there is none."""
        found = self.find("/api/2.0/workspace/export", {"path": path, "format": "AUTO"})
        return None if found is None else base64.b64decode(found["content"]).decode("utf-8")

    def write_file(self, path: str, content: bytes, *, overwrite: bool = True) -> None:
        """Write a workspace file; its folder must be there.

        Raises:
            ResourceConflict, NotFound: it exists and `overwrite` is False, or its folder does not.
        """
        body = {
            "path": path,
            "format": "AUTO",
            "overwrite": overwrite,
            "content": base64.b64encode(content).decode("ascii"),
        }
        (self.repeat if overwrite else self.write)("POST", "/api/2.0/workspace/import", body)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        self.repeat("POST", "/api/2.0/workspace/mkdirs", {"path": path})

    def delete_file(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or a folder; what is not there is deleted."""
        try:
            self.repeat("POST", "/api/2.0/workspace/delete", {"path": path, "recursive": recursive})
        except NotFound:
            return


class _Patience:
    """How long one call is tried again: by what the service asks for, or a little longer each time."""

    def __init__(self, clock: Clock, retry_seconds: float) -> None:
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._began = clock.monotonic()
        self._tries = 0
        self._asked = 0.0

    def waits(self, error: Exception) -> bool:
        """Wait before the next try; False, at once, when there is none."""
        asked = seconds_asked_for(error)
        self._tries += 1
        self._asked += asked or 0.0
        unasked = self._clock.monotonic() - self._began - self._asked
        if unasked > self._retry_seconds or self._asked > _MOST_WAIT_SECONDS:
            return False
        self._clock.sleep(min(10.0, float(self._tries)) if asked is None else asked)
        return True


def _translated(error: Exception, method: str, path: str) -> OperationError:
    call = f"{method} {path}"
    if isinstance(error, Unauthenticated):
        return OperationError("WORKSPACE_UNAUTHENTICATED", call=call)
    if isinstance(error, PermissionDenied):
        return OperationError("WORKSPACE_FORBIDDEN", call=call)
    text = hide_in_text(str(error)) if isinstance(error, DatabricksError) else type(error).__name__
    asked = seconds_asked_for(error)
    if asked is not None:
        text = f"{text} It asked us to wait {asked:.0f} seconds more."
    return OperationError("WORKSPACE_CALL_FAILED", call=call, cause=text)
