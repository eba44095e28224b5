"""The interface that bundle operations need: the loader, the workspace's configuration, the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from framework.foundation.clock import Clock

if TYPE_CHECKING:
    from databricks.sdk.core import Config

    from framework.deploy.api.lookups import LookUp
    from framework.deploy.bundle.documents.bundle import Bundle


class BundleLoader(Protocol):
    """Function that loads the target of a bundle for a user of a workspace."""

    def __call__(
        self, *, target: str | None, variables: Mapping[str, str], user: str, look_up: LookUp | None
    ) -> Bundle:
        """Load a target, None for the default target; without `look_up`, lookup variables are not available."""
        ...


class BundlePort(Protocol):
    """The surroundings of a bundle: a folder with its files, and the machine's configuration of workspaces."""

    @property
    def clock(self) -> Clock:
        """The clock of calls and waits."""
        ...

    @property
    def load(self) -> BundleLoader:
        """Loads a target of the bundle."""
        ...

    def list_targets(self) -> tuple[str, ...]:
        """Return the names of the bundle's targets."""
        ...

    def configure(self, profile: str | None, /) -> Config:
        """Return the configuration of a workspace, or raise WORKSPACE_NOT_CONFIGURED."""
        ...

    def build(self, bundle: Bundle, /) -> None:
        """Build the artifacts of a bundle."""
        ...
