"""Expected errors of updates and plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from framework.foundation.conditions import CONDITIONS, is_known
from framework.foundation.errors import SluiceError, UserError, UserErrors
from framework.foundation.nearest import nearest_hint
from framework.sandbox.expectations.examined import Examined


@contextmanager
def checked_error(sandbox: Examined, condition: str, *, match: str | None, dataset: str | None) -> Iterator[None]:
    """Check that the block raises an error.

    Raises:
        AssertionError: it raises none, or none with this condition, text and dataset.
        UserError: TEST_CONDITION_UNKNOWN.
    """
    __tracebackhide__ = True
    if not is_known(condition):
        raise UserError("TEST_CONDITION_UNKNOWN", name=condition, hint=nearest_hint(condition, CONDITIONS))
    before = sandbox.last
    try:
        yield
    except SluiceError as error:
        raised = error
    else:
        text = f"The block raises no error; [{condition}] is expected."
        raise AssertionError(text)
    found = [*_errors(raised), raised]
    if sandbox.last is not None and sandbox.last is not before:
        found += [flow.error for flow in sandbox.last.flows if flow.error not in (None, raised)]
    named = [error for error in found if error.condition == condition]
    if not named:
        text = f"[{condition}] is expected, and the block raises:\n{_texts(found)}"
        raise AssertionError(text) from raised
    texts = [error for error in named if match is None or re.search(match, error.render())]
    if not texts:
        text = f"[{condition}] has no text that matches {match!r}:\n{_texts(named)}"
        raise AssertionError(text) from raised
    name = None if dataset is None else str(sandbox.dataset(dataset))
    if name is not None and not any(name in _names(sandbox, error) for error in texts):
        text = f"[{condition}] is not raised for {dataset}:\n{_texts(texts)}"
        raise AssertionError(text) from raised


def _errors(error: SluiceError) -> Iterator[SluiceError]:
    """Yield the errors that an error reports together."""
    if isinstance(error, UserErrors):
        yield from error.errors


def _names(sandbox: Examined, error: SluiceError) -> set[str]:
    """Return the names of what an error is about: its fields, and the dataset of the flow that raised it."""
    flows = () if sandbox.last is None else sandbox.last.flows
    return {*map(str, error.fields.values()), *(str(flow.dataset) for flow in flows if flow.error is error)}


def _texts(errors: list[SluiceError]) -> str:
    return "\n".join(error.render() for error in errors if not isinstance(error, UserErrors))
