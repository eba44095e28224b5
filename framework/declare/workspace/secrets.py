"""Secrets of a workspace on this machine: environment variables, the local file, `secrets.yml`, and the keyring.

Each value that is read is registered with the process, which then hides it in all texts that leave the process.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.declare.specs import Pairs
from framework.declare.workspace.local_file import YAML, SecretSource
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.locations import SourceLocation, caller_location
from framework.foundation.secrets.known_secrets import remember_secrets
from framework.foundation.yaml_documents import read_yaml

_PREFIX = "SLUICE_SECRET_"
_FILE = "secrets.yml"
_OTHERS = 0o077
_KEYRING = "sluice"
"""The prefix of service names in the keyring; pipeline code can't read other entries."""
_REFERENCE = re.compile(r"\{\{\s*secrets/([^/{}]+)/([^/{}]+?)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The secrets that a pipeline's code may read.

    Args:
        sources: the entries of the local file and of the spec.
        folder: the folder of the spec, which may have `secrets.yml`; None for a pipeline without a spec.
    """

    sources: tuple[SecretSource, ...] = ()
    folder: str | None = None

    def get(self, scope: str, key: str) -> str:
        """Return a secret; from then on, all texts of the process hide it.

        Raises:
            UserError: SECRET_MISSING with the entry to add, SECRETS_EXPOSED.
        """
        value = os.environ.get(variable_of(scope, key))
        if value is None:
            value = self._from_entry(scope, key)
        remember_secrets(value)
        return value

    def in_settings(self, settings: Pairs, file: str | None) -> Pairs:
        """Return settings with references of the form `{{secrets/scope/key}}` replaced by the values of the secrets.

        Args:
            settings: settings of the spec.
            file: the spec, whose lines the errors show.

        Raises:
            GraphErrors: SECRET_MISSING for each secret without a value, SECRETS_EXPOSED.
        """
        found, errors = list[tuple[str, str]](), list[SluiceError]()
        for name, value in settings:
            try:
                found.append((name, _REFERENCE.sub(lambda match: self.get(match[1], match[2]), value)))
            except UserError as error:
                location = None if file is None else _line_of(value, file)
                errors.append(UserError(error.condition, location=location, **error.fields))
        if errors:
            raise GraphErrors(errors)
        return tuple(found)

    def scopes(self) -> list[str]:
        """Return the sorted names of the scopes, without scopes that only environment variables or the keyring have."""
        return sorted({*(each.scope for each in self.sources), *self._of_file()})

    def keys(self, scope: str) -> list[str]:
        """Return the names of the secrets of a scope, sorted."""
        return sorted({*(each.key for each in self.sources if each.scope == scope), *self._of_file().get(scope, {})})

    def _from_entry(self, scope: str, key: str) -> str:
        found = next((each for each in self.sources if (each.scope, each.key) == (scope, key)), None)
        if found is None:
            value = self._of_file().get(scope, {}).get(key)
            value = _of_keyring(scope, key) if value is None else value
            if value is None:
                raise _missing(scope, key, "no variable, no entry of `secrets` and no line of secrets.yml has it")
            return value
        if found.kind == "env":
            value = os.environ.get(found.text)
            if value is None:
                raise _missing(scope, key, f"the environment variable {found.text}, which `secrets` names, is not set")
            return value
        if found.kind == "file":
            try:
                return Path(found.text).read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise _missing(scope, key, f"{found.text} cannot be read") from error
        return found.text

    def _of_file(self) -> Mapping[str, Mapping[str, str]]:
        """The content of `secrets.yml`, which no other user may be able to read."""
        if self.folder is None or not (file := Path(self.folder) / _FILE).is_file():
            return {}
        if os.name == "posix" and file.stat().st_mode & _OTHERS:
            raise UserError("SECRETS_EXPOSED", path=file, problem="other users of this machine can read it")
        content = read_yaml(file, YAML).plain()
        return {
            str(scope): {str(key): str(value) for key, value in keys.items()}
            for scope, keys in content.items()
            if isinstance(keys, dict)
        }


def variable_of(scope: str, key: str) -> str:
    """Return the name of the environment variable of a secret.

    Examples:
        >>> variable_of("shop-prod", "api.token")
        'SLUICE_SECRET_SHOP_PROD_API_TOKEN'
    """
    return _PREFIX + re.sub(r"\W", "_", f"{scope}_{key}", flags=re.ASCII).upper()


def secrets_in_settings(settings: Pairs, file: str) -> Iterator[tuple[str, str, SourceLocation]]:
    """Yield the scope, key and line of each reference to a secret in a file's settings."""
    for _, value in settings:
        for match in _REFERENCE.finditer(value):
            yield match[1], match[2], _line_of(value, file)


def _of_keyring(scope: str, key: str) -> str | None:
    """Return a secret of this machine's keyring; None without the package `keyring`, or if the keyring is locked."""
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        return None
    try:
        found: str | None = keyring.get_password(f"{_KEYRING}/{scope}", key)
    except keyring.errors.KeyringError:  # no keyring service, or locked
        return None
    return found


def _line_of(value: str, file: str) -> SourceLocation:
    """Return the line of a file that has a value; its first line if the file spells the value differently."""
    lines = Path(file).read_text("utf-8", errors="replace").splitlines()
    return SourceLocation(file=file, line=next((n for n, line in enumerate(lines, 1) if value in line), 1))


def _missing(scope: str, key: str, reason: str) -> UserError:
    variable = variable_of(scope, key)
    return UserError(
        "SECRET_MISSING", location=caller_location(), scope=scope, key=key, reason=reason, variable=variable
    )
