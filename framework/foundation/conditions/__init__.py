"""The catalogue of error conditions: what happened, and what to do next.

One module per room, one entry per condition. A condition that Apache Spark has too has Spark's name. Those that only
one kind of database raises are in the folder of its dialect, which adds them.
`tests/golden` renders every text.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.foundation.conditions import (
    bundles,
    cdc,
    cli,
    cloud_files,
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
    sandbox_inputs,
    serving,
    session,
    storage,
    testing,
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
    **deploy.CONDITIONS,
    **bundles.CONDITIONS,
    **native.CONDITIONS,
    **ingestions.CONDITIONS,
    **databases.CONDITIONS,
    **cloud_files.CONDITIONS,
    **recovery.CONDITIONS,
    **rewind.CONDITIONS,
    **quarantine.CONDITIONS,
    **workspace.CONDITIONS,
    **testing.CONDITIONS,
    **sandbox_inputs.CONDITIONS,
    **serving.CONDITIONS,
}


_REGISTERED: dict[str, Condition] = {}


def register_conditions(conditions: Mapping[str, Condition]) -> None:
    """Add the conditions that only one dialect of a database raises, when its package is imported.

    Raises:
        ValueError: one of them is in the catalogue with other texts.
    """
    for name, condition in conditions.items():
        if {**CONDITIONS, **_REGISTERED}.get(name, condition) != condition:
            msg = f"{name} is a condition already"
            raise ValueError(msg)
        _REGISTERED[name] = condition


def is_known(condition: str) -> bool:
    """Whether a condition is in the catalogue, or was added by a dialect."""
    return condition in CONDITIONS or condition in _REGISTERED


def describe(condition: str, fields: Mapping[str, object]) -> tuple[str, str]:
    """The filled-in texts of a condition, without the secrets that this process knows, and without control characters.

    Raises:
        KeyError: the condition, or a field that its texts need, is missing.
    """
    entry = CONDITIONS[condition] if condition in CONDITIONS else _REGISTERED[condition]
    what, remedy = (printable_lines(hide_known(text.format(**fields))) for text in (entry.what, entry.remedy))
    return what, remedy
