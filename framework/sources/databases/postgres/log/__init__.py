"""The log of PostgreSQL: positions, the replication stream, its messages, and the rows of changes."""

from __future__ import annotations

from framework.sources.databases.dialects import require_drivers
from framework.sources.databases.postgres.facts import FACTS

require_drivers("PostgreSQL", FACTS)  # a machine of a cluster may lack them
