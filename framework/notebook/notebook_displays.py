"""What cells display: the datasets that a cell declares, and values by Databricks' `display` and `displayHTML`."""

from __future__ import annotations

from dataclasses import dataclass

from IPython.display import HTML
from IPython.display import display as display_value
from pyspark.sql import DataFrame

from framework.declare.specs import DatasetSpec
from framework.diagrams.escaping import escape
from framework.diagrams.page import fragment
from framework.diagrams.preview import Preview
from framework.foundation.display import at_prompt
from framework.foundation.names import ShortNames

_SHOWN_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeclaredCell:
    """The datasets that a cell declares.

    Args:
        title: the name of the cell.
        datasets: the datasets, in order.
        replaced: the names of the cells that it replaces because it declares their datasets.
    """

    title: str
    datasets: tuple[DatasetSpec, ...]
    replaced: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return at_prompt(f"{self.title}: {self._text}")

    def _repr_html_(self) -> str:
        return fragment(f'<b>{escape(self.title)}</b> <span class="quiet">{escape(self._text)}</span>')

    @property
    def _text(self) -> str:
        short = ShortNames.of(each.name for each in self.datasets)
        names = [f"{each.kind.value.replace('_', ' ')} {short(each.name)}" for each in self.datasets]
        text = "declares " + (", ".join(names) or "no dataset")
        return text + (f"; replaces {', '.join(self.replaced)}" if self.replaced else "")


def show(*values: object, **options: object) -> None:
    """Display values in the cell's output: the first rows of DataFrames; anything else as IPython's `display` does.

    Args:
        *values: the values.
        **options: those of IPython's `display`; options of Databricks, such as `checkpointLocation`, have no effect.
    """
    known = {name: value for name, value in options.items() if name in {"display_id", "metadata", "raw", "include"}}
    for value in values:
        is_rows = isinstance(value, DataFrame) and not isinstance(value, Preview) and not value.isStreaming
        display_value(Preview(value, _SHOWN_ROWS) if is_rows else value, **known)  # type: ignore[arg-type]


def show_html(html: str) -> None:
    """Display HTML in the cell's output."""
    display_value(HTML(html))
