"""Kafka topics as a kind of streaming source: Spark's connector `spark-sql-kafka-0-10`.

No method asks a broker, because a plan must not depend on one. What only a broker has is unknown here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from framework.sources.port import (
    RewindPosition,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
    UnseenSource,
    offset_object,
)

KIND = "kafka"
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")  # in Spark's order of precedence
_TOPICS = ("subscribe", "subscribepattern", "assign")
_PROVIDER = "org.apache.spark.sql.kafka010.kafkasourceprovider"


class KafkaSource(UnseenSource):
    """The topics of one reader."""

    kind = KIND
    starts: tuple[str, ...] = ("startingOffsets", "startingTimestamp")

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize `format("kafka")`; the location is what the reader subscribes to."""
        if relation.format not in {KIND, _PROVIDER}:
            return None
        options = {name.lower(): value for name, value in relation.options.items()}
        topics = next((options[name] for name in _TOPICS if name in options), None)
        return SourceReference(
            kind=KIND,
            shape=SourceShape.STREAM,
            location=topics,
            begins=_begin_of(options),
            selects=options.get("kafka.bootstrap.servers", ""),
        )

    def owns(self, offset: str) -> bool:
        """Own offsets of the form `{"topic": {"partition": offset}}`."""
        topics = offset_object(offset)
        return bool(topics) and all(map(_is_topic, topics.values()))

    def resume(self, position: SourcePosition) -> tuple[str, ...] | None:
        """The committed offsets: the next record of each partition."""
        if len(position.offsets) != len(position.sources):
            return None
        return tuple(f"offsets={json.dumps(json.loads(offset), separators=(',', ':'))}" for offset in position.offsets)

    def lost_since(self, position: RewindPosition) -> str:
        """Empty, because only a broker could say; the flow fails if the records were deleted."""
        del position
        return ""

    def describe(self, position: RewindPosition) -> tuple[str, ...]:
        """The next offset of each partition."""
        return tuple(
            f"offsets {json.dumps(json.loads(offset), separators=(',', ':'))}, if Kafka still has them"
            for offset in position.offsets
            if self.owns(offset)
        )

    def truncate(self, position: RewindPosition) -> None:
        """Nothing: the offset is all that is stored."""
        del position


def _begin_of(options: Mapping[str, str]) -> str:
    """The start that the options of a reader give; empty for the earliest records. The default is the latest ones."""
    given = next((f"{name}={options[name.lower()]}" for name in _STARTS if name.lower() in options), None)
    return "" if given == "startingOffsets=earliest" else given or "startingOffsets=latest"


def _is_topic(partitions: object) -> bool:
    return isinstance(partitions, dict) and all(
        str(number).isdecimal() and isinstance(offset, int) for number, offset in partitions.items()
    )
