"""The stateful operators of a stream, read from its checkpoint without Spark.

Spark writes `state/<operator>/_metadata/metadata` before the first batch of an operator: a version line and one line
of JSON. The file with the schemas of keys and values is beside the state store of the first partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from framework.checkpoints.offsets import CheckpointProgress, read_progress
from framework.foundation.files.storage_port import Storage

_STRUCT = '{"type":"struct","fields":['
_NAMES = {
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "stateStoreSave": "an aggregation",
    "sessionWindowStateStoreSaveExec": "an aggregation over session windows",
    "symmetricHashJoin": "a join of two streams",
    "globalLimit": "a limit",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "applyInPandasWithState": "applyInPandasWithState",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithStateInPandas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulOperator:
    """One stateful operator of a streaming query.

    Args:
        number: Spark's number of the operator in the query, from 0.
        name: Spark's short name of the operator, such as `dedupe`.
        key_types: the types of its key columns as JSON, without names; None if unknown.
        value_types: the types of its value columns in the same form; None if unknown.
    """

    number: int
    name: str
    key_types: str | None = None
    value_types: str | None = None

    @property
    def words(self) -> str:
        """The operator's name in the user's API, such as `dropDuplicates`."""
        return _NAMES.get(self.name, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """The stateful operators and sources of a query, as stored in its checkpoint.

    Args:
        operators: its stateful operators; None if unknown.
        source_count: the number of its sources; None if unknown.
    """

    operators: tuple[StatefulOperator, ...] | None
    source_count: int | None


def read_query(storage: Storage, checkpoint: str) -> StoredQuery | None:
    """Read the operators and sources of a checkpoint's query; None if no batch is committed."""
    progress = read_progress(storage, checkpoint)
    if progress.last_commit_batch is None:
        return None
    return StoredQuery(operators=_operators(storage, checkpoint), source_count=_source_count(progress))


def types_only(schema_json: str) -> str | None:
    """Return the column types of a schema as JSON, without names, nullability and metadata; None if it is invalid.

    Spark compares state schemas in this way, but also checks nullability.

    Examples:
        >>> fields = '{"name":"id","type":"long","nullable":true,"metadata":{}}'
        >>> types_only('{"type":"struct","fields":[' + fields + ']}')
        '["long"]'
    """
    try:
        found = json.loads(schema_json)
        return json.dumps(_types(found), separators=(",", ":"))
    except (ValueError, KeyError, TypeError):
        return None


def _types(value: object) -> object:
    if not isinstance(value, dict):
        return value
    match value["type"]:
        case "struct":
            return [_types(field["type"]) for field in value["fields"]]
        case "array":
            return {"array": _types(value["elementType"])}
        case "map":
            return {"map": [_types(value["keyType"]), _types(value["valueType"])]}
        case other:
            return other


def _source_count(progress: CheckpointProgress) -> int | None:
    """Return the number of sources; None if the format of the offsets is unknown."""
    return len(progress.sources) or None


def _operators(storage: Storage, checkpoint: str) -> tuple[StatefulOperator, ...] | None:
    """Return the operators, sorted by number; None if some operator's metadata can't be read."""
    numbers = sorted(int(name) for name in storage.list_names(f"{checkpoint}/state") if name.isdecimal())
    found = [_operator(storage, f"{checkpoint}/state/{number}", number) for number in numbers]
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(found) else None


def _operator(storage: Storage, folder: str, number: int) -> StatefulOperator | None:
    text = storage.read_text(f"{folder}/_metadata/metadata")
    if text is None:
        return None
    try:
        info = json.loads(text.splitlines()[1])["operatorInfo"]
        name = str(info["operatorName"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    schemas = list(_schemas(storage.read_text(f"{folder}/0/_metadata/schema") or ""))
    # The schemas of an operator with several stores are in another place.
    key, value = schemas if len(schemas) == 2 else (None, None)
    return StatefulOperator(number=number, name=name, key_types=key, value_types=value)


def _schemas(text: str) -> Iterator[str | None]:
    """Yield the types of each schema in a schema file, in which binary lengths separate the JSON texts."""
    decoder = json.JSONDecoder()
    begin = text.find(_STRUCT)
    while begin >= 0:
        try:
            value, end = decoder.raw_decode(text, begin)
        except ValueError:  # a long text is stored in parts, with lengths in between
            yield None
            return
        yield types_only(json.dumps(value))
        begin = text.find(_STRUCT, end)
