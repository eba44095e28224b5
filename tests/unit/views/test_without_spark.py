"""Views are read where Spark is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LOADED = """
import importlib, pkgutil, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j", "delta", "pandas"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refused())
import framework.views
names = [each.name for each in pkgutil.walk_packages(framework.views.__path__, "framework.views.")]
for name in names:
    importlib.import_module(name)
print(*names)
"""


def test_all_views_load_where_spark_is_not_installed() -> None:
    """Each module of `framework.views` loads in a Python that has neither PySpark, Py4J, Delta nor pandas."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=False)

    root = Path(__file__).parents[3]
    files = [each.relative_to(root).with_suffix("") for each in (root / "framework" / "views").rglob("*.py")]
    names = {".".join(each.parts).removesuffix(".__init__") for each in files} - {"framework.views"}
    expected = sorted(names)
    assert (0, expected) == (done.returncode, sorted(done.stdout.split())), done.stderr
