"""The stand-in without HTTP, for property tests with hundreds of deploys; `tests/unit/deploy` uses HTTP."""

from __future__ import annotations

import json
from typing import Any

from databricks.sdk.errors import NotFound, ResourceAlreadyExists, ResourceConflict

from framework.deploy.api.workspace import ResponseLost, Workspace
from framework.foundation.errors import OperationError
from framework.testing.workspace.exchange import Request, ServiceFault
from framework.testing.workspace.stand_in import TOKEN, WAREHOUSE, LineCut, StandIn


class DirectWorkspace(Workspace):
    """A workspace that calls a stand-in directly."""

    def __init__(self, stand_in: StandIn) -> None:
        self.warehouse_id = WAREHOUSE
        self.clock = stand_in.clock
        self._stand_in = stand_in

    def read(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of a GET."""
        texts = {key: str(value) for key, value in (query or {}).items()}
        return self._call(Request(method="GET", path=path, query=texts))

    def write(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of a write."""
        return self._call(Request(method=method, path=path, body=json.loads(json.dumps(body or {}))))

    def _call(self, request: Request) -> dict[str, Any]:
        try:
            return self._stand_in.answer(request, TOKEN)
        except LineCut:
            raise ResponseLost("WORKSPACE_ANSWER_LOST", method=request.method, path=request.path) from None
        except ServiceFault as fault:
            if fault.status == 404:
                raise NotFound(fault.message) from None
            if fault.error_code == "RESOURCE_ALREADY_EXISTS":
                raise ResourceAlreadyExists(fault.message) from None
            if fault.status == 409:
                raise ResourceConflict(fault.message) from None
            raise OperationError("WORKSPACE_CALL_FAILED", call=request.path, cause=fault.message) from None
