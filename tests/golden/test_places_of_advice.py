"""Advice can be followed in each place where an error is raised; each module that raises one is in a table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

from tests.support.conditions import EVERY_CONDITION

ROOT = Path(__file__).parents[2] / "framework"


class Place(StrEnum):
    """Where a user meets an error, with the word by which a text sets the place apart from others."""

    AUTO_CDC = "change events"
    """A flow of change events."""
    SNAPSHOT = "snapshot"
    """A flow that compares snapshots."""
    APPEND = "of your own"
    """A flow or view whose query is the user's own."""
    INGESTION = "ingest"
    """A flow that `ingest_database` generates."""
    SQL = "SQL"
    """A statement of a SQL file."""
    PYTHON = "Python"
    """A call in a module in Python, a notebook too."""
    BUNDLE = "bundle"
    COMMAND = "command"
    DATABRICKS = "Databricks"


FLOWS = frozenset({Place.AUTO_CDC, Place.SNAPSHOT, Place.APPEND, Place.INGESTION})
OF_USERS = FLOWS - {Place.INGESTION}
# The first part of the path that fits decides. A continuous update raises the same as a triggered one.
PLACES = {
    "adoption/": {Place.COMMAND},
    "cdc/analysis/": {Place.AUTO_CDC, Place.SNAPSHOT},
    "cdc/events/": {Place.AUTO_CDC, Place.SNAPSHOT, Place.INGESTION},
    "cdc/snapshot_diff.py": {Place.SNAPSHOT},
    "cdc/delta/": FLOWS,
    "checkpoints/": FLOWS,
    "cli/bundle": {Place.BUNDLE},
    "cli/": {Place.COMMAND},
    "declare/interface/auto_cdc": {Place.AUTO_CDC, Place.SNAPSHOT},
    "declare/interface/ingestion.py": {Place.INGESTION},
    "declare/interface/snapshots.py": {Place.SNAPSHOT},
    "declare/sql/": {Place.SQL},
    "declare/pipeline_spec.py": {Place.COMMAND},
    "declare/": {Place.PYTHON},
    "demo/": {Place.COMMAND},
    "deploy/": {Place.BUNDLE},
    "engine/": FLOWS | {Place.COMMAND},
    "foundation/": FLOWS | {Place.COMMAND},
    "graph/resolving/snapshots.py": {Place.SNAPSHOT},
    "graph/": {Place.PYTHON, Place.SQL} | OF_USERS,
    "ingest/": {Place.INGESTION},
    "native/": {Place.DATABRICKS},
    "notebook/": {Place.PYTHON},
    "operations/deploy": {Place.BUNDLE},
    "operations/": {Place.COMMAND},
    "plan/": FLOWS,
    "record/": FLOWS,
    "recovery/": {Place.COMMAND},
    "run/": FLOWS,
    "sandbox/": {Place.PYTHON},
    "server/": {Place.COMMAND},
    "session/": {Place.COMMAND, Place.PYTHON},
    "sources/cloud_files/": {Place.APPEND, Place.AUTO_CDC},
    "sources/databases/postgres/preflight.py": {Place.INGESTION},
    "sources/databases/postgres/table_checks.py": {Place.INGESTION},
    "sources/databases/": {Place.APPEND, Place.INGESTION},
    "sources/delta/": OF_USERS,
    "sources/faults.py": FLOWS,
    "sources/starts.py": OF_USERS,
    "testing/": {Place.PYTHON},
    "views/": {Place.COMMAND},
}
LOOK_UP = {"diagnoses.py", "delta_diagnoses.py", "quarantining.py"}
"""They look conditions up, and raise none of those that they look up."""
# Met in fewer places than their modules.
ONLY_IN = {
    "AUTOCDC_FEED_SEQUENCE": {Place.AUTO_CDC},
    "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA": {Place.AUTO_CDC},  # flows from snapshots select all columns
    "AUTOCDC_MISSING_SEQUENCE_BY": {Place.AUTO_CDC},  # the order of snapshots is that of their versions
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE": {Place.AUTO_CDC},
    "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY": {Place.AUTO_CDC, Place.SNAPSHOT},  # copies have no partitions
    "PARTITIONING_CHANGED": OF_USERS,
    "DATABASE_SCHEMA_MISSING": {Place.INGESTION},  # schemas are listed for ingestions
}
# Their texts say when the advice applies: if files brought the column, or if the source may be `cloudFiles`.
OF_FILES = {"CLOUD_FILES_ZEROS_LOST", "FILE_TYPE_MISMATCH", "GENERATED_COLUMN_KEEPS_TYPE", "SCHEMA_CANNOT_EVOLVE"}
_ARGUMENTS = "where|sequence_by|column_list|except_column_list|columns_to_update"
FEATURES = {
    rf"`(?:{_ARGUMENTS})`": {Place.AUTO_CDC},
    r"`stored_as_scd_type": {Place.AUTO_CDC, Place.SNAPSHOT},
    r"`text_columns`|`table_configuration`|`(?:in|ex)clude_columns`|`source_schema`": {Place.INGESTION},
    r"`once=True`|@?dp\.\w+|`expect_\w+": {*Place} - {Place.SQL, Place.COMMAND},
    r"`cloudFiles": {Place.APPEND, Place.AUTO_CDC, Place.PYTHON, Place.SQL},
    r"`cluster_by`|`partition_cols`": {*Place} - {Place.BUNDLE, Place.INGESTION},
    r"`sluice bundle (?!spec)": {Place.BUNDLE, Place.DATABRICKS},
}
"""What a remedy may name, and where it exists."""


@cache
def raised() -> dict[str, frozenset[str]]:
    """The modules that name each condition, but for the tables that only look conditions up."""
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        if "conditions" in path.parts or path.name in LOOK_UP:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in EVERY_CONDITION:
                found.setdefault(node.value, set()).add(path.relative_to(ROOT).as_posix())
    return {condition: frozenset(modules) for condition, modules in found.items()}


def places_of(condition: str) -> frozenset[Place]:
    """The places in which a condition is met; fails for a module that is not in the table."""
    found: set[Place] = set()
    for module in raised().get(condition, ()):
        found |= next(places for prefix, places in PLACES.items() if module.startswith(prefix))
    return frozenset(found & ONLY_IN.get(condition, found))


def unfollowable(condition: str) -> Iterator[tuple[str, Place]]:
    """What a condition names that a place of it lacks, unless the text speaks of that place."""
    what, remedy = EVERY_CONDITION[condition]
    for pattern, available in FEATURES.items():
        if "cloudFiles" in pattern and condition in OF_FILES:
            continue
        for named in sorted(set(re.findall(pattern, remedy))):
            yield from (
                (named, place) for place in sorted(places_of(condition) - available) if place not in what + remedy
            )


def test_each_module_that_raises_a_condition_has_its_places() -> None:
    """A new one must be classified."""
    modules = {module for found in raised().values() for module in found}
    assert [module for module in sorted(modules) if not module.startswith(tuple(PLACES))] == []
    assert [prefix for prefix in PLACES if not any(module.startswith(prefix) for module in modules)] == []


@pytest.mark.parametrize("condition", sorted(EVERY_CONDITION))
def test_advice_can_be_followed_where_it_is_given(condition: str) -> None:
    """An argument that the flow does not have, or a command of another kind of table, is no way out."""
    assert list(unfollowable(condition)) == []
