"""All routes with Databricks' shapes."""

from __future__ import annotations

from typing import Any

from framework.server.databricks.pipelines import PIPELINE_ROUTES
from framework.server.databricks.runs import RUN_ROUTES
from framework.server.web.faults import WebFault
from framework.server.web.routes import Access, Call, Route


def _no_sign_in(call: Call) -> Any:
    """Answer the first question of the SDK."""
    del call
    raise WebFault(404, "ENDPOINT_NOT_FOUND", "This server has no sign-in by OAuth: use a token.")


DATABRICKS_ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/.well-known/databricks-config", role=Access.OPEN, handler=_no_sign_in, status=404,
          summary="There is no sign-in by OAuth."),
    *PIPELINE_ROUTES,
    *RUN_ROUTES,
)  # fmt: skip
"""The routes of Databricks' face."""
