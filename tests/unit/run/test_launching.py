"""A JVM that dies at its start is reported with its last output, not a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import OperationError
from framework.session.launching import launch_by_submit, launch_directly
from framework.session.settings import SessionRequest
from tests.support.fake_java import install_java


@pytest.fixture
def dying_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that prints an error and ends; its jars count as present, so that nothing is resolved."""
    install_java(tmp_path / "jdk", script="echo 'Error: Could not reserve enough space' >&2; exit 3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def request(**settings: str) -> SessionRequest:
    """A local session with its own Delta jars."""
    conf = {"spark.driver.extraClassPath": "/opt/delta-spark.jar", **settings}
    return SessionRequest(app_name="app", master="local[1]", spark_conf=conf)


@pytest.mark.usefixtures("dying_java")
def test_a_jvm_that_dies_directly_is_quoted() -> None:
    """The error has the exit code and the last output of the JVM."""
    with pytest.raises(OperationError) as raised:
        launch_directly(request())
    assert raised.value.condition == "SPARK_NOT_STARTED"
    assert raised.value.fields == {
        "failure": "ended with code 3",
        "output": "Error: Could not reserve enough space",
    }


@pytest.mark.usefixtures("dying_java")
def test_a_jvm_that_dies_behind_spark_submit_is_quoted_too() -> None:
    """spark-submit's own failure ends in the same condition."""
    with pytest.raises(OperationError) as raised:
        launch_by_submit(request())
    assert raised.value.condition == "SPARK_NOT_STARTED"
    assert "Could not reserve enough space" in str(raised.value.fields["output"])
