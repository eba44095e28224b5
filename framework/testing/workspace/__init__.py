"""Stand-in for a Databricks workspace, to test deploys and runs without cost or risk.

It is stateful, in memory, behind real HTTP, and on a virtual clock. Its gateways take snapshots in chunks and lose
them on a restart, as real ones do. Faults are injected by rules, and every request is recorded. With pytest::

    pytest_plugins = ["framework.testing.workspace.fixtures"]

    def test_a_deploy(workspace): ...
"""

from __future__ import annotations

from framework.testing.workspace.faults import Fault, lost_answer, throttled
from framework.testing.workspace.gateway import SourceTable
from framework.testing.workspace.server import StandInWorkspace, serve_workspace

__all__ = ["Fault", "SourceTable", "StandInWorkspace", "lost_answer", "serve_workspace", "throttled"]
