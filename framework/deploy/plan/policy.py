"""The guard's decision table: from the classes of a change and the phase of its gateway to a verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, time
from enum import IntEnum, StrEnum

from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.gateway_state import Phase


class Verdict(StrEnum):
    """Verdict on a change; SKIP if another change of the plan is refused, ACCEPT for a new baseline."""

    NOTHING = "nothing"
    APPLY = "apply"
    DEFER = "defer"
    QUEUE = "queue"
    HOLD = "hold"
    UNKNOWN = "unknown"
    REFUSE = "refuse"
    SKIP = "skip"
    ACCEPT = "accept"


WAITING = frozenset({Verdict.DEFER, Verdict.QUEUE, Verdict.HOLD, Verdict.UNKNOWN})
"""The verdicts that leave a resource unchanged for now."""


class ExitCode(IntEnum):
    """Exit code of a plan or a deploy."""

    CLEAN = 0
    ERROR = 1
    CHANGES = 2
    HELD = 20
    QUEUED = 21
    REFUSED = 22
    UNKNOWN = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Hours of the day, in UTC, in which a gateway that takes changes may be restarted; may cross midnight."""

    begins: time
    ends: time

    def contains(self, now: datetime) -> bool:
        """Return whether a time is in the window."""
        at = now.time()
        if self.begins <= self.ends:
            return self.begins <= at < self.ends
        return at >= self.begins or at < self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Policy of the caller.

    Args:
        allow_recreate: keys of the resources that may be recreated or deleted.
        overrides: keys of the gateways whose restart is allowed in any phase, each with its reason.
        tag_writes: keys of the gateways whose deferred tags are written now, each with its reason; the guard treats
            them like a semantic change.
        queue: whether a restart that has to wait is queued.
        window: time in which a gateway that takes changes may be restarted; None for always.
    """

    allow_recreate: frozenset[str] = frozenset()
    overrides: tuple[tuple[str, str], ...] = ()
    tag_writes: tuple[tuple[str, str], ...] = ()
    queue: bool = False
    window: Window | None = None

    def reason_for(self, key: str) -> str | None:
        """Return the reason of the override of a key; None without an override."""
        return dict(self.overrides).get(key)

    def tag_reason_for(self, key: str) -> str | None:
        """Return the reason to write the deferred tags of a key; None if they stay deferred."""
        return dict(self.tag_writes).get(key)


def decide(
    *,
    key: str,
    classes: Collection[ChangeClass],
    stops_gateway: bool,
    is_pipeline: bool,
    phase: Phase,
    prevent_destroy: bool,
    is_lost: bool,
    policy: Policy,
    now: datetime,
) -> Verdict:
    """Return the verdict on the changes of one resource; if they can stop a gateway, its phase decides."""
    if is_lost:
        # There is nothing to destroy, but a new gateway takes all its snapshots: only if explicitly allowed.
        return Verdict.APPLY if key in policy.allow_recreate else Verdict.HOLD
    highest = max(classes, key=lambda each: each.rank, default=ChangeClass.NONE)
    if highest in (ChangeClass.NONE, ChangeClass.PHANTOM):
        return Verdict.NOTHING
    if highest in (ChangeClass.RECREATE, ChangeClass.DELETE):
        return _decide_loss(
            key,
            phase,
            policy,
            prevent_destroy=prevent_destroy,
            is_pipeline=is_pipeline,
            stops_gateway=stops_gateway,
        )
    is_deferrable = stops_gateway and highest in (ChangeClass.TAG_ONLY, ChangeClass.METADATA)
    if is_deferrable and policy.tag_reason_for(key) is None:
        return Verdict.DEFER
    if not stops_gateway or highest is ChangeClass.CREATE or policy.reason_for(key) is not None:
        return Verdict.APPLY
    return Verdict.HOLD if ChangeClass.DRIFT in classes else _decide_restart(phase, policy, now)


def _decide_loss(
    key: str, phase: Phase, policy: Policy, *, prevent_destroy: bool, is_pipeline: bool, stops_gateway: bool
) -> Verdict:
    """Return the verdict on a change that deletes a resource and its data."""
    if prevent_destroy or (stops_gateway and phase in (Phase.SNAPSHOTTING, Phase.UNKNOWN)):
        return Verdict.REFUSE
    needs_permission = is_pipeline or stops_gateway
    return Verdict.REFUSE if needs_permission and key not in policy.allow_recreate else Verdict.APPLY


def _decide_restart(phase: Phase, policy: Policy, now: datetime) -> Verdict:
    """Return the verdict on a change that restarts a gateway."""
    if phase is Phase.STOPPED:
        return Verdict.APPLY
    if phase is Phase.CHANGES and (policy.window is None or policy.window.contains(now)):
        return Verdict.APPLY
    if policy.queue:
        return Verdict.QUEUE
    return Verdict.UNKNOWN if phase is Phase.UNKNOWN else Verdict.HOLD


def exit_code(verdicts: Iterable[Verdict], *, applied: bool) -> ExitCode:
    """Return the exit code of a plan (`applied` False) or a deploy, by its worst verdict."""
    found = set(verdicts)
    for verdict, code in (
        (Verdict.REFUSE, ExitCode.REFUSED),
        (Verdict.UNKNOWN, ExitCode.UNKNOWN),
        (Verdict.HOLD, ExitCode.HELD),
        (Verdict.QUEUE, ExitCode.QUEUED),
    ):
        if verdict in found:
            return code
    return ExitCode.CHANGES if Verdict.APPLY in found and not applied else ExitCode.CLEAN
