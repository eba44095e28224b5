"""Redaction of secrets in settings, options and texts: a short digest replaces each one, so changes remain visible.

A secret is recognized by the name of its setting, by its position in a URL, or by a known token or key format.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

_WORDS = (
    r"secret|passw(?:or)?d|passphrase|store.?pass|pwd|token|credential|authorization|auth\.user\.info|jaas|signature"
    r"|(?:access|account|api|encryption|private|shared|signing|storage).?key"
    r"|(?<![A-Za-z])(?:sig|sas|pw|pass)(?![A-Za-z])"
)
_SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
_FLAG_WITH_SECRET = rf"--?[\w.-]{{0,60}}?(?:{_WORDS})[\w.-]{{0,60}}"
_SECRET_FLAG = re.compile(_FLAG_WITH_SECRET, re.IGNORECASE)
_KEY_ENDS = r"-----END [A-Z ]*PRIVATE KEY-----|\Z"
# A reference to a workspace secret, a digest, or a bundle reference.
_HARMLESS = re.compile(r"\{\{secrets/[^{}]*\}\}|hidden:[0-9a-f]{8}|\$\{[^{}]*\}")
# A whole value in JSON.
_DIGEST = re.compile(r'(?<=")hidden:[0-9a-f]{8}(?=")')
_QUOTED = re.compile(r"""(?P<quote>\\?["'])(?P<inner>.*)(?P=quote)""", re.DOTALL)
_VALUE = (
    r"""hidden:[0-9a-f]{8}|\{\{[^{}]*\}\}|\$\{[^{}]*\}|\{[^{}]*\}|\\"(?:[^"\\]|\\[^"])*\\"|"[^"]*"|'[^']*'"""
    r"""|[^\s;,&"'{}()\[\]][^\s;,&"'})\]]*"""
)
_IN_TEXT = (
    # postgresql://user:password@host
    re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:)(?P<secret>[^\s/]{1,500})(?=@)", re.IGNORECASE),
    # jdbc:oracle:thin:user/password@host
    re.compile(r"(?P<before>\bjdbc:oracle:\w+:[^\s/:@]+/)(?P<secret>[^\s@]+)(?=@)", re.IGNORECASE),
    # Bearer TOKEN
    re.compile(r"(?P<before>\b(?:bearer|basic)\s+)(?P<secret>[\w.~+/-]{8,}=*)", re.IGNORECASE),
    # password=VALUE, "password": "VALUE"
    re.compile(
        rf"""(?P<before>(?:{_WORDS})[\w.-]{{0,60}}\\?["']?\s*[=:]\s*(?:(?:bearer|basic)\s+)?)(?P<secret>{_VALUE})""",
        re.IGNORECASE,
    ),
    # --password VALUE
    re.compile(rf"(?P<before>(?<!\S){_FLAG_WITH_SECRET}\s+)(?P<secret>{_VALUE})", re.IGNORECASE),
    # A private key.
    re.compile(rf"(?P<before>)(?P<secret>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:{_KEY_ENDS}))", re.DOTALL),
    # Tokens and keys of Databricks, AWS, GitHub, GitLab, Slack, Google, OpenAI, Azure Storage; JSON web tokens.
    re.compile(
        r"(?P<before>(?<![A-Za-z0-9]))(?P<secret>"
        r"dapi[0-9a-f]{32}(?:-\d+)?|dkea[0-9a-f]{32}|dose[0-9a-f]{32}|(?:AKIA|ASIA)[A-Z0-9]{16}"
        r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{35}"
        r"|sk-[\w-]{32,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|[A-Za-z0-9+/]{86}=="
        r")(?![A-Za-z0-9])"
    ),
)
_NAMED_VALUES = ("default", "value")
# Shorter texts are too common to be recognized by value.
_SHORTEST_SECRET = 4


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether the value of a setting with this name is a secret.

    Examples:
        >>> is_secret_name("db.password"), is_secret_name("primary_keys")
        (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def is_reference(text: str) -> bool:
    """Whether a text is a reference to a secret or a replacement for one, not a secret itself.

    Examples:
        >>> is_reference("{{secrets/scope/name}}"), is_reference("${var.password}"), is_reference("hunter2")
        (True, True, False)
    """
    return _HARMLESS.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def hide_in_text(text: str) -> str:
    """Replace the secret parts of a text by their digests; idempotent.

    Examples:
        >>> hide_in_text("jdbc:sqlserver://db;user=sa;password=hunter2")
        'jdbc:sqlserver://db;user=sa;password=hidden:4ddbb67b'
        >>> hide_in_text("see https://example.com/docs")
        'see https://example.com/docs'
    """
    for pattern in _IN_TEXT:
        text = pattern.sub(_hidden_part, text)
    return text


def secrets_in(text: str) -> Iterator[str]:
    """Yield the secret parts of a text, without quotes; references to secrets are skipped.

    Examples:
        >>> [*secrets_in("jdbc:sqlserver://db;user=sa;password=hunter2"), *secrets_in("s3a://key:a%2Fb@bucket/x")]
        ['hunter2', 'a%2Fb']
    """
    for pattern in _IN_TEXT:
        for match in pattern.finditer(text):
            quoted = _QUOTED.fullmatch(match["secret"])
            secret: str = match["secret"] if quoted is None else quoted["inner"]
            if secret and not is_reference(secret):
                yield secret


def hide_secrets(value: Any, known: Collection[str] = ()) -> Any:
    """Replace secret values in settings, at any depth, by their digests; recognized by name and in texts; idempotent.

    References to workspace secrets are kept, because they are not secret.

    Args:
        value: the settings.
        known: digests of texts that are secret under any name; see `secret_digests`.

    Examples:
        >>> hide_secrets({"db.password": "hunter2", "other": 1, "api_key": "{{secrets/s/k}}"})
        {'db.password': 'hidden:4ddbb67b', 'other': 1, 'api_key': '{{secrets/s/k}}'}
        >>> hide_secrets({"comment": "hunter2"}, secret_digests("hunter2"))
        {'comment': 'hidden:4ddbb67b'}
    """
    if isinstance(value, Mapping):
        named = any(is_secret_name(str(value.get(key, ""))) for key in ("name", "key"))
        return {
            key: hide_all(each)
            if is_secret_name(str(key)) or (named and key in _NAMED_VALUES)
            else hide_secrets(each, known)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return list(_hidden_arguments(value, known))
    if not isinstance(value, str):
        return value
    return digest if known and (digest := _digest(value)) in known else hide_in_text(value)


def secret_digests(text: str) -> frozenset[str]:
    """Return the digests that identify a secret text, including variants in which a service changed the letter case.

    A text of fewer than four characters and a reference to a secret have none.
    """
    if len(text) < _SHORTEST_SECRET or _HARMLESS.fullmatch(text):
        return frozenset()
    return frozenset({_digest(text), _digest(text.lower()), _digest(text.upper())})


def digests_in(text: str) -> frozenset[str]:
    """Return the digests that replace whole values in a JSON text."""
    return frozenset(_DIGEST.findall(text))


def _hidden_arguments(items: Sequence[Any], known: Collection[str]) -> Iterator[Any]:
    """Yield the items of a list; an item after a flag such as `--password` is hidden as a secret."""
    follows = False
    for item in items:
        yield hide_all(item) if follows else hide_secrets(item, known)
        follows = isinstance(item, str) and _SECRET_FLAG.fullmatch(item) is not None


def _hidden_part(match: re.Match[str]) -> str:
    quoted = _QUOTED.fullmatch(match["secret"])
    if quoted is None:
        return f"{match['before']}{hide_all(match['secret'])}"
    return f"{match['before']}{quoted['quote']}{hide_all(quoted['inner'])}{quoted['quote']}"


def hide_all(value: Any) -> Any:
    """Return the digest of a text or number; for a list or mapping, replace its values one by one."""
    if isinstance(value, Mapping):
        return {key: hide_all(each) for key, each in value.items()}
    if isinstance(value, list):
        return [hide_all(each) for each in value]
    if value is None or value == "" or isinstance(value, bool):
        return value
    if isinstance(value, str) and _HARMLESS.fullmatch(value):
        return value
    return _digest(value)


def _digest(value: Any) -> str:
    return f"hidden:{hashlib.sha256(json.dumps(value).encode('utf-8')).hexdigest()[:8]}"
