"""Real notebooks: cells that run in a kernel, and what they display."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbformat import notebooknode


class _Watching(NotebookClient):
    """A client that also keeps each state of displays that change."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.updates: dict[int, list[str]] = {}

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Process a message of the kernel."""
        if msg["msg_type"] in {"display_data", "update_display_data"}:
            html = msg["content"]["data"].get("text/html", "")
            self.updates.setdefault(cell_index, []).append(html)
        return super().process_message(msg, cell, cell_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutput:
    """What a cell displays.

    Args:
        text: the text of its streams and values, a line each.
        html: the HTML of its values.
        error: the lines of its error; empty without one.
        states: the HTML of each state of its displays, in order.
        seconds: how long it ran.
    """

    text: str
    html: str
    error: str
    states: tuple[str, ...]
    seconds: float


def run_notebook(cells: Sequence[str], folder: Path) -> list[CellOutput]:
    """Run cells in one kernel, in a folder; a failing cell does not end the notebook, which is kept as `ran.ipynb`."""
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": cell.strip("\n"),
            }
            for number, cell in enumerate(cells)
        ],
    }
    from_dict: Any = notebooknode.from_dict  # has no types
    notebook = from_dict(document)
    client = _Watching(
        notebook, timeout=240, allow_errors=True, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    (folder / "ran.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return [_output(cell, client.updates.get(index, [])) for index, cell in enumerate(notebook.cells)]


def _output(cell: Any, states: list[str]) -> CellOutput:
    shown = [output for output in cell.outputs if output.output_type in {"display_data", "execute_result"}]
    streams = [output.text for output in cell.outputs if output.output_type == "stream"]
    errors = ["\n".join(output.traceback) for output in cell.outputs if output.output_type == "error"]
    values = [output.data.get("text/plain", "") for output in shown]
    return CellOutput(
        text="\n".join([*streams, *values]),
        html="\n".join(output.data.get("text/html", "") for output in shown),
        error=re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(errors)),
        states=tuple(states),
        seconds=_seconds(cell.metadata.get("execution", {})),
    )


def _seconds(times: dict[str, str]) -> float:
    begin, end = (datetime.fromisoformat(times[key]) for key in ("iopub.execute_input", "shell.execute_reply"))
    return (end - begin).total_seconds()
