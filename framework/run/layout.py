"""Where each thing of a pipeline lies below its storage."""

from __future__ import annotations

from dataclasses import dataclass

from framework.cdc.reserved import COMPANION_PREFIX
from framework.foundation.names import QualifiedName
from framework.foundation.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLayout:
    """Paths below the storage root, all as Spark takes them.

    ::

        tables/<catalog>/<schema>/<table>      what other readers find by path
        private/<catalog>/<schema>/<table>     private datasets
        rebuilds/<dataset>/<n>/table           a full refresh that is not published yet
        records/<dataset>.json                 what a table was last brought to
        prunes/<dataset>.json                  a table that is being deleted
        checkpoints/<dataset>/<flow>/<n>       see the checkpoints room
        events/<update>.jsonl                  see the record room
    """

    storage: Storage

    def table(self, name: QualifiedName, *, private: bool = False) -> str:
        """The folder of a dataset's table."""
        return self.storage.path("private" if private else "tables", name.catalog, name.schema, name.table)

    def companion(self, name: QualifiedName) -> str:
        """The folder of the table that holds AUTO CDC's own state beside a target."""
        return self.storage.path("tables", name.catalog, name.schema, f"{COMPANION_PREFIX}{name.table}")

    def rebuilds(self, name: QualifiedName) -> str:
        """The folder of a dataset's rebuilds and of the mark that numbers them."""
        return self.storage.path("rebuilds", str(name))

    def rebuild(self, name: QualifiedName, number: int) -> str:
        """The folder of a rebuild."""
        return self.storage.path("rebuilds", str(name), str(number))

    @property
    def records(self) -> str:
        """The folder of all records."""
        return self.storage.path("records")

    def record(self, name: QualifiedName) -> str:
        """The file with what a table was last brought to."""
        return self.storage.path("records", f"{name}.json")
