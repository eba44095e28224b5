"""MySQL and MariaDB: one dialect, since they share protocol, catalog and log.

Its conditions are known as soon as a module of the folder is imported.
"""

from __future__ import annotations

from framework.foundation.conditions import register_conditions
from framework.sources.databases.mysql.conditions import CONDITIONS

register_conditions(CONDITIONS)
