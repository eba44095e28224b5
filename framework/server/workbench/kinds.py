"""The kinds of jobs: the role that each needs, and the command that it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.foundation.errors import UserError
from framework.server.access.roles import Role

WAY = "way"
"""A way out of a finding of the doctor, which has a route of its own."""
_MOST_ROWS = 1_000
_Body = Mapping[str, Any]
_Arguments = Callable[[_Body], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of job.

    Args:
        role: who may start and end it. Commands run the project's code and start Spark, so they need `operate`,
            whatever they print; except those that print rows, which are what `read` is for.
        reads: who may read its result; None for those who may start it.
        words: the command.
        fields: the fields of a request.
        arguments: the arguments of a request; each value is one argument with its option, or follows `--`.
        prints_json: whether the command prints its result as JSON.
    """

    role: Role
    words: tuple[str, ...]
    reads: Role | None = None
    fields: tuple[str, ...] = ()
    arguments: _Arguments = field(default=lambda _body: ())
    prints_json: bool = True

    @property
    def reader(self) -> Role:
        """Who may read its result."""
        return self.role if self.reads is None else self.reads

    def command(self, spec_file: str, body: _Body) -> tuple[str, ...]:
        """Return the arguments of `sluice` for a request.

        Raises:
            UserError: UPDATE_REQUEST_INVALID.
        """
        for name in body:
            if name not in self.fields:
                raise _invalid(name, f"This kind of job has {', '.join(self.fields) or 'no fields'}.")
        output = ("-o", "json") if self.prints_json else ()
        options, names = _split(self.arguments(body))
        return (*self.words, f"--spec={spec_file}", *output, *options, *(("--", *names) if names else ()))


def _split(arguments: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Separate options from names: a name that begins with a hyphen is no option."""
    options = tuple(each.removeprefix("\0") for each in arguments if each.startswith("\0"))
    return options, tuple(each for each in arguments if not each.startswith("\0"))


def _option(name: str, value: Any) -> list[str]:
    """Return an option with its value; nothing for None and false, and no value for true."""
    if value is None or value is False:
        return []
    return [f"\0{name}" if value is True else f"\0{name}={_text(name, value)}"]


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _invalid(name.lstrip("-"), "It must be a text or a number.")
    return str(value)


def _name(body: _Body, field: str) -> list[str]:
    value = body.get(field)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _invalid(field, "It must be a text.")
    return [value]


def _names(body: _Body, field: str) -> list[str]:
    values = body.get(field) or []
    if not isinstance(values, list) or not all(isinstance(each, str) and each and "\0" not in each for each in values):
        raise _invalid(field, "It must be a list of texts.")
    return values


def _invalid(field: str, why: str) -> UserError:
    return UserError("UPDATE_REQUEST_INVALID", field=field, why=why)


def _limit(body: _Body) -> int:
    limit = body.get("limit", 100)
    if type(limit) is not int or not 1 <= limit <= _MOST_ROWS:
        raise _invalid("limit", f"It must be a number from 1 to {_MOST_ROWS:,}.")
    return limit


def _flag(body: _Body, field: str) -> bool:
    value = body.get(field, False)
    if not isinstance(value, bool):
        raise _invalid(field, "It must be true or false.")
    return value


def _rows(body: _Body) -> list[str]:
    return [*_option("--rows", _limit(body)), *_name(body, "dataset")]


def _plan(body: _Body) -> list[str]:
    selections = {"refresh_selection": "--refresh", "full_refresh_selection": "--full-refresh",
                  "reset_checkpoint_selection": "--reset-checkpoint"}  # fmt: skip
    named = [part for field, name in selections.items() for each in _names(body, field) for part in _option(name, each)]
    keys = [part for each in _names(body, "history_keys") for part in _option("--history-keys", each)]
    flags = {"--full-refresh-all": "full_refresh", "--keep-history": "keep_history"}
    return [*named, *keys, *(part for name, field in flags.items() for part in _option(name, _flag(body, field)))]


def _quarantined(body: _Body) -> list[str]:
    return [*_option("--limit", _limit(body)), *_option("--reason", body.get("with_reason")), *_name(body, "flow")]


def _replay(body: _Body) -> list[str]:
    reason = _option("--reason", body.get("with_reason"))
    return [*_option("--dry-run", _flag(body, "dry_run")), *reason, *_name(body, "flow")]


def _dropped(body: _Body) -> list[str]:
    return [*_option("--yes", value=True), *_option("--reason", body.get("with_reason")), *_name(body, "flow")]


def _doctored(body: _Body) -> list[str]:
    end = "--dry-run" if _flag(body, "dry_run") else "--yes"
    return [
        *_option("--apply", body.get("way")), *_option(end, value=True), *_option("--expect", body.get("expect")),
        *_option("--reason", body.get("reason")), *_name(body, "flow"),
    ]  # fmt: skip


def _rewound(body: _Body) -> list[str]:
    end = "--dry-run" if _flag(body, "dry_run") else "--yes"
    return [
        *_option("--to", body.get("to")), *_option(end, value=True), *_option("--reason", body.get("reason")),
        *_names(body, "datasets"),
    ]  # fmt: skip


def _of_table(body: _Body) -> list[str]:
    table = [] if body.get("table") is None else _name(body, "table")
    return [*_option("--gateway", body.get("gateway")), *table]


def _of_gateway(body: _Body) -> list[str]:
    return _option("--gateway", body.get("gateway"))


_OF_PLANS = ("refresh_selection", "full_refresh_selection", "reset_checkpoint_selection", "full_refresh",
             "keep_history", "history_keys")  # fmt: skip
KINDS: Mapping[str, Kind] = {
    "validate": Kind(role=Role.OPERATE, words=("validate",)),
    "plan": Kind(role=Role.OPERATE, words=("plan",), fields=_OF_PLANS, arguments=_plan),
    "doctor": Kind(role=Role.OPERATE, reads=Role.VIEW, words=("doctor",)),
    WAY: Kind(
        role=Role.OPERATE, words=("doctor",), fields=("flow", "way", "dry_run", "expect", "reason"),
        arguments=_doctored,
    ),
    "lag": Kind(role=Role.OPERATE, reads=Role.VIEW, words=("lag",)),
    "checkpoints": Kind(role=Role.OPERATE, reads=Role.VIEW, words=("checkpoints", "list")),
    "checkpoints-reset": Kind(
        role=Role.OPERATE, words=("checkpoints", "reset"), fields=("flow", "start"), prints_json=False,
        arguments=lambda body: [*_option("--from", body.get("start")), *_name(body, "flow")],
    ),
    "checkpoints-rollback": Kind(
        role=Role.OPERATE, words=("checkpoints", "rollback"), fields=("flow", "generation"), prints_json=False,
        arguments=lambda body: [*_option("--to", body.get("generation")), *_name(body, "flow")],
    ),
    "backups": Kind(role=Role.OPERATE, reads=Role.VIEW, words=("backups", "list")),
    "rows": Kind(role=Role.READ, words=("show",), fields=("dataset", "limit"), arguments=_rows),
    "quarantine": Kind(role=Role.READ, words=("quarantine", "list")),
    "quarantine-rows": Kind(
        role=Role.READ, words=("quarantine", "show"), fields=("flow", "limit", "with_reason"), arguments=_quarantined
    ),
    "quarantine-replay": Kind(
        role=Role.OPERATE, words=("quarantine", "replay"), fields=("flow", "dry_run", "with_reason"), arguments=_replay
    ),
    "quarantine-drop": Kind(
        role=Role.OPERATE, words=("quarantine", "drop"), fields=("flow", "with_reason"), arguments=_dropped,
        prints_json=False,
    ),
    "rewind": Kind(
        role=Role.OPERATE, words=("rewind",), fields=("to", "datasets", "dry_run", "reason"), arguments=_rewound
    ),
    "ingest-status": Kind(
        role=Role.OPERATE, reads=Role.VIEW, words=("ingest", "status"), fields=("gateway",), arguments=_of_gateway
    ),
    "ingest-preflight": Kind(role=Role.OPERATE, words=("ingest", "preflight")),
    **{
        f"ingest-{verb}": Kind(
            role=Role.OPERATE, words=("ingest", verb), fields=("gateway", "table"), arguments=_of_table,
            prints_json=False,
        )
        for verb in ("pause", "resume", "cancel", "skip-snapshot", "resync")
    },
}  # fmt: skip
"""All kinds by name."""
