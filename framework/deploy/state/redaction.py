"""The settings of a bundle as they may be printed or kept: with secret values hidden."""

from __future__ import annotations

from framework.deploy.bundle.bundle import FrozenSpec
from framework.foundation.secrecy import hide_secrets


def hidden_spec(spec: FrozenSpec) -> FrozenSpec:
    """Settings as they may be kept."""
    return FrozenSpec.of(hide_secrets(spec.as_dict()))
