"""Secrets that the process knows are in no text that leaves it, however they are written; other values stay."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterator
from typing import cast
from urllib.parse import quote, quote_plus

import pytest

from framework.foundation.errors import OperationError, remote_error
from framework.foundation.secrets.known_secrets import (
    KnownSecrets,
    hide_known,
    hide_known_values,
    remember_environment,
    remember_secrets,
    remember_settings,
)
from framework.foundation.secrets.masked_stream import masked
from framework.foundation.wording import one_line

AWKWARD = "p&ss/w0rd'ü\"\\ %41"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----"
_OF_STORAGE = "c29tZSBzdG9yYWdlIGtleSB0aGF0IGlzIGxvbmcgZW5vdWdoIGZvciBBenVyZQ+/"


def _written(secret: str) -> Iterator[str]:
    """Ways in which texts have a secret."""
    yield secret
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret), quote(secret, safe="").lower())
    yield f"password='{secret.replace(chr(92), chr(92) * 2).replace(chr(39), chr(92) + chr(39))}'"
    yield json.dumps({"password": secret})
    yield json.dumps(json.dumps([secret], ensure_ascii=False), ensure_ascii=False)
    yield repr({"password": secret})
    yield str(ValueError(repr(secret)))
    yield html.escape(secret)


@pytest.mark.parametrize("text", [*_written(AWKWARD)])
def test_a_secret_is_hidden_however_it_is_written(text: str) -> None:
    """Encoded, escaped once or twice, or as it is; the text around it stays."""
    known = KnownSecrets()
    known.remember(AWKWARD)
    shown = known.hide(f"before {text} after")
    assert "[REDACTED]" in shown
    assert not any(part in shown for part in ("ss/w0rd", "w0rd", "W0RD"))
    assert (shown.startswith("before "), shown.endswith(" after")) == (True, True)


def test_an_encoded_secret_is_hidden_decoded() -> None:
    """A connection has its password percent-encoded; drivers write it plain."""
    known = KnownSecrets()
    known.remember("a%2Fb%40c")
    assert known.hide("a%2Fb%40c, a/b@c") == "[REDACTED], [REDACTED]"


def test_the_lines_of_a_secret_are_hidden() -> None:
    """An error may show one line of a private key, or all in one line."""
    known = KnownSecrets()
    known.remember(KEY)
    assert known.hide("line AQEFAASCBKcwggSjAgEAAoIB is wrong") == "line [REDACTED] is wrong"
    assert known.hide(" ".join(KEY.split())) == "[REDACTED]"


@pytest.mark.parametrize("value", ["abc", "true", "None", "12345", "password", " key "])
def test_a_value_that_any_text_may_have_is_no_secret(value: str) -> None:
    """To hide it would spoil the texts, and say what it is."""
    known = KnownSecrets()
    known.remember(value)
    assert known.is_empty


def test_a_short_secret_is_hidden_as_a_whole_word() -> None:
    """It may be a part of any word."""
    known = KnownSecrets()
    known.remember("cat5")
    assert known.hide("concat5 joe:cat5@db") == "concat5 joe:[REDACTED]@db"


SETTINGS = {
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": (_OF_STORAGE, _OF_STORAGE),
    "spark.hadoop.fs.s3a.secret.key": ("abcdefghij", "abcdefghij"),
    "api_token": ("abcdefghij", "abcdefghij"),
    "spark.driver.extraJavaOptions": ("-Xss2m -Djavax.net.ssl.trustStorePassword=abcdefghij", "abcdefghij"),
    "source": ("jdbc:sqlserver://db;user=sa;password=abcdefghij;encrypt=true", "abcdefghij"),
    "uri": ("postgresql://joe:abcdefghij@db/x", "abcdefghij"),
    "libpq": ("host=db password='abcdefghij' user=joe", "abcdefghij"),
}


@pytest.mark.parametrize("key", SETTINGS)
def test_the_secrets_of_settings_are_known(key: str) -> None:
    """By the name of the setting, or by their place in its value."""
    value, secret = SETTINGS[key]
    remember_settings([(key, value)])
    assert hide_known(f"no access with {secret} for joe of db") == "no access with [REDACTED] for joe of db"


HARMLESS = {
    "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.SomeProvider",
    "secret_scope": "production",
    "tokenEndpoint": "https://login.example.com/x",
    "password_file": "/etc/passwords",
    "token.lifetime.seconds": "86400000",
    "primary_keys": "order_id",
    "password": "{{secrets/scope/name}}",
}


@pytest.mark.parametrize("key", HARMLESS)
def test_a_setting_about_a_secret_is_shown(key: str) -> None:
    """Its value is the name, the place or the duration of one, which the advice of an error needs."""
    remember_settings([(key, HARMLESS[key])])
    assert hide_known(f"see {HARMLESS[key]}") == f"see {HARMLESS[key]}"


def test_the_secrets_of_the_environment_are_known_but_not_its_paths() -> None:
    """PWD is the working folder, and GOOGLE_APPLICATION_CREDENTIALS a file."""
    variables = {"PGPASSWORD": "abcdefghij", "PWD": "klmnopqrst", "GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json"}
    remember_environment(variables)
    assert hide_known(" ".join(variables.values())) == "[REDACTED] klmnopqrst /etc/key.json"


def test_values_of_json_lose_secrets_in_their_texts_and_keep_their_keys() -> None:
    """Programs find the values by their keys."""
    remember_secrets("abcdefghij")
    value = {"abcdefghij": ["x abcdefghij", 1, None, {"a": "abcdefghij"}]}
    assert hide_known_values(value) == {"abcdefghij": ["x [REDACTED]", 1, None, {"a": "[REDACTED]"}]}


def test_errors_have_no_secrets_in_any_of_their_texts() -> None:
    """Neither those that were known when the error was made, nor those that became known later, nor in half."""
    remember_secrets("abcdefghij")
    error = OperationError("SYSTEM_CALL_FAILED", cause="no abcdefghij, no klmnopqrst")
    remember_secrets("klmnopqrst")
    assert ("abcdefghij" in error.what, "klmnopqrst" in error.render()) == (False, False)
    text = "framework.foundation.errors.SourceError: [A_B] abcdefghij is wrong\n  -> Change abcdefghij"
    remote = remote_error(text)
    assert remote is not None
    assert (remote.what, remote.remedy) == ("[REDACTED] is wrong", "Change [REDACTED]")
    assert "abcde" not in one_line("x" * 495 + " abcdefghij")


def test_a_masked_stream_hides_what_is_written_and_is_otherwise_the_stream() -> None:
    """Standard error of a command: prints of a user's module, logs, tracebacks of threads."""
    remember_secrets("abcdefghij")
    inner = io.StringIO()
    stream = masked(inner)
    print("a abcdefghij", file=stream)
    stream.writelines(["b abcdefghij\n"])
    assert inner.getvalue() == "a [REDACTED]\nb [REDACTED]\n"
    assert (masked(stream), stream.isatty()) == (stream, False)
    assert cast("io.StringIO", stream).getvalue() == inner.getvalue()
