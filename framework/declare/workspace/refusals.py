"""Parts of `dbutils` that exist on Databricks only: a call raises an error that names the parts available here."""

from __future__ import annotations

from typing import Any, NoReturn

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

KNOWN = "data, fs, jobs.taskValues, library.restartPython, notebook, secrets and widgets"
"""The parts of `dbutils` that are available."""


class Part:
    """A part of `dbutils`; names that it does not define are refused.

    Args:
        name: its name, with a trailing dot; empty for `dbutils` itself.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Refuse an unavailable name; names of Python's protocols raise AttributeError, as usual."""
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(self._name + name)

    def help(self, name: str | None = None) -> None:
        """Do nothing; on Databricks, it prints a help page."""


def refuse(name: str) -> NoReturn:
    """Refuse a name of `dbutils`.

    Raises:
        UserError: DBUTILS_NOT_AVAILABLE.
    """
    raise UserError("DBUTILS_NOT_AVAILABLE", location=caller_location(), name=name, known=KNOWN)
