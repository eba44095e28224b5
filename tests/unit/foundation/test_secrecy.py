"""Secret values are hidden in settings, options and texts; all other values are unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from framework.foundation.secrets.secrecy import hide_in_text, hide_secrets

DIGEST = "hidden:4ddbb67b"
"""That of hunter2."""

TEXTS = {
    "jdbc:sqlserver://db:1433;databaseName=s;user=sa;password=hunter2;encrypt=true":
        f"jdbc:sqlserver://db:1433;databaseName=s;user=sa;password={DIGEST};encrypt=true",
    "https://a.blob.core.windows.net/c?sv=2022&sig=hunter2&se=1":
        f"https://a.blob.core.windows.net/c?sv=2022&sig={DIGEST}&se=1",
    "https://h/x?X-Amz-Signature=hunter2&X-Amz-Date=1": f"https://h/x?X-Amz-Signature={DIGEST}&X-Amz-Date=1",
    "postgresql://ada:hunter2@db:5432/x": f"postgresql://ada:{DIGEST}@db:5432/x",
    "s3a://key:hunter2@bucket/x": f"s3a://key:{DIGEST}@bucket/x",
    "mongodb+srv://u:hunter2@h1,h2/?x=1": f"mongodb+srv://u:{DIGEST}@h1,h2/?x=1",
    "jdbc:oracle:thin:scott/hunter2@//h/x": f"jdbc:oracle:thin:scott/{DIGEST}@//h/x",
    "AccountName=a;AccountKey=hunter2;EndpointSuffix=core": f"AccountName=a;AccountKey={DIGEST};EndpointSuffix=core",
    "Endpoint=sb://x/;SharedAccessKey=hunter2": f"Endpoint=sb://x/;SharedAccessKey={DIGEST}",
    'PlainLoginModule required username="a" password="hunter2";':
        f'PlainLoginModule required username="a" password="{DIGEST}";',
    '{"password": "hunter2", "user": "a"}': f'{{"password": "{DIGEST}", "user": "a"}}',
    '{\\"password\\": \\"hunter2\\"}': f'{{\\"password\\": \\"{DIGEST}\\"}}',
    "load --db-password hunter2 --table t": f"load --db-password {DIGEST} --table t",
    "load --token=hunter2": f"load --token={DIGEST}",
    "aws_secret_access_key = hunter2": f"aws_secret_access_key = {DIGEST}",
    "Pwd={hunter2};Encrypt=yes": "Pwd=hidden:66521bec;Encrypt=yes",
}  # fmt: skip
SHAPES = (
    "dapi0123456789abcdef0123456789abcdef",
    "dapi0123456789abcdef0123456789abcdef-2",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "xoxb-0123456789-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
)
HARMLESS = (
    "abfss://container@account.dfs.core.windows.net/x",
    "https://h.example.com:443/a?b=c",
    "ada@example.com",
    "main.sales.orders",
    "0 5 * * * ?",
    "password={{secrets/scope/key}};user=sa",
    "password=${var.password}",
    "SELECT id FROM orders WHERE amount > 1",
    "4f1c2ab04f1c2ab04f1c2ab04f1c2ab04f1c2ab0",
    "primary_keys=a;sequence_by=b",
)


@pytest.mark.parametrize(("text", "shown"), TEXTS.items())
def test_a_secret_inside_a_text_is_a_digest(text: str, shown: str) -> None:
    """The text around it stays, so that a change of either is visible; hiding is idempotent."""
    assert hide_in_text(text) == shown
    assert hide_in_text(shown) == shown


@pytest.mark.parametrize("token", SHAPES)
def test_a_token_is_known_by_its_shape(token: str) -> None:
    """Without a name, alone and among other words."""
    assert token not in hide_in_text(f"use {token}, please")
    assert hide_in_text(token).removeprefix("hidden:").isalnum()


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Addresses, names, references to secrets and to variables."""
    assert hide_in_text(text) == text


def test_settings_are_searched_at_each_depth() -> None:
    """By names of fields, of parameters and of pairs, after flags in lists, in lists and mappings below such a name."""
    settings: dict[str, Any] = {
        "spark_conf": {"fs.azure.account.key.a": "hunter2", "spark.x": "url=jdbc:x;password=hunter2"},
        "tasks": [{"parameters": ["--api-token", "hunter2", "--table", "t"]}],
        "parameters": [{"name": "db_password", "default": "hunter2"}, {"name": "table", "default": "t"}],
        "pairs": [{"key": "client_secret", "value": "hunter2"}],
        "tokens": ["hunter2"],
        "credentials": {"user": "hunter2", "on": True},
        "count": 3,
    }
    assert hide_secrets(settings) == {
        "spark_conf": {"fs.azure.account.key.a": DIGEST, "spark.x": f"url=jdbc:x;password={DIGEST}"},
        "tasks": [{"parameters": ["--api-token", DIGEST, "--table", "t"]}],
        "parameters": [{"name": "db_password", "default": DIGEST}, {"name": "table", "default": "t"}],
        "pairs": [{"key": "client_secret", "value": DIGEST}],
        "tokens": [DIGEST],
        "credentials": {"user": DIGEST, "on": True},
        "count": 3,
    }
