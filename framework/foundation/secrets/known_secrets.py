"""The secret values known to this process, and their removal from texts that leave it.

Code that reads a secret registers it here: connections, pipeline settings, the environment. Code that writes a text
for people or to a file hides secrets: errors, events, tables and JSON of commands, pages. Rows of tables are data and
are never changed. The process has one register, so a text of one pipeline also hides the secrets of another.
"""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from framework.foundation.secrets.secrecy import is_reference, is_secret_name, secrets_in

HIDDEN = "[REDACTED]"
_SHORTEST = 4
# A shorter secret is hidden only as a whole word, because it may be a part of any other word.
_SHORTEST_ANYWHERE = 6
# The minimum length of a line of a multi-line secret, such as a private key: an error may show one line of it.
_SHORTEST_LINE = 16
_NUMBER = re.compile(r"\d{1,5}")
# Values that are not secret, and words that Sluice's own texts about secrets use.
_TRIVIAL = frozenset(
    {
        "auto",
        "default",
        "disabled",
        "enabled",
        "false",
        "none",
        "null",
        "required",
        "true",
        "credential",
        "credentials",
        "key",
        "password",
        "secret",
        "token",
    }
)
# `fs.s3a.aws.credentials.provider`, `tokenEndpoint`: the last word marks a value that is not the secret itself.
_NO_SECRET = re.compile(
    r"(?:class|enabled|endpoint|factory|file|folder|format|interval|length|location|mode|ms|name|path|provider|required"
    r"|scope|seconds|size|type|ur[il]|version)s?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W_]+")
_OF_SHELL = frozenset({"PWD", "OLDPWD"})


class KnownSecrets:
    """A thread-safe register of secret values.

    Examples:
        >>> known = KnownSecrets()
        >>> known.remember("hunter/2")
        >>> known.hide("no access for joe:hunter%2F2, password=hunter/2")
        'no access for joe:[REDACTED], password=[REDACTED]'
    """

    def __init__(self) -> None:
        self._adding = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def remember(self, *secrets: str) -> None:
        """Add secrets, except texts of fewer than four characters, small numbers and common words."""
        new = {text for each in secrets if (text := each.strip()) and not _is_trivial(text)} - self._values
        if not new:
            return
        with self._adding:
            self._values |= new
            forms = {form for value in self._values for form in _forms(value)}
            # Longest first: one secret may be a part of another.
            texts = sorted(forms, key=lambda form: (-len(form), form))
            self._pattern = re.compile("|".join(map(_expression, texts)))

    @property
    def is_empty(self) -> bool:
        """Whether no secret is known."""
        return self._pattern is None

    def hide(self, text: str) -> str:
        """Return a text in which each secret is replaced by a mark, including escaped and encoded forms."""
        pattern = self._pattern
        return text if pattern is None else pattern.sub(HIDDEN, text)


_known = KnownSecrets()


def remember_secrets(*secrets: str) -> None:
    """Add secrets to the register of the process."""
    _known.remember(*secrets)


def remember_settings(settings: Iterable[tuple[str, object]]) -> None:
    """Add the secrets in settings: values with a secret name, and secrets inside values, such as in a URL."""
    _known.remember(*(secret for key, value in settings for secret in _secrets_of(str(key), str(value))))


def remember_environment(variables: Mapping[str, str]) -> None:
    """Add the values of environment variables with a secret name; paths are not secrets."""
    named = ((key, value) for key, value in variables.items() if key not in _OF_SHELL)
    remember_settings((key, value) for key, value in named if is_secret_name(key) and not value.startswith("/"))


def hide_known(text: str) -> str:
    """Return a text without the secrets in the register."""
    return _known.hide(text)


def hide_known_values(value: Any) -> Any:
    """Return a JSON value without the secrets in the register, in texts at any depth; keys are not changed."""
    if _known.is_empty:
        return value
    if isinstance(value, str):
        return _known.hide(value)
    if isinstance(value, Mapping):
        return {key: hide_known_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [hide_known_values(each) for each in value]
    return value


def _secrets_of(key: str, value: str) -> Iterator[str]:
    words = _WORD.findall(key)
    if is_secret_name(key) and not is_reference(value) and not (words and _NO_SECRET.fullmatch(words[-1])):
        yield value
    yield from secrets_in(value)


def _is_trivial(text: str) -> bool:
    return len(text) < _SHORTEST or text.lower() in _TRIVIAL or _NUMBER.fullmatch(text) is not None


def _expression(form: str) -> str:
    """Return the regular expression that finds one form of a secret."""
    return re.escape(form) if len(form) >= _SHORTEST_ANYWHERE else rf"(?<!\w){re.escape(form)}(?!\w)"


def _forms(secret: str) -> set[str]:
    """Return the forms of a secret in texts: decoded, escaped once or twice, joined to one line, and its long lines."""
    forms = {secret, unquote(secret)}
    for _ in range(2):
        forms |= {escaped for form in forms for escaped in _escaped(form)}
    lines = [line.strip() for line in secret.splitlines()]
    forms |= {" ".join(secret.split()), *(line for line in lines if len(line) >= _SHORTEST_LINE)}
    return {form for form in forms if len(form) >= _SHORTEST}


def _escaped(text: str) -> Iterator[str]:
    """Yield a text as escaped in URLs, libpq, SQL, JSON, Python and HTML."""
    for encoded in (quote(text, safe=""), quote(text), quote_plus(text)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    yield text.replace("\\", "\\\\").replace("'", "\\'")
    yield text.replace("'", "''")
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield html.escape(text)
