"""Starts of sources as reader options, and the offsets of Kafka."""

from __future__ import annotations

import json

import pytest

from framework.foundation.errors import UserError
from framework.foundation.files.storage import Storage
from framework.sources.kafka.source import KafkaSource
from framework.sources.kinds import recognized
from framework.sources.port import SourcePosition, SourceReference, SourceShape, StreamingRelation
from framework.sources.starts import (
    parse_start,
    parse_starts,
    pin_start,
    reader_start,
    start_of,
    started,
    starts_text,
)

ORDERS = SourceReference(kind="kafka", shape=SourceShape.STREAM, location="orders")


@pytest.mark.parametrize(
    ("kind", "text", "options"),
    [
        ("kafka", "earliest", {"startingOffsets": "earliest"}),
        ("kafka", "Latest", {"startingOffsets": "latest"}),
        ("kafka", 'offsets={"a":{"0":23}}', {"startingOffsets": '{"a":{"0":23}}'}),
        ("kafka", "startingOffsets=earliest", {"startingOffsets": "earliest"}),
        (
            "kafka",
            "timestamp=2025-04-09T18:15:00",
            {"startingTimestamp": "1744215300000", "startingOffsetsByTimestampStrategy": "latest"},
        ),
        (
            "kafka",
            "timestamp=1744215300000",
            {"startingTimestamp": "1744215300000", "startingOffsetsByTimestampStrategy": "latest"},
        ),
        ("delta", "startingversion=12", {"startingVersion": "12"}),
        ("delta", "startingTimestamp=2025-04-09", {"startingTimestamp": "2025-04-09"}),
    ],
)
def test_a_start_has_reader_options(kind: str, text: str, options: dict[str, str]) -> None:
    """A time without a zone is in the session's zone; names of options have no case."""
    start = reader_start(kind, parse_start(text), source="s", zone="Europe/Berlin")
    assert start.options == options
    code = {"STARTINGVERSION": "1", "startingtimestamp": "2", "startingOffsets": "latest", "other": "kept"}
    left = set(start.applied(code)) - set(options)
    assert left == ({"other", "STARTINGVERSION"} if kind == "kafka" else {"other", "startingOffsets"})


@pytest.mark.parametrize("zone", ["+01:00", "GMT+1", "PST", "Z"])
def test_a_time_is_in_a_zone_of_any_name_of_java(zone: str) -> None:
    """They are the names that Spark's session has for zones."""
    start = parse_start("timestamp=2025-01-09T00:00:00")
    found = int(reader_start("kafka", start, source="s", zone=zone).options["startingTimestamp"])
    hours = {"+01:00": -1, "GMT+1": -1, "PST": 8, "Z": 0}[zone]
    assert found == 1736380800000 + hours * 3_600_000


def test_a_start_of_files_is_kept_with_its_zone(storage: Storage) -> None:
    """The zone of the session may be another one at the next update."""
    details = json.dumps({"path": "/in", "zone": "Europe/Berlin"})
    source = SourceReference(kind="cloud_files", shape=SourceShape.FOLDER, location="/in", details=details)
    start = pin_start(storage, source, parse_start("modifiedAfter=2025-01-09T12:00:00"))
    assert start.value == "2025-01-09T11:00:00+00:00"


def test_a_start_of_files_replaces_both_spellings_of_the_option_of_the_code() -> None:
    """The reader would refuse two values of one option."""
    start = reader_start("cloud_files", parse_start("modifiedAfter=2025-01-01"), source="s")
    code = {"cloudfiles.modifiedafter": "2024-01-01", "cloudfiles.format": "json"}
    assert set(start.applied(code)) == {"cloudfiles.format", "modifiedAfter", "cloudFiles.includeExistingFiles"}


@pytest.mark.parametrize(
    ("kind", "text", "condition"),
    [
        ("kafka", "startingVersion=1", "START_NOT_SUPPORTED"),
        ("kafka", "now", "START_NOT_SUPPORTED"),
        ("kafka", "offsets=12", "START_INVALID"),
        ("kafka", 'offsets={"a":{"0":"x"}}', "START_INVALID"),
        ("kafka", "timestamp=noon", "START_INVALID"),
        ("delta", "startingVersion=-1", "START_INVALID"),
        ("files", "modifiedAfter=2025-01-01", "START_NOT_SUPPORTED"),
        ("cloud_files", "startingVersion=1", "START_NOT_SUPPORTED"),
        ("cloud_files", "earliest", "START_NOT_SUPPORTED"),
        ("database_changes", "earliest", "START_NOT_SUPPORTED"),
        ("opaque", "startingVersion=1", "START_NOT_SUPPORTED"),
        ("delta", "startingVersion=", "START_INVALID"),
        ("delta", "startingTimestamp=20250409", "START_INVALID"),
        ("cloud_files", "modifiedAfter=1712120912345", "START_INVALID"),
        ("cloud_files", "modifiedAfter=9999-12-31T23:59:59-12:00", "START_INVALID"),
        ("delta", "noon", "START_INVALID"),
    ],
)
def test_a_start_that_a_kind_does_not_have_is_refused(kind: str, text: str, condition: str) -> None:
    """The condition tells a malformed start from one of another kind of source."""
    with pytest.raises(UserError) as raised:
        reader_start(kind, parse_start(text), source="s")
    assert raised.value.condition == condition


@pytest.mark.parametrize(
    ("text", "source", "start"),
    [
        ("/in/day=1:modifiedAfter=2025-01-01T10:00:00", "/in/day=1", "modifiedAfter=2025-01-01T10:00:00"),
        ("s3://bucket/a=b/c:earliest", "s3://bucket/a=b/c", "earliest"),
        ('t:offsets={"t:latest":{"0":5}}', "t", 'offsets={"t:latest":{"0":5}}'),
        ("main.s.a: startingVersion = 3 ", "main.s.a", "startingVersion=3"),
        ("modifiedAfter=2025-01-01T10:00:00", None, "modifiedAfter=2025-01-01T10:00:00"),
        ("/in/x:sometime=3", "/in/x", "sometime=3"),
    ],
)
def test_a_start_may_name_a_source_whose_path_has_any_characters(text: str, source: str | None, start: str) -> None:
    """The first option or word that a source may have ends the name; an unknown option is refused later."""
    found = parse_start(text)
    assert (found.source, found.text) == (source, start)


def test_a_start_of_files_counts_for_the_plan_too() -> None:
    """The source of a generation with a start has the options that its stream reads with."""
    mark = {"path": "/in", "options": {"cloudfiles.format": "json", "cloudfiles.modifiedafter": "2024-01-01"}}
    details = json.dumps({**mark, "has_schema": True, "zone": "UTC"})
    source = SourceReference(kind="cloud_files", shape=SourceShape.FOLDER, location="/in/", details=details)
    starts = parse_starts('{"/in": "modifiedAfter=2025-01-01"}')
    start = start_of(starts, "/in/")
    assert start is not None
    options = json.loads(started(source, start).details)["options"]
    assert options["modifiedafter"] == "2025-01-01"
    assert "cloudfiles.modifiedafter" not in options
    assert (started(ORDERS, start), start_of(starts, "/other")) == (ORDERS, None)
    assert start_of(parse_starts('{"landing": "modifiedAfter=2025-01-01"}'), "./landing/") is not None


def test_the_starts_of_a_generation_survive_their_text() -> None:
    """A manifest stores them by source."""
    starts = {"main.s.a": parse_start("startingVersion=3"), "b": parse_start('offsets={"b":{"0":5}}')}
    assert parse_starts(starts_text(starts)) == starts
    assert parse_starts(None) == {}


def test_kafka_is_recognized_and_owns_its_offsets() -> None:
    """Offsets of other kinds are not those of Kafka."""
    options = {"subscribe": "orders", "kafka.bootstrap.servers": "127.0.0.1:1"}
    assert recognized(StreamingRelation(format="kafka", options=options)) == ORDERS
    others = ['{"logOffset":3}', '{"order":1,"text":"0/1","source":{}}', "{}", "7", "-", '{"a":{"x":1}}']
    assert [offset for offset in ('{"a":{"0":23}}', *others) if KafkaSource().owns(offset)] == ['{"a":{"0":23}}']


def test_the_position_of_kafka_is_a_start(storage: Storage) -> None:
    """The committed offsets are those of the next records; without one for each source, the start is unknown."""
    position = SourcePosition(
        storage=storage, checkpoint="c", sources=(ORDERS,), offsets=('{"orders": {"0": 5}}',), source_count=1
    )
    assert KafkaSource().resume(position) == ('offsets={"orders":{"0":5}}',)
    assert KafkaSource().resume(SourcePosition(
        storage=storage, checkpoint="c", sources=(ORDERS, ORDERS), offsets=("{}",), source_count=1
    )) is None  # fmt: skip
