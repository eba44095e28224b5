"""The class archive: used if it exists, built by one process, and never a cause of failure."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from framework.archive_training import sweep
from framework.session.class_archive import (
    VARIABLE,
    archive_path,
    build_in_background,
    build_options,
    excludes_archive,
    publish,
    use_options,
)
from framework.session.java import Java, JavaSource
from framework.testing.manual_clock import ManualClock

JAVA = Java(program="/jdk/bin/java", version="17.0.15", source=JavaSource.PATH)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for the test, with the archive enabled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = tmp_path / "cache" / "sluice" / "classes"
    folder.mkdir(parents=True)
    return folder


def test_an_archive_is_of_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    """Another Java, another class path or another state of a jar makes another archive; the same makes the same."""
    jar = tmp_path / "a.jar"
    jar.write_text("one")
    first = archive_path(JAVA, str(jar))
    assert archive_path(JAVA, str(jar)) == first
    others = {archive_path(replace(JAVA, version="21"), str(jar)), archive_path(JAVA, f"{jar}:/b.jar")}
    jar.write_text("another")
    others.add(archive_path(JAVA, str(jar)))
    assert first not in others
    assert len(others) == 3


def test_jars_behind_a_star_count(tmp_path: Path) -> None:
    """A jar added to a folder on the class path makes another archive."""
    before = archive_path(JAVA, f"{tmp_path}/*")
    (tmp_path / "new.jar").touch()
    assert archive_path(JAVA, f"{tmp_path}/*") != before


def test_an_archive_is_used_only_when_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an archive there is no option, and none if it is disabled."""
    archive = cache / "a.jsa"
    assert use_options(archive) == ()
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in use_options(archive)
    monkeypatch.setenv(VARIABLE, "off")
    assert use_options(archive) == ()


@pytest.mark.usefixtures("cache")
def test_java_25_uses_an_aot_cache() -> None:
    """Its options are other ones, and the file's name says what it is."""
    archive = archive_path(replace(JAVA, version="25.0.2"), "/a.jar")
    assert archive.suffix == ".aot"
    assert archive_path(JAVA, "/a.jar").suffix == ".jsa"
    assert f"-XX:AOTCacheOutput={archive}" in build_options(archive)
    archive.touch()
    assert f"-XX:AOTCache={archive}" in use_options(archive)


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/a.jsa", "-XX:AOTMode=on", "-XX:AOTCache=/a"])
def test_options_of_the_user_exclude_an_archive(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """Java 25 ends at its start with an AOT cache and any other option of this kind."""
    variables = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    assert not excludes_archive({"spark.driver.extraJavaOptions": "-Xss4m -XX:+UseG1GC"})
    for name in ("extraJavaOptions", "defaultJavaOptions"):
        assert excludes_archive({f"spark.driver.{name}": f"-Xss4m {option}"})
    for name in variables:
        with monkeypatch.context() as changed:
            changed.setenv(name, f"-Xss4m {option}")
            assert excludes_archive({})


def test_a_class_path_of_the_user_excludes_an_archive() -> None:
    """The build in the background has the plain class path, and no session could use its archive."""
    assert excludes_archive({"spark.driver.extraClassPath": "/opt/a.jar"})


def test_publishing_keeps_the_two_used_last(cache: Path) -> None:
    """Each archive is 190 MB, so a third one pushes out the one that was used longest ago."""
    for age, name in enumerate(["newer", "older", "oldest"], start=1):
        (cache / f"{name}.jsa").touch()
        os.utime(cache / f"{name}.jsa", (1_000_000 - age, 1_000_000 - age))
    built = cache / "built"
    built.touch()
    publish(built, cache / "now.jsa")
    assert sorted(file.name for file in cache.iterdir()) == ["newer.jsa", "now.jsa"]


def test_an_archive_that_is_being_built_is_not_built_twice(cache: Path) -> None:
    """A recent claim belongs to another process; the call starts nothing."""
    clock = ManualClock()
    claim = cache / "a.building"
    claim.touch()
    os.utime(claim, (clock.now().timestamp(), clock.now().timestamp()))
    build_in_background(cache / "a.jsa", clock)
    assert [file.name for file in cache.iterdir()] == ["a.building"]


@pytest.mark.parametrize("mode", ["off", "use"])
def test_no_build_is_started_where_none_is_wanted(cache: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Tests, and users who disable it, get no background process."""
    monkeypatch.setenv(VARIABLE, mode)
    build_in_background(cache / "a.jsa", ManualClock())
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    """A start works without an archive, so nothing is raised."""
    (tmp_path / "file").touch()
    build_in_background(tmp_path / "file" / "classes" / "a.jsa", ManualClock())
    assert use_options(tmp_path / "file" / "classes" / "a.jsa") == ()


def test_leavings_of_killed_builds_are_swept(cache: Path) -> None:
    """A scratch folder that is an hour old, or of the future, is deleted; one of a running build stays."""
    clock = ManualClock()
    now = clock.now().timestamp()
    for name, age in (("dead", 4000), ("of-the-future", -900_000), ("alive", 10)):
        (cache / f".building-{name}").mkdir()
        os.utime(cache / f".building-{name}", (now - age, now - age))
    sweep(cache, clock)
    assert [file.name for file in cache.iterdir()] == [".building-alive"]
