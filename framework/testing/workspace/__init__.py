"""A workspace to test deploys and runs against, with nothing to pay for and nothing to break.

Stateful, in memory, over real HTTP, on a virtual clock. Its gateways take snapshots in chunks and lose them when
they are restarted, as real ones do; faults come by rule, and every request is on record. With pytest::

    pytest_plugins = ["framework.testing.workspace.fixtures"]

    def test_a_deploy(workspace): ...
"""

from __future__ import annotations

from framework.testing.workspace.faults import Fault, lost_answer, throttled
from framework.testing.workspace.gateway import SourceTable
from framework.testing.workspace.server import StandInWorkspace, serve_workspace

__all__ = ["Fault", "SourceTable", "StandInWorkspace", "lost_answer", "serve_workspace", "throttled"]
