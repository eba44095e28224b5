"""PostgreSQL: its catalog, types, chunks and logical replication.

Its modules import the drivers, which are an extra. A missing driver is named when the first of them is imported.
"""

from __future__ import annotations

from importlib.util import find_spec

from framework.foundation.errors import UserError

for _module in ("psycopg2", "adbc_driver_postgresql"):
    if find_spec(_module) is None:
        raise UserError("DRIVER_NOT_INSTALLED", source="a PostgreSQL database", module=_module)
