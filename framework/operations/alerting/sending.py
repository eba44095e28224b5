"""Sends messages: a webhook gets JSON that chats accept, mail a plain text."""

from __future__ import annotations

import json
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from http.client import HTTPException
from typing import Any

from framework.foundation.errors import OperationError
from framework.foundation.secrets.known_secrets import hide_known
from framework.operations.alerting.alert_file import Channel, Smtp
from framework.operations.alerting.episodes import Message

Resolve = Callable[[str], str]
"""Replaces references to secrets in a text by their values."""

_TIMEOUT_SECONDS = 10.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the message is for the host that the user has named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return no request."""


def send(channel: Channel, message: Message, resolve: Resolve) -> None:
    """Send a message; it may arrive twice if this process dies before it is recorded as sent.

    Raises:
        OperationError: ALERT_NOT_SENT.
        SluiceError: a secret has no value.
    """
    try:
        if channel.webhook is not None:
            _post(resolve(channel.webhook), message)
        elif channel.smtp is not None:
            _mail(channel, channel.smtp, message, resolve)
    except (OSError, smtplib.SMTPException, HTTPException, ValueError) as error:
        cause = hide_known(str(error) or type(error).__name__)
        raise OperationError("ALERT_NOT_SENT", channel=channel.name, cause=cause) from None


def webhook_body(message: Message) -> dict[str, Any]:
    """Return the JSON of a webhook: `text` for chats, and the fields for programs."""
    trouble = message.trouble
    fields = {
        "id": message.id, "event": "recovered" if message.has_recovered else "raised", "kind": trouble.kind.value,
        "pipeline": message.pipeline, "subject": trouble.subject, "message": trouble.text, "way": trouble.way,
        "since": message.since, "at": message.at,
    }  # fmt: skip
    return {"text": hide_known(message.text), "sluice": {key: hide_known(value) for key, value in fields.items()}}


def _post(address: str, message: Message) -> None:
    if not address.startswith(("http://", "https://")):
        msg = "The address of the webhook does not begin with http:// or https://"
        raise ValueError(msg)
    body = json.dumps(webhook_body(message)).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": message.id, "User-Agent": "sluice"}
    request = urllib.request.Request(address, data=body, headers=headers, method="POST")  # noqa: S310 - checked above
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_SECONDS):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        msg = f"it answered {error.code}"
        raise OSError(msg) from None


def _mail(channel: Channel, server: Smtp, message: Message, resolve: Resolve) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"] = channel.sender, channel.mail
    mail["Subject"] = hide_known(" ".join(message.title.split()))
    mail["Message-ID"] = f"<{message.id}@sluice>"
    mail.set_content(hide_known(message.text) + "\n")
    context = ssl.create_default_context()
    is_tls = server.tls == "tls"
    with (
        smtplib.SMTP_SSL(server.host, server.port, timeout=_TIMEOUT_SECONDS, context=context)
        if is_tls
        else smtplib.SMTP(server.host, server.port, timeout=_TIMEOUT_SECONDS)
    ) as connection:
        if server.tls == "starttls":
            connection.starttls(context=context)
        if server.user is not None:
            connection.login(server.user, resolve(server.password or ""))
        connection.send_message(mail)
