"""Whether a folder can be written is known without a file in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from framework.run.flows.state.stored_access import Unwritable, why_not_writable
from tests.support.another_user import NEEDS_ROOT, acting_as_another_user, open_folder


def test_what_can_be_written_has_no_problem_and_nothing_is_written(tmp_path: Path) -> None:
    """Folders, files, and those that an update would create; the look leaves no trace."""
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "new" / "deeper"):
        assert why_not_writable(str(path)) is None
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@NEEDS_ROOT
def test_the_owner_the_rights_and_the_user_are_named() -> None:
    """Of a folder of another user, of a file, of one that would be created, and of one behind a closed folder."""
    with open_folder() as shared:
        (shared / "theirs").mkdir()
        (shared / "theirs").chmod(0o755)
        (shared / "file").touch()
        (shared / "file").chmod(0o640)
        (shared / "closed").mkdir()
        (shared / "closed").chmod(0o700)
        paths = ("theirs", "file", "theirs/new", "closed/inner", "free/new")
        with acting_as_another_user():
            found = {path: why_not_writable(str(shared / path)) for path in paths}
        runs = "and this process runs as nobody"
        assert found == {
            "theirs": Unwritable(problem=f"it belongs to root with the rights drwxr-xr-x, {runs}"),
            "file": Unwritable(problem=f"it belongs to root with the rights -rw-r-----, {runs}"),
            "theirs/new": Unwritable(problem=f"{shared}/theirs belongs to root with the rights drwxr-xr-x, {runs}"),
            "closed/inner": Unwritable(problem=f"{shared}/closed/inner can't be opened (Permission denied)"),
            "free/new": None,
        }


@NEEDS_ROOT
def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    """Its rights may allow everything, also to root."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine mounts no file system")
    try:
        problem = "it is on a file system that is mounted read-only"
        assert why_not_writable(str(tmp_path)) == Unwritable(problem=problem, is_mounted_so=True)
        assert os.access(tmp_path, os.R_OK)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
