"""The catalogue of error conditions: what happened, and what to do next.

One module per room, one entry per condition. A condition that Apache Spark has too has Spark's name.
`tests/golden` renders every text.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.foundation.conditions import (
    bundles,
    cdc,
    cli,
    cloud_files,
    comparing,
    database_log,
    databases,
    declare,
    deploy,
    graph,
    ingestions,
    native,
    quarantine,
    recovery,
    rewind,
    run,
    session,
    storage,
    workspace,
)
from framework.foundation.conditions.entry import Condition
from framework.foundation.secrets.known_secrets import hide_known
from framework.foundation.wording import printable_lines

CONDITIONS: Mapping[str, Condition] = {
    **declare.CONDITIONS,
    **graph.CONDITIONS,
    **cdc.CONDITIONS,
    **storage.CONDITIONS,
    **session.CONDITIONS,
    **run.CONDITIONS,
    **cli.CONDITIONS,
    **comparing.CONDITIONS,
    **deploy.CONDITIONS,
    **bundles.CONDITIONS,
    **native.CONDITIONS,
    **database_log.CONDITIONS,
    **ingestions.CONDITIONS,
    **databases.CONDITIONS,
    **cloud_files.CONDITIONS,
    **recovery.CONDITIONS,
    **rewind.CONDITIONS,
    **quarantine.CONDITIONS,
    **workspace.CONDITIONS,
}


def describe(condition: str, fields: Mapping[str, object]) -> tuple[str, str]:
    """The filled-in texts of a condition, without the secrets that this process knows, and without control characters.

    Raises:
        KeyError: the condition, or a field that its texts need, is missing.
    """
    entry = CONDITIONS[condition]
    what, remedy = (printable_lines(hide_known(text.format(**fields))) for text in (entry.what, entry.remedy))
    return what, remedy
