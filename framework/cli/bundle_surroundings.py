"""The dependencies of bundle commands: the loader, the workspace's configuration, the clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import UserError
from framework.operations.bundle_port import BundleLoader

if TYPE_CHECKING:
    from databricks.sdk.core import Config

    from framework.deploy.api.lookups import LookUp
    from framework.deploy.bundle.documents.bundle import Bundle


# Retry timeout for reads from an unresponsive workspace; the SDK's default of five minutes looks like a hang.
_RETRY_SECONDS = 30


def _load(*, target: str | None, variables: Mapping[str, str], user: str, look_up: LookUp | None) -> Bundle:
    from framework.deploy.bundle.loading import load_bundle

    return load_bundle(
        Path.cwd(), target=target, variables=variables, user=user, environment=dict(os.environ), look_up=look_up
    )


def _list_targets() -> tuple[str, ...]:
    from framework.deploy.bundle.loading import list_targets

    return list_targets(Path.cwd())


def _configure(profile: str | None) -> Config:
    from databricks.sdk.core import Config

    try:
        return Config(profile=profile, retry_timeout_seconds=_RETRY_SECONDS)
    except ValueError as error:  # raised by the SDK for missing or contradictory credentials
        cause = str(error).split(", please check")[0]
        raise UserError("WORKSPACE_NOT_CONFIGURED", cause=cause) from error


def _build(bundle: Bundle) -> None:
    from framework.deploy.bundle.documents.artifacts import build_artifacts

    build_artifacts(bundle.artifacts, environment=dict(os.environ))


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSurroundings:
    """The dependencies of a bundle command, which tests replace."""

    load: BundleLoader = _load
    list_targets: Callable[[], tuple[str, ...]] = _list_targets
    configure: Callable[[str | None], Config] = _configure
    build: Callable[[Bundle], None] = _build
    clock: Clock = field(default_factory=SystemClock)
