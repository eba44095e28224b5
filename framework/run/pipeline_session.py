"""The Spark session of one pipeline: an existing one, or one that is started at the first use."""

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
from framework.session.mapped_files import mapped_file_settings
from framework.session.spark_session import DEFAULT_MASTER, active_session, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHORT_UPDATE_SECONDS = 60.0


class PipelineSession:
    """A session for one pipeline, so that two pipelines in one process don't mix settings.

    Args:
        base: an existing session; None to start one.
        master: URL of the Spark master; default `local[*]`.
        short: start Spark for a short-running command; None: if the last updates were short.
        verbose: print Spark's log.
        cold: start Spark, even if a session server has it ready.
    """

    def __init__(
        self,
        *,
        base: SparkSession | None = None,
        master: str | None = None,
        short: bool | None = False,
        verbose: bool = False,
        cold: bool = False,
    ) -> None:
        self._base, self._master = base, master
        self._short, self._verbose, self._cold = short, verbose, cold
        self._own: SparkSession | None = None

    def get(self, spec: PipelineSpec) -> SparkSession:
        """Return the session with the settings of a pipeline, and the secrets that they refer to.

        Raises:
            OperationError: SPARK_VERSION_NOT_TESTED.
            GraphErrors: SECRET_MISSING for each secret that is nowhere, SECRETS_EXPOSED.
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
            session_warning()
            # An existing session may lack our settings; static ones can't be changed.
            base = self._base
            settings = {key: value for key, value in spark_conf if base.conf.isModifiable(key)}
            paths = mapped_file_settings(base, spec.workspace.paths)
            self._own = session_for(base, {**settings, **dict(configuration), **paths})
        return self._own

    def renew(self) -> None:
        """Let the next call of `get` return a new session: the last one has the functions that old code registered."""
        self._own = None

    def uses(self, base: SparkSession) -> bool:
        """Whether the pipeline's session is in the Java machine of another one."""
        return self._base is not None and self._base.sparkContext is base.sparkContext

    def close(self) -> bool:
        """Stop the session if a pipeline started it and no other one uses it; return whether this one has none now."""
        if self._base is None or not _STARTED.has(self):
            return False
        _STARTED.remove(self, self._base)
        self._base = self._own = None
        return True


class _StartedSession:
    """The pipelines that use the session which one of them started; the process has one Java machine for them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: WeakSet[PipelineSession] = WeakSet()  # a pipeline that nobody refers to needs no session

    def add(self, user: PipelineSession, base: SparkSession, *, is_started: bool) -> None:
        """Add a pipeline whose session was started now, or is that of the pipelines here; not one of the user's."""
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
    """Return the formats with packages that the files of a pipeline name, or modules of its folders that they import.

    Errors of the files are found later.
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
    """Return whether the last updates took less than a minute each: then Java compiles for its start only.

    Java can't change that later, so an update that turns out to be long takes about a fifth longer (ADR 26). None if
    there was no update.
    """
    if spec.continuous or not is_local(spec.storage):
        return False
    longest = longest_update_seconds(open_storage(spec.storage, None))
    return None if longest is None else longest < _SHORT_UPDATE_SECONDS
