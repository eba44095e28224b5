"""The fixture that ships to users, used as they use it."""

from __future__ import annotations

from framework.testing.workspace.fixtures import workspace

__all__ = ["workspace"]
