"""Snapshots of PostgreSQL: plans, bounds and readers of chunks."""

from __future__ import annotations

from framework.sources.databases.dialects import require_drivers
from framework.sources.databases.postgres.facts import FACTS

require_drivers("PostgreSQL", FACTS)  # a machine of a cluster may lack them
