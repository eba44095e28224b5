"""The identities of modules that functions import by name change with the code of their package."""

from __future__ import annotations

import importlib
import shutil
import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

from framework.graph.queries.imported_modules import module_identity
from framework.graph.queries.pickled_functions import function_text


def package(folder: Path, step: int) -> Path:
    """A package whose function calls one of another module."""
    made = folder / "priced_package"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    (made / "__init__.py").write_text("from priced_package.steps import by\ndef add(value):\n    return value + by()\n")
    (made / "steps.py").write_text(f"def by():\n    return {step}\n")
    return made


def install(folder: Path, step: int, version: str, *, listed: str = "sha256=a") -> None:
    """A package as pip installs it."""
    package(folder, step)
    for old in folder.glob("*.dist-info"):
        shutil.rmtree(old)
    info = folder / f"priced_package-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: priced-package\nVersion: {version}\n")
    (info / "RECORD").write_text(
        f"priced_package/__init__.py,{listed},9\npriced_package/__pycache__/x.pyc,,\n{info.name}/METADATA,,\n"
    )


@pytest.fixture
def site(tmp_path: Path, swap: pytest.MonkeyPatch) -> Path:
    """An empty folder from which Python imports."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    swap.syspath_prepend(str(folder))
    return folder


def identity() -> str | None:
    """The present identity of the package."""
    importlib.invalidate_caches()
    return module_identity("priced_package")


def test_an_installed_package_is_its_version_and_the_list_of_its_files(site: Path) -> None:
    """A new version, and a wheel of the same version with other files, are other packages."""
    install(site, 1, "1.0")
    first = identity()
    assert first is not None
    assert first.startswith("priced_package-1.0 ")
    (site / "priced_package" / "__pycache__").mkdir()
    assert identity() == first
    install(site, 2, "1.1")
    second = identity()
    install(site, 3, "1.1", listed="sha256=b")
    assert len({first, second, identity()}) == 3


def test_a_package_without_a_version_is_its_files(site: Path) -> None:
    """As in a folder of `PYTHONPATH`."""
    package(site, 1)
    first = identity()
    package(site, 1)
    assert identity() == first
    package(site, 2)
    assert first is not None
    assert identity() not in {first, None}


def test_an_editable_install_is_its_files(site: Path, tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """Its version is in the folder of installed packages, its code is elsewhere."""
    install(site, 1, "1.0")
    shutil.rmtree(site / "priced_package")
    swap.syspath_prepend(str(tmp_path / "source"))
    package(tmp_path / "source", 1)
    first = identity()
    package(tmp_path / "source", 2)
    assert first is not None
    assert identity() not in {first, None}


def test_a_package_in_an_archive_is_the_archive(tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """As `--py-files` of Spark has it."""
    found = []
    for step in (1, 2):
        archive = tmp_path / f"{step}.zip"
        with zipfile.ZipFile(archive, "w") as written:
            written.writestr("priced_package/__init__.py", f"STEP = {step}")
        swap.syspath_prepend(str(archive))
        found.append(identity())
    assert None not in found
    assert len(set(found)) == 2


def test_a_module_that_is_nowhere_is_unknown(swap: pytest.MonkeyPatch) -> None:
    """Code made it, or it is not installed here; modules of Python and of Spark need no identity."""
    swap.setitem(sys.modules, "made_by_code", ModuleType("made_by_code"))
    lost = ModuleType("lost")
    lost.__spec__ = ModuleSpec("lost", None, origin="/nowhere/lost.py")
    swap.setitem(sys.modules, "lost", lost)
    names = ("made_by_code", "lost", "not_installed_here", "json.decoder", "pyspark.sql.types")
    assert [module_identity(name) for name in names] == [None, None, None, "", ""]


def test_a_function_has_another_text_if_the_package_changed_that_it_uses(site: Path) -> None:
    """By the name of a function, and by that of a module; the code of the function itself stays the same."""
    install(site, 1, "1.0")
    importlib.invalidate_caches()
    module = importlib.import_module("priced_package")

    def of_module(value: int) -> int:
        found: int = module.add(value)
        return found

    def texts() -> list[str | None]:
        identity()
        return [function_text(cloudpickle.dumps(each)) for each in (module.add, of_module)]

    before = texts()
    install(site, 2, "1.1")
    after = texts()
    assert None not in (*before, *after)
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False]
