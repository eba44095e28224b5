"""What a checkpoint holds of its query, from the files that Spark writes."""

from __future__ import annotations

from framework.checkpoints.operators import StatefulOperator, StoredQuery, read_query
from framework.foundation.files.storage import Storage

CHECKPOINT = "checkpoint"
METADATA = (
    'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},'
    '"stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
)


def struct(kind: str) -> str:
    """The JSON of a schema with one column."""
    return '{"type":"struct","fields":[{"name":"x","type":"' + kind + '","nullable":true,"metadata":{}}]}'


def commit(storage: Storage, sources: int = 1) -> None:
    """Commit a batch of some sources."""
    lines = ["v1", '{"batchWatermarkMs":0}', *['{"logOffset":0}'] * sources]
    storage.write_text(f"{CHECKPOINT}/offsets/0", "\n".join(lines))
    storage.write_text(f"{CHECKPOINT}/commits/0", "v1\n{}")


def test_a_checkpoint_without_a_committed_batch_holds_nothing(storage: Storage) -> None:
    """None before the first batch, also if it was planned; then the number of sources, and no operators."""
    assert read_query(storage, CHECKPOINT) is None
    storage.write_text(f"{CHECKPOINT}/offsets/0", 'v1\n{}\n{"logOffset":0}')
    assert read_query(storage, CHECKPOINT) is None
    commit(storage, sources=2)
    assert read_query(storage, CHECKPOINT) == StoredQuery(operators=(), source_count=2)


def test_operators_have_their_names_and_the_types_of_their_state(storage: Storage) -> None:
    """Number and name are those of the metadata; types come from the schema file, whose lengths are binary."""
    commit(storage)
    storage.write_text(f"{CHECKPOINT}/state/0/_metadata/metadata", METADATA)
    schema = f"\x00\x02v2\x00\x00\x00\x01\x00\x5a{struct('long')}\x00\x00\x00\x01\x00\x5a{struct('string')}"
    storage.write_text(f"{CHECKPOINT}/state/0/0/_metadata/schema", schema)
    expected = StatefulOperator(number=0, name="dedupe", key_types='["long"]', value_types='["string"]')
    assert read_query(storage, CHECKPOINT) == StoredQuery(operators=(expected,), source_count=1)
    assert expected.words == "dropDuplicates"


def test_damaged_metadata_is_unknown_and_not_empty(storage: Storage) -> None:
    """An operator without readable metadata makes all of them unknown, so that nothing is foretold."""
    commit(storage)
    storage.write_text(f"{CHECKPOINT}/state/0/_metadata/metadata", METADATA)
    storage.write_text(f"{CHECKPOINT}/state/1/_metadata/metadata", "v1\n{")
    assert read_query(storage, CHECKPOINT) == StoredQuery(operators=None, source_count=1)
