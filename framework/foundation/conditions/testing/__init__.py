"""Conditions of tests: of the sandboxes in which they run, of their files, and of `sluice test`."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition
from framework.foundation.conditions.testing import runs, sandboxes

CONDITIONS: dict[str, Condition] = {**sandboxes.CONDITIONS, **runs.CONDITIONS}
