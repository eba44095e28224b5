"""PostgreSQL: its catalog, types, chunks and logical replication.

Its modules import the drivers, which are an extra. A missing driver is named when the first of them is imported.
"""

from __future__ import annotations

from framework.sources.databases.drivers import require_drivers

require_drivers()
