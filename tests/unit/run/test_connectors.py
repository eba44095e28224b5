"""Which formats of modules need a package of Spark's, and that a package that can't be had stops nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.session.cold_start import take_connectors
from framework.session.connectors import connector_jars, formats_in
from framework.session.java import Java, JavaSource

JAVA = Java(program="/no/java", version="17", source=JavaSource.PATH)


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("spark.readStream.format('kafka').load()", ("kafka",)),
        ("SELECT * FROM STREAM read_kafka(bootstrapServers => 'h')", ("kafka",)),
        (r'"source": ["spark.readStream.format(\"kafka\")"]', ("kafka",)),
        ("from_avro(value, schema)", ("avro",)),
        ("options = {'cloudFiles.format': 'avro'}", ("avro",)),
        ("spark.read.table('kafka_topics')  # as kafka has them", ()),
        ('spark.read.table("main.kafka")', ()),
    ],
)
def test_a_format_is_named_as_code_names_it(text: str, formats: tuple[str, ...]) -> None:
    """Comments and longer names do not name it; notebooks have their code as JSON."""
    assert formats_in([text]) == formats


def test_a_package_that_is_there_or_can_not_be_had_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and Spark's own folder may have it; otherwise the sentence says what could not be downloaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-avro_2.13.jar").touch()
    take_connectors()
    named = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}
    assert connector_jars(["avro", "kafka"], JAVA, str(tmp_path), named) == ()
    assert take_connectors() == ()
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'unresolved: UNRESOLVED DEPENDENCIES'\n", encoding="utf-8")
    program.chmod(0o755)
    java = Java(program=str(program), version="17", source=JavaSource.PATH)
    assert connector_jars(["kafka"], java, str(tmp_path), {}) == ()
    (words,) = take_connectors()
    assert "spark-sql-kafka-0-10_2.13" in words
    assert "can't be downloaded (unresolved: UNRESOLVED DEPENDENCIES)" in words
