"""The shims: our face under the other two names, and no trace of it afterwards."""

from __future__ import annotations

import contextlib
import importlib
import sys
from types import ModuleType

import pyspark
import pytest
from pyspark.sql import functions

from framework import pipelines
from framework.declare.modules import shims
from framework.declare.modules.shims import shimmed


def under_shims() -> dict[str, ModuleType]:
    """The loaded modules of the two names."""
    roots = ("dlt", "pyspark.pipelines")
    return {name: each for name, each in sys.modules.items() if name.startswith(roots)}


IMPORTS = [
    "import dlt as d\nfound = d.table",
    "from dlt import *\nfound = table",
    "from dlt.api import table as found",
    "from pyspark import pipelines as dp\nfound = dp.table",
    "import pyspark.pipelines\nfound = pyspark.pipelines.table",
    "import pyspark.pipelines as dp\nfound = dp.table",
    "from pyspark.pipelines import table as found",
    "from pyspark.pipelines.api import table as found",
]


@pytest.mark.parametrize("source", IMPORTS)
def test_each_way_to_import_gives_our_face(source: str) -> None:
    """This holds for any package that is installed under the name."""
    space: dict[str, object] = {}
    with shimmed():
        exec(source, space)  # noqa: S102 - the import statements of a module
    assert space["found"] is pipelines.table


def test_every_name_of_the_face_is_there_and_no_other() -> None:
    """`import *` imports the names of `framework.pipelines`."""
    with shimmed():
        for name in ("dlt", "pyspark.pipelines"):
            module = importlib.import_module(name)
            assert {each: getattr(module, each) for each in module.__all__} == {
                each: getattr(pipelines, each) for each in pipelines.__all__
            }


def test_a_star_has_the_functions_that_older_runtimes_have() -> None:
    """Public modules use `countDistinct`, which this PySpark has, but leaves out of `import *`."""
    names: dict[str, object] = {}
    before = [*functions.__all__]
    with shimmed(), shimmed():
        exec("from pyspark.sql.functions import *", names)  # noqa: S102 - what a module does
    assert {"count", "countDistinct", "approxCountDistinct", "toDegrees"} <= {*names}
    assert [*functions.__all__] == before


class Interrupted:
    """A step of the shims that Ctrl+C ends."""

    def __init__(self) -> None:
        self.left = 1

    def __call__(self) -> dict[str, ModuleType]:
        """Raise once; then find nothing."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return {}


@pytest.mark.parametrize("step", ["runtime_modules", "_under_shims"])
def test_an_interrupted_start_leaves_nothing_behind(step: str, swap: pytest.MonkeyPatch) -> None:
    """Neither modules nor names, also after the next block, which starts as always."""
    kept, names = under_shims(), [*functions.__all__]
    with swap.context() as patch:
        patch.setattr(shims, step, Interrupted())
        with pytest.raises(KeyboardInterrupt), shimmed():
            pass
    assert [*functions.__all__] == names
    assert "dlt" not in sys.modules
    sys.modules.update(kept)
    with shimmed():
        assert importlib.import_module("dlt").table is pipelines.table
    assert (under_shims(), [*functions.__all__]) == (kept, names)


def test_deep_names_that_are_not_ours_come_from_the_installed_package() -> None:
    """A module may use PySpark's own submodules together with the interface."""
    before = sys.modules.get("pyspark.pipelines.source_code_location")
    with shimmed():
        found = importlib.import_module("pyspark.pipelines.source_code_location")
    assert found.__file__ is not None
    assert "pyspark/pipelines" in found.__file__
    assert found is not before
    assert sys.modules.get("pyspark.pipelines.source_code_location") is before


@pytest.mark.parametrize("installed", [True, False])
def test_afterwards_everything_is_as_before_also_when_the_module_raised(installed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """`sys.modules` and PySpark's attribute are restored, whether or not packages of the names were loaded."""
    kept, attribute = under_shims(), pyspark.__dict__.get("pipelines")
    for name in kept:
        del sys.modules[name]
    pyspark.__dict__.pop("pipelines", None)
    mine = {name: ModuleType(name) for name in ("dlt", "dlt.deep", "pyspark.pipelines")} if installed else {}
    sys.modules.update(mine)
    if installed:
        pyspark.__dict__["pipelines"] = mine["pyspark.pipelines"]
    before = (under_shims(), pyspark.__dict__.get("pipelines"))
    try:
        with contextlib.suppress(ZeroDivisionError), shimmed():
            with shimmed():
                importlib.import_module("pyspark.pipelines.source_code_location")
            assert importlib.import_module("dlt").table is pipelines.table
            raise ZeroDivisionError
        assert (under_shims(), pyspark.__dict__.get("pipelines")) == before
    finally:
        for name in mine:
            sys.modules.pop(name, None)
        pyspark.__dict__.pop("pipelines", None)
        sys.modules.update(kept)
        if attribute is not None:
            pyspark.__dict__["pipelines"] = attribute
