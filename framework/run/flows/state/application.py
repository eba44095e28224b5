"""The identifier of a flow in the Delta transactions of its target."""

from __future__ import annotations

from framework.foundation.names import QualifiedName


def application_id(pipeline: str, flow: QualifiedName, generation: int) -> str:
    """Return the `txnAppId` of the Delta transactions of one generation of a flow."""
    return f"sluice:{pipeline}:{flow}:{generation}"
