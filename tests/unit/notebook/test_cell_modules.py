"""Cells as modules: which cell replaces which, and what the magics' arguments choose."""

from __future__ import annotations

import pytest

from framework import pipelines as dp
from framework.declare.modules.notebook_definitions import definitions_in
from framework.declare.registry import Registry, registering
from framework.foundation.errors import UserError
from framework.notebook.cell_modules import CellModule, CellModules
from framework.notebook.choices import Choices, read_cell_name, read_choices
from framework.notebook.notebook_displays import DeclaredCell


def cell(title: str, *names: str, key: str | None = None) -> CellModule:
    """A cell that has declared tables."""
    code = "\n".join(f"dp.create_streaming_table({name!r})" for name in names)
    made = CellModule(title=title, key=key, file="<cell>", code=lambda: code, namespace={"dp": dp}, widgets={})
    with registering(Registry(catalog="main", schema="default")):
        made()
    return made


def titles(cells: CellModules) -> list[str]:
    """The names of the cells, in order."""
    return [each.title for each in cells]


def test_a_cell_replaces_the_one_of_its_key_in_its_place() -> None:
    """A cell has the key of its name, or of the front end; the order of loading stays."""
    cells = CellModules()
    for each in (cell("a", key="a"), cell("In[2]", "x"), cell("b", key="b")):
        assert cells.add(each) is None
    first = cells[0]
    again = cell("a", "y", key="a")
    assert cells.add(again) is first
    assert ["a", "In[2]", "b"] == titles(cells)
    cells.undo(again, first)
    assert cells[0] is first
    last = cell("c", key="c")
    cells.undo(last, cells.add(last))
    assert ["a", "In[2]", "b"] == titles(cells)


def test_a_cell_replaces_cells_whose_datasets_it_declares_again() -> None:
    """All of them: a cell with one more dataset stays, and the graph reports the dataset that is declared twice."""
    cells = CellModules()
    for each in (cell("In[1]", "x"), cell("In[2]", "y"), cell("In[3]", "z", "w"), cell("helpers")):
        cells.add(each)
    new = cell("In[4]", "x", "y", "z")
    cells.add(new)
    assert ("In[1]", "In[2]") == tuple(each.title for each in cells.drop_repeated(new))
    assert ["In[4]", "In[3]", "helpers"] == titles(cells)
    assert () == cells.drop_repeated(cells[2])


def test_a_cell_is_removed_by_its_name() -> None:
    """A name that no cell has is not found."""
    cells = CellModules()
    cells.add(cell("a"))
    assert cells.remove("b") is False
    assert cells.remove("a") is True
    assert [] == titles(cells)


def test_a_cell_says_what_it_declares() -> None:
    """Its name, kinds and names of datasets, and the cells that it replaces."""
    made = cell("a", "x", "y")
    assert "a: declares streaming table x, streaming table y" == repr(DeclaredCell(title="a", datasets=made.declared))
    assert "b: declares no dataset; replaces a" == repr(DeclaredCell(title="b", datasets=(), replaced=("a",)))
    html = DeclaredCell(title="<b>", datasets=())._repr_html_()
    assert "&lt;b&gt;" in html


def test_the_magic_chooses_a_pipeline() -> None:
    """A spec file, or the values of a spec; a misspelled option is an error with the usage."""
    assert Choices(spec="my pipeline.yml", parameters=(("day", "1"), ("x", "a=b"))) == read_choices(
        "'my pipeline.yml' --param day=1 --param x=a=b"
    )
    assert Choices(name="shop", storage="/data", catalog="c", schema="s") == read_choices(
        "--name shop --storage /data --catalog c --schema s"
    )
    assert Choices(remove="orders") == read_choices("--remove orders")
    assert ["orders", None] == [read_cell_name("orders"), read_cell_name("")]
    conditions = []
    for line in ("--nmae shop", "a b", "--param day", "'"):
        with pytest.raises(UserError) as caught:
            read_choices(line)
        conditions.append(caught.value.condition)
    assert ["MAGIC_INVALID", "MAGIC_INVALID", "PARAMETER_INVALID", "MAGIC_INVALID"] == conditions


def test_cells_that_explore_supply_their_definitions() -> None:
    """Imports, functions with their decorators, classes, literals and widgets; no calls. Invalid code stays."""
    text = (
        "import json\nrows = [1, 2]\nframe = spark.range(3)\npipeline.run()\n@cached\ndef f():\n    return 1\n"
        'dbutils.widgets.text("day", "1")\nprint(f())\n'
    )
    lines = text.split("\n")
    kept = [*lines[:2], "", "", *lines[4:8], "", ""]
    assert kept == [*definitions_in(lines)]
    assert "" == definitions_in(lines, undecorated=True)[5]
    assert ("x = (", "y") == definitions_in(["x = (", "y"])
