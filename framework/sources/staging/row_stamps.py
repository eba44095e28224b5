"""Adds a column to the rows of a chunk, and checks whether their keys are distinct, while its file is written."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from framework.foundation.added_columns import AddedColumn
from framework.foundation.xxhash64 import SEED, Hashes, can_hash, hash_column, hash_constant

_ROWS_AT_ONCE = 16_384
"""Rows per step, so that their hashes fit into the cache of a core."""


class RowStamps:
    """The added column of one chunk.

    Args:
        added: the column.
        schema: of the chunk without it.
    """

    def __init__(self, added: AddedColumn, schema: pa.Schema) -> None:
        self._added = added
        self._kind = to_arrow_type(StructType.fromJson(json.loads(added.type_json)))
        self._constants = json.loads(added.constants_json)
        self._keys: list[Any] = []
        self.schema = schema.append(pa.field(added.name, self._kind))

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the column.

        Raises:
            UnhashableError: a value is too long.
        """
        rows = [batch.slice(at, _ROWS_AT_ONCE) for at in range(0, batch.num_rows, _ROWS_AT_ONCE)]
        hashes = np.concatenate([self._hashes(part) for part in rows]) if rows else np.empty(0, np.uint64)
        fields = [self._field(field, hashes) for field in self._kind]
        stamps = pa.StructArray.from_arrays(fields, fields=list(self._kind))
        if self._added.key is not None:
            self._keys.append(batch.column(self._added.key).to_numpy(zero_copy_only=False))
        return pa.RecordBatch.from_arrays([*batch.columns, stamps], schema=self.schema)

    def are_keys_distinct(self) -> bool:
        """Whether no two rows of all batches have the same key; false if unknown."""
        if not self._keys:
            return False
        keys = np.sort(np.concatenate(self._keys))
        return bool((keys[1:] != keys[:-1]).all())

    def _hashes(self, rows: pa.RecordBatch) -> Hashes:
        found = hash_constant(np.full(rows.num_rows, SEED, np.uint64), 0)
        for name in self._added.hashed:
            found = hash_column(found, rows.column(name), name.lower())
        return found

    def _field(self, field: pa.Field, hashes: Hashes) -> pa.Array:
        if field.name == self._added.hash_field:
            return pa.array(hashes.view(np.int64))
        value = self._constants.get(field.name)
        return pa.repeat(pa.scalar(value, field.type), len(hashes))


def can_add(added: AddedColumn, schema: pa.Schema) -> bool:
    """Return whether the hash of the column can be computed from columns of these types."""
    return all(can_hash(schema.field(name).type) for name in added.hashed)
