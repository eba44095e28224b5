"""SQL Server: its catalog, types, chunks, change data capture and change tracking, and the texts of its own errors.

Tested on a stand-in only, which runs each statement on a model of a database, its log and its capture job. Only
`session` imports the driver, which is an extra, when it connects.
"""

from __future__ import annotations

from framework.foundation.conditions import register_conditions
from framework.sources.databases.sqlserver.conditions import CONDITIONS

register_conditions(CONDITIONS)
