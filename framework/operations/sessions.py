"""Starts a session that keeps Spark ready for a folder, with the settings of the folder's pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.declare.pipeline_spec import find_spec, load_spec
from framework.declare.spec_secrets import settings_of
from framework.foundation.clock import Clock
from framework.foundation.errors import UserError
from framework.run.pipeline_session import named_formats
from framework.session.keeper_client.client import session_status, start_server
from framework.session.keeper_client.login import Login
from framework.session.spark_session import DEFAULT_MASTER


def keep_spark(
    spec: Path | None, *, folder: Path, master: str | None, idle_seconds: float, login: Login, clock: Clock
) -> Mapping[str, Any]:
    """Start a session for the working folder, unless one is ready; return its status.

    Args:
        spec: the spec file with the settings; None for the nearest one of `folder`, if there is one.
        folder: the folder from which to search for a spec.
        master: URL of the Spark master; None for the default.
        idle_seconds: how long the session runs without a command.
        login: the login that the session ends with.
        clock: the clock for the wait until it starts.

    Raises:
        UserError: the spec is missing or invalid.
        OperationError: the session does not start.
    """
    running = session_status()
    if running is not None:
        return running
    try:
        found = load_spec(spec or find_spec(folder))
        spark_conf, formats = dict(settings_of(found)[0]), named_formats(found)
    except UserError as error:
        if spec or error.condition != "PIPELINE_SPEC_FILE_NOT_FOUND":
            raise
        spark_conf, formats = {}, ()
    return start_server(
        master=master or DEFAULT_MASTER,
        spark_conf=spark_conf,
        formats=formats,
        idle_seconds=idle_seconds,
        login=login,
        clock=clock,
    )
