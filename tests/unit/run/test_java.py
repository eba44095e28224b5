"""Finding Java: the installation that Spark would use, or an error that says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.session.java import find_java
from tests.support.fake_java import install_java


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """JAVA_HOME's Java is used, with the version in its release file."""
    wanted = install_java(tmp_path / "wanted", release="21.0.2")
    other = install_java(tmp_path / "other", release="17.0.15")
    java = find_java({"JAVA_HOME": str(tmp_path / "wanted"), "PATH": str(other.parent)})
    assert (java.program, java.version) == (str(wanted), "21.0.2")


def test_a_link_on_the_path_is_followed_to_its_installation(tmp_path: Path) -> None:
    """Distributions put links on the PATH; the release file is next to the linked program."""
    program = install_java(tmp_path / "jdk")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(program)
    assert find_java({"PATH": str(links)}).program == str(program)


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    """Without a release file, the version is that of `java -version`."""
    install_java(tmp_path / "jdk", script="echo 'openjdk version \"18.0.1\" 2022-04-19' >&2", release=None)
    assert find_java({"JAVA_HOME": str(tmp_path / "jdk")}).version == "18.0.1"


@pytest.mark.parametrize("variables", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}])
def test_no_java_is_said_with_what_to_install(variables: dict[str, str]) -> None:
    """Without Java, the user learns which one to install; a wrong JAVA_HOME is not silently passed over."""
    with pytest.raises(UserError) as raised:
        find_java(variables)
    assert raised.value.condition == "JAVA_NOT_FOUND"
    assert "openjdk-17-jre-headless" in raised.value.remedy
    assert variables.get("JAVA_HOME", "PATH") in raised.value.what


@pytest.mark.parametrize("release", ["11.0.22", "1.8.0_402"])
def test_an_old_java_is_refused_before_it_starts(tmp_path: Path, release: str) -> None:
    """Java 8 and 11 are named with their version, and never run."""
    install_java(tmp_path / "jdk", script=f"touch {tmp_path}/ran", release=release)
    with pytest.raises(UserError) as raised:
        find_java({"JAVA_HOME": str(tmp_path / "jdk")})
    assert (raised.value.condition, raised.value.fields["version"]) == ("JAVA_TOO_OLD", release)
    assert not (tmp_path / "ran").exists()
