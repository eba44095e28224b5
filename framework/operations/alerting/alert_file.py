"""The channels of a pipeline's alerts: the `alerts.yml` beside its spec. Secrets in it are references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.declare.pipeline_spec import PipelineSpec
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.secrets.secrecy import is_reference
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml
from framework.operations.alerting.episodes import AlertKind

FILE_NAME = "alerts.yml"
DEFAULT_BEHIND_SECONDS = 900.0
DEFAULT_LOSING_SECONDS = 172_800.0
_YAML = YamlFormat(
    node=YamlNode, unreadable="ALERTS_UNREADABLE", invalid="ALERTS_INVALID_YAML", may_be_empty=True, at_keys=True
)
_CHANNEL = ("webhook", "mail", "from", "smtp", "on")
_SMTP = ("host", "port", "user", "password", "tls")
_TLS = ("starttls", "tls", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Smtp:
    """A mail server; `tls` is `starttls`, `tls` from the first byte, or `none`."""

    host: str
    port: int = 587
    user: str | None = None
    password: str | None = None
    tls: str = "starttls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel: a webhook, or mail. Its secrets are references, which are replaced when a message is sent.

    Args:
        kinds: what it is told of.
    """

    name: str
    kinds: frozenset[AlertKind] = frozenset(AlertKind)
    webhook: str | None = None
    mail: str | None = None
    sender: str | None = None
    smtp: Smtp | None = None

    @property
    def target(self) -> str:
        """Where it sends to, without secrets."""
        return self.webhook if self.webhook is not None else str(self.mail)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """The channels, and their limits.

    Args:
        behind_seconds: the age of the oldest unread row above which a flow is behind.
        losing_seconds: the time until a source may delete unread data, below which a flow is losing data.
    """

    channels: tuple[Channel, ...] = ()
    behind_seconds: float = DEFAULT_BEHIND_SECONDS
    losing_seconds: float = DEFAULT_LOSING_SECONDS


def alert_file(spec: PipelineSpec) -> Path | None:
    """Return the place of the file beside a spec, which need not exist; None for a spec without a file."""
    return None if spec.file is None else Path(spec.file).with_name(FILE_NAME)


def read_alerts(spec: PipelineSpec) -> AlertSettings:
    """Return the alerts of a pipeline; no channel without a file.

    Raises:
        UserError: ALERTS_UNREADABLE, ALERTS_INVALID_YAML.
        GraphErrors: every ALERTS_INVALID.
    """
    file = alert_file(spec)
    if file is None or not file.is_file():
        return AlertSettings()
    document = read_yaml(file, _YAML)
    reader = _Reader(document)
    settings = reader.settings(document.plain())
    if reader.errors:
        raise GraphErrors(reader.errors)
    return settings


class _Reader:
    """Reads the settings, and gathers all errors."""

    def __init__(self, document: YamlNode) -> None:
        self._document = document
        self.errors: list[SluiceError] = []

    def settings(self, values: Mapping[str, Any]) -> AlertSettings:
        self._known(values, ("channels", "behind_seconds", "losing_seconds"))
        behind = self._seconds(values, "behind_seconds", DEFAULT_BEHIND_SECONDS)
        losing = self._seconds(values, "losing_seconds", DEFAULT_LOSING_SECONDS)
        channels = values.get("channels") or {}
        if not isinstance(channels, dict):
            self._wrong("it is a mapping from names to channels.", "channels")
            channels = {}
        found = (self._channel(str(name), each, "channels", name) for name, each in channels.items())
        return AlertSettings(channels=tuple(filter(None, found)), behind_seconds=behind, losing_seconds=losing)

    def _seconds(self, values: Mapping[str, Any], name: str, default: float) -> float:
        found = values.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
            self._wrong("it is not a number of seconds above 0.", name)
            return default
        return float(found)

    def _channel(self, name: str, values: Any, *place: str) -> Channel | None:
        if not isinstance(values, dict):
            self._wrong("it is a mapping with `webhook` or `mail`.", *place)
            return None
        self._known(values, _CHANNEL, *place)
        kinds = self._kinds(values.get("on"), *place)
        if ("webhook" in values) == ("mail" in values):
            self._wrong("it has either `webhook` or `mail`.", *place)
            return None
        if "webhook" in values:
            if not is_reference(str(values["webhook"])):
                self._wrong("the address of a webhook is a secret: write `{{secrets/SCOPE/KEY}}`.", *place, "webhook")
            return Channel(name=name, kinds=kinds, webhook=str(values["webhook"]))
        smtp = self._smtp(values.get("smtp"), *place)
        mail, sender = (self._address(values, key, *place) for key in ("mail", "from"))
        return Channel(name=name, kinds=kinds, mail=mail, sender=sender, smtp=smtp)

    def _kinds(self, names: Any, *place: str) -> frozenset[AlertKind]:
        if names is None:
            return frozenset(AlertKind)
        known = [each.value for each in AlertKind]
        for name in names if isinstance(names, list) else [names]:
            if name not in known:
                self._wrong(f"`{name}` is not one of {', '.join(known)}.", *place, "on")
                return frozenset()
        return frozenset(map(AlertKind, names if isinstance(names, list) else [names]))

    def _address(self, values: Mapping[str, Any], key: str, *place: str) -> str:
        text = str(values.get(key, ""))
        if "@" not in text or not text.isprintable() or "," in text:
            self._wrong(f"`{key}` is one mail address.", *place, *((key,) if key in values else ()))
        return text

    def _smtp(self, values: Any, *place: str) -> Smtp | None:
        if not isinstance(values, dict) or not isinstance(values.get("host"), str):
            self._wrong("mail needs `smtp` with a `host`.", *place, "smtp")
            return None
        self._known(values, _SMTP, *place, "smtp")
        port, tls, password = values.get("port", 587), values.get("tls", "starttls"), values.get("password")
        if not isinstance(port, int) or not 1 <= port <= 65_535:
            self._wrong("it is not a port.", *place, "smtp", "port")
        if tls not in _TLS:
            self._wrong(f"it is not one of {', '.join(_TLS)}.", *place, "smtp", "tls")
        if password is not None and not is_reference(str(password)):
            self._wrong("it is a secret: write `{{secrets/SCOPE/KEY}}`.", *place, "smtp", "password")
        user = values.get("user")
        return Smtp(host=values["host"], port=port, user=user, password=password, tls=tls)

    def _known(self, values: Mapping[str, Any], known: tuple[str, ...], *place: str) -> None:
        for key in values:
            if key not in known:
                self._wrong(f"it is not a setting.{nearest_hint(str(key), known)}", *place, str(key))

    def _wrong(self, problem: str, *place: str) -> None:
        where = self._document.location_of(*place)
        self.errors.append(UserError("ALERTS_INVALID", location=where, what=f"`{'.'.join(place)}`", problem=problem))
