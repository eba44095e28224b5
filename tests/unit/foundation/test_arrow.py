"""PyArrow in a process that may never need pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys, threading
from pathlib import Path
from framework.sources.databases.streams.spool import Spool
import pyarrow as pa
for name in "ab":
    Spool(Path(sys.argv[1], name))
print(pa.array(["x"]).to_pylist(), "pandas" in sys.modules)
import pandas as pd
print(pa.array(pd.Series([1.0, float("nan")])).null_count, pa.array([1]).to_pandas().tolist())
print(type(pd.__loader__) is type(threading.__loader__), pd.__spec__.loader is pd.__loader__)
"""


def test_the_reader_of_a_log_does_without_pandas_until_somebody_imports_it(tmp_path: Path) -> None:
    """Then PyArrow knows its types, and the module is as without us."""
    done = subprocess.run([sys.executable, "-c", CODE, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['x'] False", "1 [1]", "True True"]
