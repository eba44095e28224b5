"""The Spark session of one pipeline: an existing session, or one that is started at its first use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from framework.declare.modules.imported_files import with_imported
from framework.declare.modules.loader import library_files
from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.spec_secrets import settings_of
from framework.engine.files.storage import open_storage
from framework.engine.registry.session_check import session_warning
from framework.foundation.errors import UserError
from framework.foundation.files.storage import is_local
from framework.record.reader import longest_update_seconds
from framework.run.flows.streaming_query import session_for
from framework.session.connectors import formats_in
from framework.session.frozen_time import allow_frozen_time
from framework.session.mapped_files import mapped_file_settings
from framework.session.spark_session import DEFAULT_MASTER, active_session, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHORT_UPDATE_SECONDS = 60.0


class PipelineSession:
    """A Spark session for one pipeline, so that two pipelines in one process don't share settings.

    Args:
        base: an existing session; None to start one.
        master: URL of the Spark master; default `local[*]`.
        short: start Spark for a short-running command; None to decide by the duration of the last updates.
        verbose: print Spark's log.
        cold: start Spark even if a session server has a session ready.
        is_clocked: the time of the session can be frozen.
    """

    def __init__(
        self,
        *,
        base: SparkSession | None = None,
        master: str | None = None,
        short: bool | None = False,
        verbose: bool = False,
        cold: bool = False,
        is_clocked: bool = False,
    ) -> None:
        self._base, self._master, self._is_clocked = base, master, is_clocked
        self._short, self._verbose, self._cold = short, verbose, cold
        self._own: SparkSession | None = None

    def get(self, spec: PipelineSpec) -> SparkSession:
        """Return the session with the pipeline's settings and the secrets that they reference.

        Raises:
            OperationError: SPARK_VERSION_NOT_TESTED.
            GraphErrors: SECRET_MISSING for each secret that is not found, SECRETS_EXPOSED.
        """
        if self._own is None:
            spark_conf, configuration = settings_of(spec)
            if self._base is None:
                is_started = active_session() is None
                self._base = start_session(
                    app_name=f"sluice {spec.name}",
                    master=self._master or DEFAULT_MASTER,
                    spark_conf=dict(spark_conf),
                    verbose=self._verbose,
                    short=_updates_are_short(spec) if self._short is None else self._short,
                    cold=self._cold,
                    formats=named_formats(spec),
                )
                _STARTED.add(self, self._base, is_started=is_started)
            session_warning(self._base)
            # An existing session may lack our settings; static ones can't be changed.
            base = self._base
            settings = {key: value for key, value in spark_conf if base.conf.isModifiable(key)}
            paths = mapped_file_settings(base, spec.workspace.paths)
            if self._is_clocked:
                allow_frozen_time(base)
            self._own = session_for(base, {**settings, **dict(configuration), **paths})
        return self._own

    def renew(self) -> None:
        """Let the next `get` return a new session: the last one still has functions that old code registered."""
        self._own = None

    def sibling(self, spec: PipelineSpec) -> PipelineSession:
        """Return a session of the same JVM without settings and views of this one, whose time can be frozen."""
        self.get(spec)
        assert self._base is not None
        return PipelineSession(base=self._base.newSession(), is_clocked=True)

    def uses(self, base: SparkSession) -> bool:
        """Whether the pipeline's session runs in the same JVM as the other session."""
        return self._base is not None and self._base.sparkContext is base.sparkContext

    def close(self) -> bool:
        """Release a session that a pipeline started and stop it after its last user; return whether it was released."""
        if self._base is None or not _STARTED.has(self):
            return False
        _STARTED.remove(self, self._base)
        self._base = self._own = None
        return True


class _StartedSession:
    """The pipelines that use the session that one of them started; all share the one JVM of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: WeakSet[PipelineSession] = WeakSet()  # unreferenced pipelines need no session

    def add(self, user: PipelineSession, base: SparkSession, *, is_started: bool) -> None:
        """Add a pipeline if its session was started now or is shared with one here; skip sessions of the user."""
        with self._lock:
            if is_started:
                self._users.clear()
            if is_started or any(each.uses(base) for each in self._users):
                self._users.add(user)

    def has(self, user: PipelineSession) -> bool:
        """Whether the pipeline uses the session."""
        return user in self._users

    def remove(self, user: PipelineSession, base: SparkSession) -> None:
        """Stop the session when its last user is done."""
        with self._lock:
            self._users.discard(user)
            is_last = not self._users
        if is_last:
            stop_session(base)


_STARTED = _StartedSession()


def named_formats(spec: PipelineSpec) -> tuple[str, ...]:
    """Return the formats that need packages and that the pipeline's files, or the local modules they import, name.

    Errors in these files are ignored here and reported later.
    """
    if spec.root is None:
        return ()
    root = Path(spec.root)
    folders = [root] if spec.root_path is None else [root, root / spec.root_path]
    try:
        files = library_files(spec, root, (".py", ".ipynb", ".sql"))
        return formats_in(text for _, text in with_imported(files, folders))
    except (UserError, OSError):
        return ()


def _updates_are_short(spec: PipelineSpec) -> bool | None:
    """Return whether each of the last updates took less than a minute; None if there was no update.

    If so, the JVM compiles for a fast start only. It can't change that later, so an update that turns out to be long
    takes about a fifth longer (ADR 26).
    """
    if spec.continuous or not is_local(spec.storage):
        return False
    longest = longest_update_seconds(open_storage(spec.storage, None))
    return None if longest is None else longest < _SHORT_UPDATE_SECONDS
