"""The history of a fully refreshed table: its backup, and the rows that are put back into the rebuild.

The backup is a deep copy. Delta's shallow clone would refer to files that the refresh removes from the table, and that
the table's next VACUUM deletes (ADR 37).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.auxiliary_table import mapped_properties
from framework.cdc.delta.destination import Destination
from framework.cdc.delta.new_tables import new_table
from framework.cdc.history import StoredTarget, column_difference, has_truncates, history_difference, put_back
from framework.cdc.model.columns import column, match_field
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.checkpoints.backups import Backup, BackupStore
from framework.checkpoints.rebuilds import Rebuild
from framework.engine.delta.table_version import read_table, read_version
from framework.foundation.clock import Clock, milliseconds, timestamp_text
from framework.foundation.errors import OperationError, UserError
from framework.foundation.failpoints import failpoint
from framework.foundation.table_address import TableAddress
from framework.graph.graph import GraphDataset, GraphFlow
from framework.plan.history import ALL_COLUMNS
from framework.run.flows.streaming_query import session_for
from framework.run.tables.table_store import TableStore
from framework.run.update.refresh.history_rows import IDENTITY, aligned, identified, lost_by_keys, lost_rows
from framework.run.update.refresh.quarantined_again import QuarantinedAgain
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import latest_version, read_tip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBER, _COUNT = "__sluice_number", "__sluice_count"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptHistory:
    """Backs up tables, and puts their rows back into rebuilds."""

    pipeline: str
    store: TableStore
    clock: Clock

    @property
    def _backups(self) -> BackupStore:
        return BackupStore(self.store.storage)

    def begin(self, dataset: GraphDataset) -> Backup:
        """Check and back up the table of a dataset before its rebuild begins.

        Raises:
            UserError: HISTORY_NOT_KEPT; nothing was written.
        """
        self._check(dataset)
        backup = self.back_up(dataset)
        if backup.put_back is not None:  # by a rebuild that was abandoned
            self._backups.write(replace(backup, put_back=None))
        return backup

    def back_up(self, dataset: GraphDataset) -> Backup:
        """Copy a dataset's tables unless a backup has their current versions; no flow may write to them meanwhile.

        The copies are written first and the backup's state last. After a crash in between there is no backup, and
        the next call starts over.
        """
        address, auxiliary = self.store.address(dataset.spec), self.store.auxiliary(dataset.spec)
        storage = self.store.storage
        tip, auxiliary_version = read_tip(storage, str(address.path)), latest_version(storage, str(auxiliary.path))
        assert tip is not None  # a table without a log is created, not rebuilt
        versions = (tip.table_id, tip.version, auxiliary_version)
        for known in self._backups.of(dataset.name):
            is_same = tip.table_id and (known.table_id, known.version, known.auxiliary_version) == versions
            if is_same and not self._is_committed_after(known, address):
                return known
        number = self._backups.next_number(dataset.name)
        rows = self._copy(address, tip.version, self._backups.table(dataset.name, number))
        if auxiliary_version is not None:
            self._copy(auxiliary, auxiliary_version, self._backups.auxiliary(dataset.name, number))
        failpoint("backups.after_copy")
        backup = Backup(
            dataset=dataset.name,
            number=number,
            made_at=timestamp_text(self.clock.now()),
            table_id=tip.table_id,
            version=tip.version,
            auxiliary_version=auxiliary_version,
            rows=rows,
        )
        self._backups.write(backup)
        failpoint("backups.after_mark")
        return backup

    def _is_committed_after(self, backup: Backup, address: TableAddress) -> bool:
        """Whether a backup's version was committed after it: an older copy of the table was restored and written to."""
        history = CommitHistory(self.store.storage, str(address.path))
        is_there = backup.version in history.versions
        return is_there and history.begun_ms(backup.version) > milliseconds(backup.made_at)

    def _check(self, dataset: GraphDataset) -> None:
        """Check that the rows of a dataset's table fit into its rebuild."""
        session = session_for(self.store.spark, {})
        stored = session.read.format("delta").load(str(self.store.address(dataset.spec).path)).schema
        if dataset.cdc is not None:
            reason = history_difference(stored, CdcTarget.of(dataset.cdc))
        elif match_field(stored, HIDDEN_COLUMN) is not None:
            reason = "AUTO CDC wrote them, and its flows now append"
        else:
            reason = column_difference(stored, StructType.fromJson(json.loads(dataset.table_schema or "")))
        if reason is not None:
            raise UserError("HISTORY_NOT_KEPT", location=dataset.spec.location, dataset=dataset.name, reason=reason)

    def _copy(self, source: TableAddress, version: int, path: str) -> int:
        session = session_for(self.store.spark, {})
        rows = read_version(session, str(source.path), version)
        # Without the metadata with which Delta generates values, such as identity columns.
        columns = StructType([StructField(field.name, field.dataType) for field in rows.schema.fields])
        builder = new_table(session, TableAddress(path=path), columns)
        for key, value in mapped_properties(rows.schema).items():
            builder = builder.property(key, value)
        builder.execute()
        rows.write.format("delta").mode("append").save(path)
        return _read(session, path).count()

    def put_back(self, dataset: GraphDataset, rebuild: Rebuild, flows: Sequence[GraphFlow]) -> None:
        """Write the rows that the rebuild lacks to its copy of the table. Idempotent.

        Rows that the rebuild has quarantined do not count as missing.

        Args:
            dataset: the dataset.
            rebuild: its rebuild, whose flows have finished.
            flows: the flows into the dataset.

        Raises:
            UserError: HISTORY_NOT_RECOGNIZED, HISTORY_KEYS_AMBIGUOUS; nothing is written.
        """
        assert rebuild.backup is not None
        backup = self._backups.read(dataset.name, rebuild.backup)
        if backup is None:
            raise OperationError("BACKUP_LOST", dataset=dataset.name, number=rebuild.backup)
        quarantined = QuarantinedAgain(
            storage=self.store.storage,
            session=session_for(self.store.spark, {}),
            dataset=dataset,
            flows=flows,
            rebuild=rebuild,
        )
        if dataset.cdc is None:
            self._append_lost(dataset, rebuild, backup, quarantined)
        else:
            self._merge_lost(dataset, rebuild, backup, quarantined)

    def publish(self, dataset: GraphDataset, rebuild: Rebuild) -> None:
        """Record the table version that has the rows of the rebuild."""
        assert rebuild.backup is not None
        backup = self._backups.read(dataset.name, rebuild.backup)
        version = latest_version(self.store.storage, str(self.store.address(dataset.spec).path))
        if backup is not None:
            self._backups.write(replace(backup, published_version=version))

    def _merge_lost(
        self, dataset: GraphDataset, rebuild: Rebuild, backup: Backup, quarantined: QuarantinedAgain
    ) -> None:
        assert dataset.cdc is not None
        session, name = session_for(self.store.spark, {}), dataset.name
        auxiliary = self.store.auxiliary(dataset.spec, rebuild.number)
        table = self.store.address(dataset.spec, rebuild.number)
        copy = StoredTarget(
            rows=_read(session, self._backups.table(name, backup.number)),
            auxiliary=self._optional(session, self._backups.auxiliary(name, backup.number)),
        )
        rebuilt = StoredTarget(
            rows=_read(session, str(table.path)), auxiliary=self._optional(session, str(auxiliary.path))
        )
        destination = Destination(
            target=CdcTarget.of(dataset.cdc),
            table=table,
            auxiliary=auxiliary,
            flow=name,
            application_id=f"{self._application(dataset)}:{rebuild.number}",
            truncates=has_truncates(copy),
        )
        put_back(
            copy, rebuilt, destination, withheld=quarantined.events(), found=lambda count: self._found(backup, count)
        )

    def _append_lost(
        self, dataset: GraphDataset, rebuild: Rebuild, backup: Backup, quarantined: QuarantinedAgain
    ) -> None:
        session, path = session_for(self.store.spark, {}), str(self.store.address(dataset.spec, rebuild.number).path)
        rebuilt = _read(session, path)
        for rows in quarantined.rows():
            rebuilt = rebuilt.unionByName(aligned(rows, rebuilt.schema), allowMissingColumns=True)
        copy = aligned(_read(session, self._backups.table(dataset.name, backup.number)), rebuilt.schema)
        keys = () if rebuild.history_keys == ALL_COLUMNS else rebuild.history_keys
        if keys:
            self._check_keys(dataset, copy, rebuilt, keys, self._backups.table(dataset.name, backup.number))
        lost = lost_by_keys(copy, rebuilt, keys) if keys else lost_rows(copy, rebuilt)
        count = lost.count()
        if count and count == backup.rows and not keys and not rebuilt.isEmpty():
            raise UserError(
                "HISTORY_NOT_RECOGNIZED",
                location=dataset.spec.location,
                dataset=dataset.name,
                rows=count,
                path=self._backups.table(dataset.name, backup.number),
            )
        self._found(backup, count)
        writer = lost.write.format("delta").mode("append")
        writer.option("txnAppId", self._application(dataset)).option("txnVersion", rebuild.number).save(path)

    def _check_keys(
        self, dataset: GraphDataset, copy: DataFrame, rebuilt: DataFrame, keys: Sequence[str], path: str
    ) -> None:
        """Check that the rebuild has all rows with the same keys, or none of them: else some would be lost.

        Raises:
            UserError: HISTORY_KEYS_AMBIGUOUS.
        """
        had, has = (
            identified(rows, keys).groupBy(IDENTITY).agg(F.count(F.lit(1)).alias(name))
            for rows, name in ((copy, _COUNT), (rebuilt, _NUMBER))
        )
        count = had.join(has, IDENTITY).where(column(_NUMBER) < column(_COUNT)).count()
        if count:
            raise UserError(
                "HISTORY_KEYS_AMBIGUOUS",
                location=dataset.spec.location,
                dataset=dataset.name,
                keys=", ".join(keys),
                count=count,
                path=path,
            )

    def _application(self, dataset: GraphDataset) -> str:
        return f"sluice:{self.pipeline}:history:{dataset.name}"

    def _found(self, backup: Backup, count: int) -> None:
        """Record the number of rows to put back before they are written: after a crash, none would be missing."""
        if backup.put_back is None:
            self._backups.write(replace(backup, put_back=count))

    def _optional(self, session: SparkSession, path: str) -> DataFrame | None:
        return None if latest_version(self.store.storage, path) is None else _read(session, path)


def _read(session: SparkSession, path: str) -> DataFrame:
    return read_table(session, TableAddress(path=path))
