"""Settings of a bundle with secret values hidden, to print or to store."""

from __future__ import annotations

from framework.deploy.bundle.bundle import FrozenSpec
from framework.foundation.secrecy import hide_secrets


def hidden_spec(spec: FrozenSpec) -> FrozenSpec:
    """Return settings with secret values hidden."""
    return FrozenSpec.of(hide_secrets(spec.as_dict()))
