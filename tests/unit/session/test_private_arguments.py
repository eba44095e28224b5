"""Passwords in Java's options and Spark's settings are no arguments, which all users of a machine see."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from framework.foundation.secrets.known_secrets import remember_secrets
from framework.session.java import find_java
from framework.session.jvm_process import shown_output
from framework.session.private_arguments import option_file, properties_file

OPTIONS = ("-Da=b c", '-Dq="x"', "-Dpath=C:\\x", "-Dpassword=pa'ss #1", "-Dlast=@x")


def test_java_reads_the_options_from_a_file_that_only_its_user_can_read(tmp_path: Path) -> None:
    """Each option arrives as one, whatever is in it, and the arguments have none of it."""
    arguments = option_file(tmp_path, OPTIONS)
    command = [find_java().program, *arguments, "-XshowSettings:properties", "-Xshare:auto", "-version"]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stderr
    properties = {line.strip() for line in shown.splitlines()}
    assert {"a = b c", 'q = "x"', "path = C:\\x", "password = pa'ss #1", "last = @x"} <= properties
    assert arguments == (f"@{tmp_path}/options",)
    assert oct((tmp_path / "options").stat().st_mode)[-3:] == "600"
    assert option_file(tmp_path, ()) == ()


def test_settings_are_written_as_java_reads_properties(tmp_path: Path) -> None:
    """With escapes for all that separates, and for the reader of this user only."""
    arguments = properties_file(tmp_path, {"spark.a b": "x=y: #z", "spark.path": "C:\\x", "spark.lines": "a\nb"})
    assert arguments == ("--properties-file", str(tmp_path / "settings"), "--load-spark-defaults")
    expected = "spark.a\\ b=x\\=y\\:\\ \\#z\nspark.path=C\\:\\\\x\nspark.lines=a\\nb\n"
    assert (tmp_path / "settings").read_text("utf-8") == expected
    assert oct((tmp_path / "settings").stat().st_mode)[-3:] == "600"


def test_the_output_of_a_jvm_does_not_control_the_terminal(swap: pytest.MonkeyPatch) -> None:
    """A file's name in its log is shown with escapes, and a progress bar as lines."""
    shown = io.StringIO()
    swap.setattr(sys, "stderr", shown)
    name = "\x1b]52;c;cm0K\x07\x1b[2J\x9b31m\u202e"
    script = "import os, sys; os.write(1, (sys.argv[1] + '\\r\\nbar 1\\rbar 2\\n').encode()); exit(1)"
    with pytest.raises(subprocess.CalledProcessError), shown_output() as descriptor:
        subprocess.run([sys.executable, "-c", script, name], stdout=descriptor, check=True)
    assert shown.getvalue() == "\\x1b]52;c;cm0K\\x07\\x1b[2J\\x9b31m\\u202e\nbar 1\nbar 2\n"


def test_the_output_of_a_jvm_is_shown_without_secrets(swap: pytest.MonkeyPatch) -> None:
    """Also one that arrives in two parts, and all of it before the error of a start that fails."""
    shown = io.StringIO()
    swap.setattr(sys, "stderr", shown)
    remember_secrets("abcdefghij")
    parts = "import os, time; os.write(1, b'log abcde'); time.sleep(0.2); os.write(1, b'fghij\\nend abcdefghij')"
    with pytest.raises(subprocess.CalledProcessError), shown_output() as descriptor:
        subprocess.run([sys.executable, "-c", f"{parts}; exit(1)"], stdout=descriptor, check=True)
    assert shown.getvalue() == "log [REDACTED]\nend [REDACTED]"
