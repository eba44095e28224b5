"""The CI script on a fresh machine, with a stub for each program that installs or builds."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.sources import ROOT

_TOOLS = ("bash", "chmod", "dirname", "ln", "mktemp", "readlink", "rm")
_STUB = '#!/bin/bash\necho "${{0##*/}} $*" >>{log}\n'


def test_a_machine_without_java_gets_a_supported_one_and_keeps_no_files(tmp_path: Path) -> None:
    """The default JRE exists in every release of Debian; the fake `java` of the demo is deleted at the end."""
    programs, scratch, log = tmp_path / "bin", tmp_path / "scratch", tmp_path / "log"
    programs.mkdir()
    scratch.mkdir()
    for tool in _TOOLS:
        (programs / tool).symlink_to(shutil.which(tool) or tool)
    stubs = {"apt-get": f'[ "$1" = update ] || ln -s /bin/true {programs}/java\n', "make": "", "python3": ""}
    for name, more in stubs.items():
        (programs / name).write_text(_STUB.format(log=log) + more, "utf-8")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": str(programs), "TMPDIR": str(scratch)}
    subprocess.run([programs / "bash", str(ROOT / ".ci" / "run")], env=environment, check=True)
    lines = log.read_text("utf-8").splitlines()
    assert "apt-get install -y -qq --no-install-recommends default-jre-headless" in lines
    assert [line.split()[1] for line in lines if line.startswith("make")] == ["demo", "smoke", "check"]
    assert list(scratch.iterdir()) == []
