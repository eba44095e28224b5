"""All routes with Databricks' shapes."""

from __future__ import annotations

from typing import Any

from framework.server.databricks.pipelines import PIPELINE_ROUTES
from framework.server.databricks.runs import RUN_ROUTES
from framework.server.web.routes import Access, Call, Route


def _metadata(call: Call) -> dict[str, Any]:
    """Answer the first question of the SDK: there is no sign-in by OAuth."""
    del call
    return {}


DATABRICKS_ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/.well-known/databricks-config", role=Access.OPEN, handler=_metadata,
          summary="What the SDK asks first; there is no sign-in by OAuth, so it is empty."),
    *PIPELINE_ROUTES,
    *RUN_ROUTES,
)  # fmt: skip
"""The routes of Databricks' face."""
