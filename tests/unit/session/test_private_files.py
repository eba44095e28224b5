"""What is written outside of a storage is this user's alone, and code that others could have changed is not run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.cli.call import is_first_mention
from framework.foundation.errors import OperationError
from framework.foundation.files.private_files import exposure, make_private_folder, write_private_file
from framework.recovery.reconcile import scratch_folder
from framework.session.class_archive import VARIABLE, build_options, use_options
from framework.session.jars import cache_folder, delta_jars
from framework.session.java import Java, JavaSource
from framework.session.java_classes import kept_code
from framework.session.keeper_client.protocol import claimed
from framework.sources.databases.streams.changes_stream import spool_folder
from framework.sources.databases.streams.spool import Spool
from tests.support.another_user import NEEDS_ROOT, as_another_user, exposed_to_another_user, open_folder
from tests.support.fake_java import install_java

pytestmark = NEEDS_ROOT
_RESOLVES = """
for argument in "$@"; do case "$argument" in spark.jars.ivy=*) ivy="${argument#spark.jars.ivy=}";; esac; done
mkdir -p "$ivy/jars"
echo jar > "$ivy/jars/io.delta_delta-spark.jar"
"""


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that all users share, for the cache; without a umask."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with open_folder() as folder:
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


def java(folder: Path) -> Java:
    """A Java that resolves packages."""
    return Java(program=str(install_java(folder, script=_RESOLVES)), version="17.0.15", source=JavaSource.PATH)


def test_another_user_neither_reads_nor_changes_what_is_written(shared: Path, tmp_path: Path) -> None:
    """Jars, options with passwords, rows of databases and of comparisons, sockets and marks: without any umask."""
    delta_jars(java(tmp_path / "jdk"), "/spark", {})
    is_first_mention()
    make_private_folder(shared / "one" / "two")
    write_private_file(shared / "options", "-Dpassword=x")
    spool = Spool(spool_folder(str(shared)))
    with claimed(shared / "sockets" / "x.sock"), scratch_folder(shared) as scratch:
        for folder in (spool.folder / "old", scratch):
            folder.mkdir(exist_ok=True)
            (folder / "rows.json").write_text("{}")
        Spool(spool.folder)  # begins again in the same folder
        (spool.folder / "rows.json").write_text("{}")
        written = sorted(each.name for each in shared.rglob("*") if each.is_file())
        assert exposed_to_another_user(shared) == []
    assert written == [
        "io.delta_delta-spark.jar", "options", "rows.json", "rows.json", "session-mentioned", "x.lock",
    ]  # fmt: skip


def test_code_that_another_user_has_put_there_is_not_run(shared: Path, tmp_path: Path) -> None:
    """A cache in a folder for all, made before ours: its jars, its archive of classes, its compiled classes."""
    jars = f"{shared}/sluice/jars/io.delta_delta-spark_4.2_2.13_4.4.0"
    as_another_user(
        f"mkdir -p {jars} {shared}/sluice/classes {shared}/sluice/java; echo x | tee {jars}/io.delta_delta-spark.jar "
        f"{shared}/sluice/classes/a.jsa > {shared}/sluice/java/a.json"
    )
    assert Path(jars, "io.delta_delta-spark.jar").read_text() == "x\n"
    with pytest.raises(OperationError) as raised:
        delta_jars(java(tmp_path / "jdk"), "/spark", {})
    assert raised.value.condition == "CACHE_NOT_TRUSTED"
    assert raised.value.fields["problem"] == f"{shared}/sluice belongs to the user 65534"
    assert use_options(cache_folder() / "classes" / "a.jsa") == ()
    assert kept_code(cache_folder() / "java" / "a.json", ("A",)) is None


def test_code_that_anybody_can_change_is_not_run(shared: Path, tmp_path: Path) -> None:
    """Whoever owns the folders of a cache: one jar, or one folder that all can write, is enough."""
    resolver = java(tmp_path / "jdk")
    (jar,) = delta_jars(resolver, "/spark", {})
    base = cache_folder()
    Path(jar).chmod(0o666)
    assert exposure(base, Path(jar)) == f"others can write to {jar}"
    with pytest.raises(OperationError):
        delta_jars(resolver, "/spark", {})
    Path(jar).chmod(0o664)  # a umask that trusts the group of the user
    assert exposure(base, Path(jar)) is None
    assert oct(Path(jar).stat().st_mode)[-3:] == "644"
    os.chown(jar, 65_534, 65_534)
    assert exposure(base, Path(jar)) == f"{jar} belongs to the user 65534"
    os.chown(jar, 0, 0)
    shared.chmod(0o777)
    assert exposure(base, Path(jar)) == f"others can replace {base}"
    shared.chmod(0o1777)
    (base / "java").symlink_to(tmp_path)
    assert exposure(base, base / "java" / "a.json") == f"{base}/java is a symbolic link"


def test_an_own_archive_of_classes_is_used(shared: Path) -> None:
    """The check does not cost users of a safe cache their quick start."""
    archive = shared / "sluice" / "classes" / "a.jsa"
    make_private_folder(archive.parent)
    write_private_file(archive, "")
    assert use_options(archive)[0] == f"-XX:SharedArchiveFile={archive}"
    assert build_options(archive)[0] == f"-XX:ArchiveClassesAtExit={archive}"
