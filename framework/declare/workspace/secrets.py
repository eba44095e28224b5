"""Secrets of a workspace on this machine: environment variables, entries of the local file, and `secrets.yml`.

Each value that is read is known to the process from then on, so that no text that leaves it has the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.declare.workspace.local_file import YAML, SecretSource
from framework.foundation.errors import UserError
from framework.foundation.known_secrets import remember_secrets
from framework.foundation.locations import caller_location
from framework.foundation.yaml_documents import read_yaml

_PREFIX = "SLUICE_SECRET_"
_FILE = "secrets.yml"
_OTHERS = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The secrets that the code of a pipeline may read.

    Args:
        sources: the entries of the local file and of the spec.
        folder: the folder of the spec, which may have `secrets.yml`; None for a pipeline without a spec.
    """

    sources: tuple[SecretSource, ...] = ()
    folder: str | None = None

    def get(self, scope: str, key: str) -> str:
        """Return a secret, and let all texts of the process hide it.

        Raises:
            UserError: SECRET_MISSING with the entry to add, SECRETS_EXPOSED.
        """
        value = os.environ.get(variable_of(scope, key))
        if value is None:
            value = self._from_entry(scope, key)
        remember_secrets(value)
        return value

    def scopes(self) -> list[str]:
        """Return the names of the scopes, sorted, without those of environment variables only."""
        return sorted({*(each.scope for each in self.sources), *self._of_file()})

    def keys(self, scope: str) -> list[str]:
        """Return the names of the secrets of a scope, sorted."""
        return sorted({*(each.key for each in self.sources if each.scope == scope), *self._of_file().get(scope, {})})

    def _from_entry(self, scope: str, key: str) -> str:
        found = next((each for each in self.sources if (each.scope, each.key) == (scope, key)), None)
        if found is None:
            value = self._of_file().get(scope, {}).get(key)
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
        """The content of `secrets.yml`, which only its user may read."""
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


def _missing(scope: str, key: str, reason: str) -> UserError:
    variable = variable_of(scope, key)
    return UserError(
        "SECRET_MISSING", location=caller_location(), scope=scope, key=key, reason=reason, variable=variable
    )
