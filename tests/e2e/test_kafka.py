"""Flows that read a real Kafka: where a reset starts, and what retention, new partitions and a lost topic end with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import environment
from tests.support.kafka import connector_jars, running_broker

_DEADLINE_SECONDS = 500.0
ALL = ["a0", "a1", "a2", "b0", "b1"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How each chapter of `kafka_story.py` ended: one broker and one JVM for all tests of this file."""
    folder = tmp_path_factory.mktemp("kafka")
    script = Path(__file__).with_name("kafka_story.py")
    with running_broker(folder / "broker") as broker:
        done = subprocess.run(
            [sys.executable, str(script), str(folder / "world"), broker, connector_jars()],
            env={**environment(), "SLUICE_SESSION": "off"}, capture_output=True, text=True, check=False,
            timeout=_DEADLINE_SECONDS,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_each_start_reads_from_there(story: dict[str, Any]) -> None:
    """The start of a reset replaces the option of the code: latest, earliest, a time, and given offsets."""
    assert story["first run"] == {"appended": 5, "rows": ALL}
    assert story["latest"] == {"appended": 0, "rows": ALL}
    assert story["after latest"] == {"appended": 1, "rows": [*ALL, "b2"]}
    again = [*story["after latest"]["rows"], "a3", "b2"]
    assert story["timestamp"] == {"appended": 2, "rows": sorted(again)}
    assert story["offsets"] == {"appended": 3, "rows": sorted([*again, "a3", "b1", "b2"])}
    before = story["partition added"]["rows"]
    assert story["recovered"] == {"appended": 4, "rows": sorted([*before, "b0", "b1", "b2", "c0"])}  # earliest


def test_a_new_partition_is_read_from_its_beginning(story: dict[str, Any]) -> None:
    """A partition that is added to the topic needs no reset, and the others have no new records."""
    assert story["partition added"] == {"appended": 1, "rows": sorted([*story["offsets"]["rows"], "c0"])}


def test_records_that_expired_unread_are_a_break_with_ways_out(story: dict[str, Any]) -> None:
    """The flow fails with Spark's condition, its remedy is a command, and that command recovers it."""
    assert story["expired"]["condition"].startswith("KAFKA_DATA_LOSS.")
    assert "`sluice run --reset-checkpoint main.shop.orders --from earliest`" in story["expired"]["remedy"]
    assert story["recovered"]["appended"] == 4


def test_doctor_reads_on_in_the_partitions_that_lost_nothing(story: dict[str, Any]) -> None:
    """Only the partition that lost records begins at its earliest one, so no record is read twice."""
    told = story["unread records expired"]
    assert told["found"] == told["condition"] == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    assert (told["diagnosis"], told["sqlstate"], told["ended"]) == ("KAFKA_OFFSETS_GONE", "22000", "COMPLETED")
    assert [way for way, _, _ in told["ways"]] == ["RESET_PARTITIONS", "RESET_EARLIEST", "RESET_LATEST"]
    assert told["ways"][0][1:] == [
        'sluice run --reset-checkpoint main.shop.orders --from \'offsets={"orders":{"0":-2,"1":3,"2":1}}\'',
        "lost: unknown: the unread records that Kafka has deleted from orders-0; repeated: none; read again: none",
    ]
    assert "repeated: at most 10 rows" in told["ways"][1][2]
    assert told["values"] == sorted([*story["recovered"]["rows"], "b3"])


def test_doctor_takes_a_new_partition_whose_first_records_expired(story: dict[str, Any]) -> None:
    """A partition without a position begins at its earliest record, and the others where they were."""
    told = story["records of a new partition expired"]
    assert told["found"] == "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    assert '{"orders":{"0":8,"1":4,"2":1,"3":-2}}' in told["ways"][0][1]
    assert told["values"] == sorted([*story["unread records expired"]["values"], "d1"])


def test_a_plan_names_the_start(story: dict[str, Any]) -> None:
    """The reason of the step says where a reset flow starts."""
    assert story["reason"] == ["its checkpoint is reset to latest; the rows it wrote are kept"]


def test_a_deleted_topic_fails_the_flow_until_it_is_back(story: dict[str, Any]) -> None:
    """Nothing is taken for an end of the data, and a reset reads the topic that was created again."""
    told = story["topic deleted"]
    assert (told["diagnosis"], told["ended"]) == ("KAFKA_OFFSETS_GONE", "COMPLETED")
    assert [way for way, _, _ in told["ways"]] == ["RESET_EARLIEST", "RESET_LATEST"]
    assert told["values"] == sorted([*story["records of a new partition expired"]["values"], "e0"])


def test_avro_files_are_read_by_the_schema_of_each(story: dict[str, Any]) -> None:
    """Types become the widest ones, new columns of any file are found, and what does not fit is rescued."""
    big = str(2**40)
    first = [["1", "a", "1.2500", "None"], [big, "b", "12345.1234", "None"]]
    both = [[*row, "None"] for row in first]
    third = ["3", "c", "None", "None", "None"]
    assert story["avro"]["first"] == {"evolved": both, "rescued": both, "view": first}
    assert story["avro"]["second"] == {
        "evolved": [[*row, "None"] for row in (*both, third)] + [["None"] * 4 + ['{"id":"x"}', "7"]],
        "rescued": [*both, third, ["None"] * 4 + ['{"id":"x","more":"7"}']],
        "view": [[*row, "None"] for row in (*first, third[:4])] + [["x", "None", "None", "None", "7"]],
    }
