"""The cells of a notebook that are modules of its pipeline."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import overload

from framework.declare.modules.displays import without_displays
from framework.declare.registry import active_registry
from framework.declare.session.session_global import Namespace
from framework.declare.specs import DatasetSpec
from framework.declare.workspace.surroundings import found_surroundings


class CellModule:
    """A cell as a module: its code runs in a namespace each time the pipeline loads its modules.

    Args:
        title: how the notebook names it: its own name, or `Cell In[3]`.
        key: identifies the cell; a cell with the same key replaces it. None if only its datasets identify it.
        file: the generated file name of the cell's code.
        code: returns the Python code, on the lines of the cell; called while the pipeline loads.
        namespace: the globals of the code; the pipeline's session is `spark` there while pipeline code runs.
        widgets: the widgets of the notebook, which the code shares.

    Attributes:
        declared: the datasets that it declared when it was last loaded.
        is_loaded: whether its code has run to its end.
    """

    def __init__(
        self,
        *,
        title: str,
        key: str | None,
        file: str,
        code: Callable[[], str],
        namespace: Namespace,
        widgets: dict[str, str],
    ) -> None:
        self.title = self.__name__ = title
        self.key, self.file = key, file
        self.__globals__ = namespace
        self._code, self._widgets = code, widgets
        self.declared: tuple[DatasetSpec, ...] = ()
        self.is_loaded = False

    def __call__(self) -> None:
        """Run the code."""
        registry, around = active_registry(), found_surroundings()
        known = len(registry.datasets)
        if around is not None:
            around.widgets.update(self._widgets)
        tree = without_displays(ast.parse(self._code(), self.file), self.file)
        exec(compile(tree, self.file, "exec", dont_inherit=True), self.__globals__)  # noqa: S102 - the user's cell
        if around is not None:
            self._widgets.update(around.widgets)
        self.declared = tuple(registry.datasets[known:])
        self.is_loaded = True


class CellModules(Sequence[CellModule]):
    """The cells of a notebook that are modules, in the order of their first runs."""

    def __init__(self) -> None:
        self._cells: list[CellModule] = []

    @overload
    def __getitem__(self, index: int) -> CellModule: ...
    @overload
    def __getitem__(self, index: slice) -> list[CellModule]: ...
    def __getitem__(self, index: int | slice) -> CellModule | list[CellModule]:
        return self._cells[index]

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, cell: CellModule) -> CellModule | None:
        """Add a cell, in the place of the one with the same key; return the replaced cell."""
        for place, each in enumerate(self._cells):
            if cell.key is not None and each.key == cell.key:
                self._cells[place] = cell
                return each
        self._cells.append(cell)
        return None

    def undo(self, cell: CellModule, replaced: CellModule | None) -> None:
        """Remove a cell that was added, and put the replaced one back."""
        place = self._cells.index(cell)
        self._cells[place : place + 1] = [] if replaced is None else [replaced]

    def drop_repeated(self, cell: CellModule) -> tuple[CellModule, ...]:
        """Remove and return the other cells all of whose datasets a cell declares again: it is their newer text."""
        names = {each.name for each in cell.declared}
        repeated = tuple(
            each
            for each in self._cells
            if each is not cell and each.declared and {spec.name for spec in each.declared} <= names
        )
        if repeated:
            first = min(self._cells.index(each) for each in repeated)
            self._cells = [each for each in self._cells if each is not cell and each not in repeated]
            self._cells.insert(first, cell)
        return repeated

    def remove(self, title: str) -> bool:
        """Remove the cell with this name; return whether there was one."""
        left = [each for each in self._cells if each.title != title]
        found = len(left) < len(self._cells)
        self._cells = left
        return found
