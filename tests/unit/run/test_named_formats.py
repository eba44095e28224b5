"""Spark gets the packages of the formats that a pipeline's files name, and those of the modules that they import."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.declare.pipeline_spec import load_spec
from framework.run.pipeline_session import named_formats

NAMES_KAFKA = "def read(spark):\n    return spark.readStream.format('kafka')\n"
SPEC = "name: p\nroot_path: src\nlibraries: [{file: {path: app/m.py}}, {file: {path: app/n.ipynb}}]\n"


@pytest.mark.parametrize(
    ("files", "formats"),
    [
        ({"app/m.py": "import dlt\n"}, ()),
        ({"app/m.py": "import dlt, topics as t\n", "app/topics.py": NAMES_KAFKA}, ("kafka",)),
        ({"app/m.py": "from lib.sources import read\n", "lib/sources.py": NAMES_KAFKA}, ("kafka",)),
        (
            {"app/m.py": "from lib import (\n    read,\n    sources as s,\n)\n", "src/lib/sources.py": NAMES_KAFKA},
            ("kafka",),
        ),
        ({"app/m.py": "def f():\n    from ..lib.sources import read\n", "lib/sources.py": NAMES_KAFKA}, ("kafka",)),
        ({"app/m.py": "import a\n", "a.py": "import b.c\n", "b/__init__.py": NAMES_KAFKA, "b/c.py": ""}, ("kafka",)),
        ({"app/m.py": "# MAGIC %run ./setup\n", "app/setup.py": NAMES_KAFKA}, ("kafka",)),
        ({"app/n.ipynb": '{"source": [\n  "import topics\\n"]}', "topics.py": NAMES_KAFKA}, ("kafka",)),
        ({"app/m.py": "import dlt\n", "topics.py": NAMES_KAFKA}, ()),
    ],
)
def test_formats_of_imported_modules_are_known(tmp_path: Path, files: dict[str, str], formats: tuple[str, ...]) -> None:
    """Relative imports, packages, `root_path` and `%run` are followed; a module that nothing imports is not read."""
    for name, text in {"pipeline.yml": SPEC, "app/m.py": "", "app/n.ipynb": "{}", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert named_formats(load_spec(tmp_path / "pipeline.yml")) == formats
