"""Delta's jars: resolved once, published atomically, and a clear error if they are not available."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.foundation.errors import OperationError
from framework.session.jars import brings_delta, delta_jars
from framework.session.java import Java, JavaSource
from tests.support.fake_java import install_java

# What spark-submit does, in shell: retrieve into the `jars` folder of spark.jars.ivy, and count the calls.
_RESOLVES = """
for argument in "$@"; do case "$argument" in spark.jars.ivy=*) ivy="${{argument#spark.jars.ivy=}}";; esac; done
echo called >> {calls}
echo "$@" > {arguments}
cat "$ivy/settings" > {settings}
mkdir -p "$ivy/jars"
echo jar > "$ivy/jars/io.delta_delta-storage.jar"
sleep 0.2
echo jar > "$ivy/jars/io.delta_delta-spark.jar"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sluice" / "jars"


def java(tmp_path: Path, script: str) -> Java:
    """A Java that runs the script."""
    text = script.format(calls=tmp_path / "calls", arguments=tmp_path / "arguments", settings=tmp_path / "settings")
    return Java(program=str(install_java(tmp_path / "jdk", script=text)), version="17.0.15", source=JavaSource.PATH)


def names(jars: tuple[str, ...]) -> list[str]:
    """The file names of the jars."""
    return [Path(jar).name for jar in jars]


def test_jars_are_resolved_once_and_found_again(tmp_path: Path) -> None:
    """The second call starts nothing and returns the same paths."""
    resolver = java(tmp_path, _RESOLVES)
    first = delta_jars(resolver, "/spark", {})
    assert names(first) == ["io.delta_delta-spark.jar", "io.delta_delta-storage.jar"]
    assert delta_jars(resolver, "/spark", {}) == first
    assert (tmp_path / "calls").read_text() == "called\n"


def test_two_at_once_both_get_whole_jars(tmp_path: Path, cache: Path) -> None:
    """Two processes that resolve concurrently end with one folder, and no scratch files are left."""
    resolver = java(tmp_path, _RESOLVES)
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: delta_jars(resolver, "/spark", {}), range(2)))
    assert names(both[0]) == names(both[1]) == ["io.delta_delta-spark.jar", "io.delta_delta-storage.jar"]
    assert len(list(cache.iterdir())) == 1


def test_the_users_repositories_reach_the_resolver(tmp_path: Path) -> None:
    """Settings of jar repositories are passed on, but not as arguments; packages that Spark ships are excluded."""
    settings = {"spark.jars.repositories": "https://joe:hunter2@mirror", "spark.sql.ansi.enabled": "false"}
    delta_jars(java(tmp_path, _RESOLVES), "/spark", settings)
    given = (tmp_path / "settings").read_text()
    assert "spark.jars.repositories=https\\://joe\\:hunter2@mirror\n" in given
    assert "org.apache.*\\:*" in given
    assert "ansi" not in given
    assert "hunter2" not in (tmp_path / "arguments").read_text()


def test_offline_says_what_failed_and_what_to_do(tmp_path: Path, cache: Path) -> None:
    """A resolver that can't reach the repository ends in one paragraph, and the next call tries again."""
    script = 'echo "downloading"; echo "java.lang.RuntimeException: [unresolved dependency: io.delta]" >&2; exit 1'
    with pytest.raises(OperationError) as raised:
        delta_jars(java(tmp_path, script), "/spark", {})
    assert raised.value.condition == "DELTA_JARS_NOT_RESOLVED"
    assert raised.value.fields["problem"] == "java.lang.RuntimeException: [unresolved dependency: io.delta]"
    assert "spark.jars.repositories" in raised.value.remedy
    assert list(cache.iterdir()) == []


def test_a_full_disk_is_no_lack_of_network(tmp_path: Path) -> None:
    """The resolver could not write what it has downloaded."""
    script = "echo 'Exception in thread \"main\" java.io.IOException: No space left on device' >&2; exit 1"
    with pytest.raises(OperationError) as raised:
        delta_jars(java(tmp_path, script), "/spark", {})
    assert raised.value.condition == "DISK_FULL"


def test_half_a_resolution_is_none(tmp_path: Path, cache: Path) -> None:
    """Jars without Delta's own are rejected."""
    with pytest.raises(OperationError):
        delta_jars(java(tmp_path, "true" + _RESOLVES.split("sleep", maxsplit=1)[0]), "/spark", {})
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, cache: Path) -> None:
    """The error names the folder and the variable that moves it."""
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(OperationError) as raised:
        delta_jars(java(tmp_path, _RESOLVES), "/spark", {})
    assert (raised.value.condition, raised.value.fields["path"]) == ("CACHE_NOT_WRITABLE", str(cache))
    assert "XDG_CACHE_HOME" in raised.value.remedy


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}, False),
        ({"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}, True),
        ({"spark.jars": "/opt/delta-spark_2.13.jar"}, True),
        ({"spark.driver.extraClassPath": "/opt/delta-spark_2.13.jar"}, True),
    ],
)
def test_a_delta_of_the_users_own_is_not_doubled(tmp_path: Path, settings: dict[str, str], *, expected: bool) -> None:
    """Where the user's settings bring Delta, ours stays out."""
    assert brings_delta(settings, str(tmp_path)) is expected


def test_a_spark_that_holds_delta_needs_no_other(tmp_path: Path) -> None:
    """A distribution with Delta among its jars gets none from us."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert brings_delta({}, str(tmp_path)) is True
