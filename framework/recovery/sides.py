"""Opens one side of a comparison, as rows that do not change during the read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from framework.cdc.model.reserved_names import HIDDEN_COLUMN, START_AT
from framework.cdc.scd1.flagged_rows import is_flagged
from framework.engine.delta.table_version import read_version
from framework.engine.files.storage import open_storage
from framework.engine.sessions.session import statement_frame
from framework.foundation.errors import UserError
from framework.foundation.files.storage import is_local
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_qualified
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.recovery.references import FolderReference, TableReference
from framework.run.tables.table_store import TableStore
from framework.sources.delta.log import latest_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One side of a comparison.

    Args:
        name: as the user wrote it.
        frame: its rows.
        keys: the columns that identify a row; () if unknown.
        version: the version of the Delta table; None for other tables.
        position: the position of a source database at which the rows were read; None for other tables.
        dataset: the dataset of the pipeline; None if the side is not a dataset.
    """

    name: str
    frame: DataFrame
    keys: tuple[str, ...] = ()
    version: int | None = None
    position: str | None = None
    dataset: GraphDataset | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """Opens tables, each at one version, so that a running update does not change the rows.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        complete: completes a name by the pipeline's catalog and schema.
    """

    graph: DataflowGraph
    store: TableStore
    complete: Callable[[str], QualifiedName]

    def open(self, text: str, reference: TableReference | FolderReference) -> Side:
        """Return the side of a dataset, a table or a folder.

        Raises:
            UserError: RECONCILE_TABLE_NOT_FOUND, RECONCILE_VERSION_NOT_DELTA, INVALID_NAME.
            OperationError: DATASET_NOT_MATERIALIZED, TABLE_NOT_OWNED.
        """
        if isinstance(reference, FolderReference):
            return self._folder(text, reference.path, reference.version)
        dataset = self.dataset(reference)
        if dataset is None or not dataset.is_table:
            return self._table(text, reference)
        self.store.check_readable(dataset.spec)
        return self._folder(text, self.store.path(dataset.spec), reference.version, dataset)

    def dataset(self, reference: TableReference) -> GraphDataset | None:
        """Return the dataset of a name; None if the pipeline has none."""
        return self.graph.dataset(self.complete(reference.name))

    def _folder(self, text: str, path: str, version: int | None, dataset: GraphDataset | None = None) -> Side:
        storage = open_storage(path, None if is_local(path) else self.store.spark)
        newest = latest_version(storage, storage.root)
        if newest is None:
            raise self._not_found(text)
        chosen = newest if version is None else version
        frame = read_version(self.store.spark, path, chosen).drop(HIDDEN_COLUMN)
        return Side(name=text, frame=frame, keys=_keys(dataset), version=chosen, dataset=dataset)

    def _table(self, text: str, reference: TableReference) -> Side:
        """Return a table of Spark's catalog; only a Delta table has a fixed version."""
        location = self._delta_location(reference.name)
        if location is not None:
            return self._folder(text, location, reference.version)
        if reference.version is not None:
            raise UserError("RECONCILE_VERSION_NOT_DELTA", table=text)
        try:
            return Side(name=text, frame=self.store.spark.table(reference.name))
        except AnalysisException as error:
            raise self._not_found(text) from error

    def _delta_location(self, name: str) -> str | None:
        try:
            detail = statement_frame(self.store.spark, f"DESCRIBE DETAIL {name}").first()
        except AnalysisException:  # no such table, or not a Delta table
            return None
        return str(detail["location"]) if detail is not None and detail["format"] == "delta" else None

    def _not_found(self, text: str) -> UserError:
        near = nearest_qualified(
            text.lower(), [str(dataset.name) for dataset in self.graph.datasets if dataset.is_table]
        )
        return UserError("RECONCILE_TABLE_NOT_FOUND", table=text, hint=f" Did you mean {near}?" if near else "")


def living_rows(side: Side) -> Side:
    """Return a side without its soft-deleted rows and their flag, because its source has neither."""
    target = None if side.dataset is None else side.dataset.cdc
    if target is None or target.flag is None:
        return side
    return replace(side, frame=side.frame.where(~is_flagged(target)).drop(target.flag))


def _keys(dataset: GraphDataset | None) -> tuple[str, ...]:
    if dataset is None or dataset.cdc is None:
        return ()
    return (*dataset.cdc.keys, *((START_AT,) if dataset.cdc.scd_type == 2 else ()))
