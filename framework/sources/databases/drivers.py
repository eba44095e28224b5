"""The Python packages that read a database; they are an extra of the distribution.

A module of an engine imports them when a database is read. So a pipeline without one neither needs nor loads them.
"""

from __future__ import annotations

from importlib.util import find_spec

from framework.foundation.errors import UserError

_POSTGRES = ("psycopg2", "adbc_driver_postgresql")


def require_drivers(source: str = "a PostgreSQL database") -> None:
    """Do nothing if the drivers of PostgreSQL are installed.

    Args:
        source: what needs them, for the message.

    Raises:
        UserError: DRIVER_NOT_INSTALLED, with the command that installs them.
    """
    for module in _POSTGRES:
        if find_spec(module) is None:
            raise UserError("DRIVER_NOT_INSTALLED", source=source, module=module)
