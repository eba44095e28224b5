"""The actions of `sluice doctor --apply`, as values, and the equivalent command of each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import assert_never

from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetCheckpoint:
    """Begin a new checkpoint of a flow and run it; `starts` as users write them, () for those in the code."""

    flow: QualifiedName
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """Continue a flow from a kept generation of its checkpoint, and run it; `repeats` allows duplicate rows."""

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    repeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRefresh:
    """Rebuild a dataset from all data of its sources."""

    dataset: QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgain:
    """Run the flows of a dataset again."""

    dataset: QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync:
    """Read a table of a database again."""

    gateway: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildCopy:
    """Rebuild the copy of a table from a new snapshot, so that older changes can't overwrite its rows."""

    gateway: str
    table: str
    dataset: QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePosition:
    """Begin the log of a gateway at a new position, and read all its tables again."""

    gateway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Resume a table, or a whole gateway if `table` is None."""

    gateway: str
    table: str | None = None


Action = ResetCheckpoint | RollBack | FullRefresh | RunAgain | Resync | RebuildCopy | ReplacePosition | Resume


def command_of(action: Action) -> str:  # noqa: PLR0911 - one command for each kind of action
    """Return the command that is equivalent to an action.

    Examples:
        >>> name = QualifiedName(catalog="main", schema="shop", table="orders")
        >>> command_of(ResetCheckpoint(flow=name, starts=("startingVersion=12",)))
        'sluice run --reset-checkpoint main.shop.orders --from startingVersion=12'
    """
    match action:
        case ResetCheckpoint():
            starts = "".join(f" --from {shlex.quote(start)}" for start in action.starts)
            return f"sluice run --reset-checkpoint {action.flow}{starts}"
        case RollBack():
            repeats = " --allow-repeats" if action.repeats else ""
            roll_back = f"sluice checkpoints rollback {action.flow} --target {action.dataset} --to {action.generation}"
            return f"{roll_back}{repeats} && sluice run --refresh {action.dataset}"
        case FullRefresh():
            return f"sluice run --full-refresh {action.dataset}"
        case RunAgain():
            return f"sluice run --refresh {action.dataset}"
        case Resync():
            return f"sluice ingest resync {shlex.quote(action.table)} --gateway {shlex.quote(action.gateway)}"
        case RebuildCopy():
            again = command_of(Resync(gateway=action.gateway, table=action.table))
            return f"{again} && {command_of(FullRefresh(dataset=action.dataset))}"
        case ReplacePosition():
            return f"sluice ingest resync --all --new-slot --gateway {shlex.quote(action.gateway)}"
        case Resume():
            table = "" if action.table is None else f" {shlex.quote(action.table)}"
            return f"sluice ingest resume{table} --gateway {shlex.quote(action.gateway)}"
        case _:
            assert_never(action)
