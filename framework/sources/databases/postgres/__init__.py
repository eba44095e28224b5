"""PostgreSQL: its catalog, types, chunks and logical replication, and the texts of its own errors.

Most of its modules import the drivers, which are an extra; `dialect` and `facts` do not.
"""

from __future__ import annotations

from framework.foundation.conditions import register_conditions
from framework.sources.databases.postgres.conditions import CONDITIONS

register_conditions(CONDITIONS)
