"""A JVM that dies at its start is reported with its last output, not a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError

from framework.foundation.errors import OperationError
from framework.session import jvm_process, launching
from framework.session.class_archive import VARIABLE
from framework.session.java import Java, JavaSource
from framework.session.jvm_process import start_submitted_jvm
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
def test_a_jvm_that_dies_directly_is_quoted(tmp_path: Path) -> None:
    """The error has the exit code and what the JVM said last."""
    with pytest.raises(OperationError) as raised:
        launch_directly(request())
    assert raised.value.condition == "SPARK_NOT_STARTED"
    assert raised.value.fields == {
        "java": str(tmp_path / "jdk" / "bin" / "java"),
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


@pytest.mark.parametrize(("option", "is_used"), [("-Xss4m", True), ("-Xshare:auto", False)])
def test_an_archive_is_not_used_with_options_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, *, is_used: bool
) -> None:
    """An existing archive does not end the session of a user with such options."""
    install_java(tmp_path / "jdk", release="25.0.2")
    (tmp_path / "a.aot").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", option)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(launching, "delta_jars", lambda *_: ())
    monkeypatch.setattr(launching, "archive_path", lambda *_: tmp_path / "a.aot")
    command: list[str] = []

    def start(arguments: list[str], *_: object, **__: object) -> None:
        command.extend(arguments)
        raise OperationError("SPARK_NOT_STARTED", java="java", failure="ended", output="")

    monkeypatch.setattr(launching, "start_local_jvm", start)
    with pytest.raises(OperationError):
        launch_directly(SessionRequest(app_name="app", master="local[1]", spark_conf={}))
    assert (f"-XX:AOTCache={tmp_path / 'a.aot'}" in command) == is_used


def test_a_shim_gives_spark_submit_no_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit then runs `java` of the PATH, which is the shim."""
    seen: list[str | None] = []

    def launch(*_: object) -> None:
        seen.append(os.environ.get("JAVA_HOME"))
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(jvm_process, "launch_gateway", launch)
    program = install_java(tmp_path / "jdk")
    for each in (program, tmp_path / "shims" / "java"):
        java = Java(program=str(each), version="21", source=JavaSource.PATH)
        with pytest.raises(OperationError):
            start_submitted_jvm({}, java, verbose=False)
    assert seen == [str(tmp_path / "jdk"), None]
