"""Two pipelines of one process have modules with equal names, and each imports its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from framework.declare.modules.pipeline_imports import PipelineImports
from framework.declare.pipeline_spec import PipelineSpec

FILES = {
    "helpers.py": "NAME = {name!r}\n",
    "parts/__init__.py": "from . import first\n",
    "parts/first.py": "from helpers import NAME\n",
    "parts/late.py": "from .first import NAME\nimport helpers as again\nSAME = again.NAME == NAME\n",
    "plain/inner.py": "class Row:\n    pass\n",
    "bronze.py": """
import importlib
import parts.first

def late():
    import helpers
    from parts import late, first
    import plain.inner
    named = importlib.import_module("parts.late")
    relative = importlib.import_module(".late", "parts")
    assert named is relative is late and late.SAME and plain.inner.Row and parts.first is first
    return {{helpers.NAME, first.NAME, late.NAME}}
""",
}


def pipeline(folder: Path, name: str) -> tuple[PipelineImports, Callable[[], Any]]:
    """Return the imports of a pipeline, whose library was run, and a function of the library that imports late."""
    for file, text in FILES.items():
        (folder / file).parent.mkdir(exist_ok=True, parents=True)
        (folder / file).write_text(text.format(name=name), encoding="utf-8")
    imports = PipelineImports([folder], object(), PipelineSpec(name=name, storage="s"))  # type: ignore[arg-type]
    with imports.importable():
        imports.run(folder / "bronze.py", f"library_of_{name}")
    return imports, imports.made[str(folder / "bronze.py")].late


def test_a_late_import_is_that_of_its_pipeline_while_another_one_runs(tmp_path: Path) -> None:
    """In blocks that end in another order than they began; afterwards the process has none of the modules."""
    before, path = set(sys.modules), list(sys.path)
    first, late_first = pipeline(tmp_path / "a", "a")
    second, late_second = pipeline(tmp_path / "b", "b")
    with ExitStack() as others:
        with first.importable():
            others.enter_context(second.importable())
            assert late_first() == {"a"}
            assert late_second() == {"b"}
        assert late_second() == {"b"}
    assert sys.path == path
    assert not {"helpers", "parts", "parts.late", "plain", "plain.inner", "library_of_a"} & (set(sys.modules) - before)


def test_two_threads_import_modules_of_equal_names_a_hundred_times(tmp_path: Path) -> None:
    """Each round loads both pipelines anew, in step, and imports late in blocks that overlap."""
    modules = set(sys.modules)
    barrier = Barrier(2, timeout=60)

    def rounds(name: str) -> set[str]:
        seen: set[str] = set()
        for turn in range(100):
            barrier.wait()
            imports, late = pipeline(tmp_path / f"{name}{turn % 3}", name)
            with imports.importable():
                barrier.wait()
                seen |= late()
        return seen

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(rounds, ["a", "b"])] == [{"a"}, {"b"}]
    assert not {"helpers", "parts", "bronze"} & (set(sys.modules) - modules)


def test_a_module_of_the_process_with_the_same_name_is_as_before_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own module `helpers` is hidden from the pipeline, which gets its own."""
    own = type(sys)("helpers")
    monkeypatch.setitem(sys.modules, "helpers", own)
    imports, late = pipeline(tmp_path, "a")
    with imports.importable():
        assert late() == {"a"}
    assert sys.modules["helpers"] is own


def test_a_missing_module_and_one_that_fails_have_the_errors_of_python(tmp_path: Path) -> None:
    """A module of a package that is missing, a name that no file has, and a module that fails twice in the same way."""
    imports, _ = pipeline(tmp_path, "a")
    (tmp_path / "broken.py").write_text("import parts.nothing\n", encoding="utf-8")
    (tmp_path / "library.py").write_text(
        "found = []\n"
        "for statement in 'import broken', 'import broken', 'import helpers.x', 'from parts import nothing',"
        " 'from ..parts import x', 'import unknown_module':\n"
        "    try:\n        exec(statement)\n    except ImportError as error:\n        found.append(str(error))\n",
        encoding="utf-8",
    )
    with imports.importable():
        imports.run(tmp_path / "library.py", "library")
    found = imports.made[str(tmp_path / "library.py")].found
    assert found[:3] == [
        "No module named 'parts.nothing'",
        "No module named 'parts.nothing'",
        "No module named 'helpers.x'; 'helpers' is not a package",
    ]
    assert found[3].startswith("cannot import name 'nothing' from 'parts'")
    assert found[4:] == ["attempted relative import with no known parent package", "No module named 'unknown_module'"]
