"""PySpark's test tools are imported when somebody uses them, however that is written."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BEFORE = """
import sys
from framework.engine.jvm.pyspark_test_tools import defer_test_tools
defer_test_tools()
from pyspark.testing.utils import have_numpy
assert not have_numpy and "pandas" not in sys.modules
"""
_AFTER = """
import pyspark.testing
assert sys.modules["pyspark.testing"] is pyspark.testing and pyspark.testing.__file__
assert pyspark.testing.utils is sys.modules["pyspark.testing.utils"]
from pyspark.testing.utils import have_numpy
assert have_numpy and used.__module__ == "pyspark.testing.utils" and "pandas" in sys.modules
"""


@pytest.mark.parametrize(
    "use",
    [
        "from pyspark.testing import assertDataFrameEqual as used",
        "from pyspark.testing.utils import assertSchemaEqual as used",
        "import pyspark.testing.utils as utils; used = utils.assertDataFrameEqual",
        "import pyspark.testing as testing; used = testing.assertDataFrameEqual",
        "from pyspark.testing.sqlutils import search_jar; import pyspark.testing as t; used = t.assertSchemaEqual",
    ],
)
def test_the_tools_are_there_when_they_are_used(use: str) -> None:
    """Before, PySpark learns from the stand-in that the process has no NumPy; afterwards it has the modules."""
    done = subprocess.run(
        [sys.executable, "-c", f"{_BEFORE}\n{use}\n{_AFTER}"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
