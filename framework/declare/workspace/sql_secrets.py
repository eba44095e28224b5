"""`secret('scope', 'key')` in queries: replaces the call with the value of the secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework.declare.session.registered_functions import current_functions
from framework.declare.sql_tokens import Token, TokenKind, UnclosedTextError, string_value, tokens
from framework.declare.workspace.surroundings import SecretsPort, found_surroundings
from framework.foundation.errors import UserError
from framework.foundation.names import string_literal

_FUNCTIONS = ("SECRET", "TRY_SECRET")


def with_secrets(text: str) -> str:
    """Return a query in which literals replace its calls of `secret` and `try_secret`, whose arguments are literals.

    Spark has no such functions. A literal is also valid as a reader's option. Texts that show the query hide the value.

    Args:
        text: the query of the pipeline whose code runs.

    Raises:
        UserError: SECRET_MISSING, SECRETS_EXPOSED.
    """
    around, functions = found_surroundings(), current_functions()
    if around is None or "secret" not in text.lower():
        return text
    names = [name for name in _FUNCTIONS if functions is None or not functions.has(name)]  # keep a user's own
    try:
        calls = [*_calls([*tokens(text)], names)]
    except UnclosedTextError:  # Spark's parser reports the fault
        return text
    for call in reversed(calls):  # from the end, so that earlier positions stay valid
        value = _literal(around.secrets, call)
        text = text[: call[0].start] + value + text[call[-1].end :]
    return text


def _calls(found: Sequence[Token], names: Sequence[str]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each call: name, parenthesis, scope, comma, key, parenthesis."""
    for place, token in enumerate(found):
        call = found[place : place + 6]
        if (
            len(call) == 6
            and any(token.is_word(name) for name in names)
            and not (place > 0 and found[place - 1].is_symbol("."))
            and [each.text for each in call[1::2]] == ["(", ",", ")"]
            and call[2].kind is call[4].kind is TokenKind.STRING
        ):
            yield call


def _literal(secrets: SecretsPort, call: Sequence[Token]) -> str:
    try:
        return string_literal(secrets.get(string_value(call[2]), string_value(call[4])))
    except UserError as error:
        if call[0].is_word("TRY_SECRET") and error.condition == "SECRET_MISSING":
            return "CAST(NULL AS STRING)"
        raise
