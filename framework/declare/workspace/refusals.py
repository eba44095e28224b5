"""Parts of `dbutils` that exist on Databricks only: a call of one is an error that names what there is."""

from __future__ import annotations

from typing import Any, NoReturn

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

KNOWN = "data, fs, jobs.taskValues, library.restartPython, notebook, secrets and widgets"
"""The parts of `dbutils` that there are."""


class Part:
    """A part of `dbutils`, whose other names are refused.

    Args:
        name: its name, with a dot at its end; empty for `dbutils` itself.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Refuse what is not there; names of Python's protocols are absent, as usual."""
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(self._name + name)

    def help(self, name: str | None = None) -> None:
        """Do nothing: notebooks print a page of help."""


def refuse(name: str) -> NoReturn:
    """Refuse a name of `dbutils`.

    Raises:
        UserError: DBUTILS_NOT_AVAILABLE.
    """
    raise UserError("DBUTILS_NOT_AVAILABLE", location=caller_location(), name=name, known=KNOWN)
