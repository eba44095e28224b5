"""A JVM that dies at its start is reported with its last output, not a traceback."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from framework.foundation.errors import OperationError
from framework.session.class_archive import VARIABLE
from framework.session.jars import delta_coordinate
from framework.session.launching import launch_by_submit, launch_directly, usual_archive
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
    script = 'for each in "$@"; do case $each in -XX:AOT*) echo "$each" >&2; esac; done; exit 3'
    install_java(tmp_path / "jdk", script=script, release="25.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", option)
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "cache" / "sluice" / "jars" / delta_coordinate().replace(":", "_")).mkdir(parents=True)
    archive = usual_archive()
    archive.parent.mkdir()
    archive.touch()
    with pytest.raises(OperationError) as raised:
        launch_directly(SessionRequest(app_name="app", master="local[1]", spark_conf={}))
    assert (f"-XX:AOTCache={archive}" in str(raised.value.fields["output"])) == is_used


def test_a_shim_gives_spark_submit_no_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit then runs `java` of the PATH, which is the shim."""
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(
        '#!/bin/sh\n[ "$1" != -version ] || exec echo \'openjdk version "21"\' >&2\n'
        'echo "the shim ran, JAVA_HOME=${JAVA_HOME-is not set}" >&2\nexit 3\n',
        "utf-8",
    )
    shim.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    with pytest.raises(OperationError) as raised:
        launch_by_submit(replace(request(), master="spark://127.0.0.1:1"))
    assert "the shim ran, JAVA_HOME=is not set" in str(raised.value.fields["output"])
