"""The catalogue of errors with the conditions of the dialects that ship."""

from __future__ import annotations

from framework.foundation import conditions
from framework.sources.databases.mysql.conditions import CONDITIONS as MYSQL_CONDITIONS
from framework.sources.databases.postgres.conditions import CONDITIONS as POSTGRES_CONDITIONS
from tests.support.ledger.facts import FACTS

EVERY_CONDITION = {**conditions.CONDITIONS, **MYSQL_CONDITIONS, **POSTGRES_CONDITIONS}
OF_TESTS = {each.name for each in FACTS.diagnoses}
"""The diagnoses of the dialect that only tests have."""
