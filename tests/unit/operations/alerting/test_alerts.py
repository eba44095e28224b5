"""Alerts are told once for each episode, survive restarts, and have no secret in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.declare.pipeline_spec import load_spec
from framework.foundation.errors import GraphErrors, OperationError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.secrets.known_secrets import remember_secrets
from framework.operations.alerting.alert_file import AlertSettings, Channel, Smtp, read_alerts
from framework.operations.alerting.desk import AlertDesk
from framework.operations.alerting.episodes import AlertKind, Episodes, Message, Trouble
from framework.operations.alerting.sending import send, webhook_body
from framework.testing.manual_clock import ManualClock
from tests.support.alert_receivers import Received, mail_server, webhook

FAILED = Trouble(kind=AlertKind.FAILED, text="Update u-1 is FAILED.", way="First way out: run again.")
BEHIND = Trouble(kind=AlertKind.BEHIND, subject="main.shop.load", text="It is 1,000 s behind.")
WEBHOOK = Channel(name="team", webhook="{{secrets/alerts/webhook}}")
SETTINGS = AlertSettings(channels=(WEBHOOK,))
MESSAGE = Message(
    id="m-1", pipeline="shop", trouble=FAILED, since="2026-01-01T00:00:00.000Z", at="2026-01-01T00:00:00.000Z"
)


def desk(folder: Path, clock: ManualClock) -> AlertDesk:
    """The desk of a server that has just started."""
    return AlertDesk(LocalStorage(str(folder)), "shop", clock)


def address(received: Received) -> str:
    """The address of a webhook."""
    return f"http://127.0.0.1:{received.port}/hook"


@given(looks=st.lists(st.sampled_from([(), (FAILED,), (BEHIND,), (BEHIND, FAILED)]), max_size=30))
def test_each_episode_is_told_once_and_once_when_it_is_over(looks: Sequence[Sequence[Trouble]]) -> None:
    """However often a trouble is seen; one that comes back is a new episode."""
    episodes, told, now = Episodes(), list[Message](), datetime(2026, 1, 1, tzinfo=UTC)
    for number, troubles in enumerate(looks):
        episodes, messages = episodes.seen("shop", troubles, now + timedelta(minutes=number))
        told += messages
    for trouble in (FAILED, BEHIND):
        spans = [is_there for is_there, _ in groupby(trouble in each for each in looks)]
        expected = [not is_there for is_there in (spans if spans and spans[0] else spans[1:])]
        assert expected == [each.has_recovered for each in told if each.trouble == trouble]
    assert len(told) == len({each.id for each in told})


def test_what_is_unknown_neither_begins_nor_ends_an_episode() -> None:
    """A retry that runs does not end the episode of the failure."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    begun, _ = Episodes().seen("shop", [FAILED, BEHIND], now)
    going, messages = begun.seen("shop", [], now, lambda each: each.kind is AlertKind.FAILED)
    assert [BEHIND] == [each.trouble for each in messages]
    assert [FAILED] == [each.trouble for each in going.open]


def test_a_message_is_sent_once_although_servers_come_and_go(tmp_path: Path) -> None:
    """A new server sends what the last one could not, and tells nothing twice."""
    clock = ManualClock()
    with webhook() as received:
        received.statuses.append(500)
        desk(tmp_path, clock).look(SETTINGS, [FAILED])
        first = desk(tmp_path, clock)
        first.deliver(SETTINGS, lambda _: address(received))
        assert ["team"] == [*first.faults]
        for seconds in (1, 60, 60):
            clock.sleep(seconds)
            again = desk(tmp_path, clock)
            assert () == again.look(SETTINGS, [FAILED])
            again.deliver(SETTINGS, lambda _: address(received))
        ended = desk(tmp_path, clock)
        ended.look(SETTINGS, [])
        ended.deliver(SETTINGS, lambda _: address(received))
    assert ["raised", "raised", "recovered"] == [each["sluice"]["event"] for each in received.bodies]
    assert received.bodies[0] == received.bodies[1]  # the first answer was an error
    assert "shop: recovered: failed" == received.bodies[2]["text"].splitlines()[0]


def test_a_server_that_takes_over_knows_what_the_other_one_told(tmp_path: Path) -> None:
    """It has looked at the alerts before, when there were none."""
    clock = ManualClock()
    first, second = desk(tmp_path, clock), desk(tmp_path, clock)
    assert Episodes() == second.episodes
    first.look(SETTINGS, [FAILED])
    assert () == second.look(SETTINGS, [FAILED])
    assert 1 == len(second.due)


def test_a_process_that_dies_after_sending_sends_again_with_the_same_id(tmp_path: Path) -> None:
    """The receiver can leave out the second one."""
    clock = ManualClock()
    with webhook() as received:
        desk(tmp_path, clock).look(SETTINGS, [FAILED])
        kept = {file: file.read_bytes() for file in tmp_path.rglob("*.json")}
        desk(tmp_path, clock).deliver(SETTINGS, lambda _: address(received))
        for file, content in kept.items():  # as if the record of it had not been written
            file.write_bytes(content)
        desk(tmp_path, clock).deliver(SETTINGS, lambda _: address(received))
    assert 2 == len(received.bodies)
    assert 1 == len({each["Idempotency-Key"] for each in received.headers})


def test_a_message_is_given_up_after_a_day(tmp_path: Path) -> None:
    """Until then it is tried with growing delays."""
    clock = ManualClock()
    one = desk(tmp_path, clock)
    with webhook() as received:
        received.statuses += [503] * 10_000
        one.look(SETTINGS, [FAILED])
        for _ in range(30):
            one.deliver(SETTINGS, lambda _: address(received))
            clock.sleep(3600)
    assert 25 == len(received.bodies)
    assert () == one.due


def test_only_the_chosen_kinds_go_to_a_channel(tmp_path: Path) -> None:
    """And a channel that was removed gets nothing."""
    clock = ManualClock()
    few = Channel(name="few", webhook="{{secrets/a/b}}", kinds=frozenset({AlertKind.BEHIND}))
    one = desk(tmp_path, clock)
    one.look(AlertSettings(channels=(few, WEBHOOK)), [FAILED, BEHIND])
    assert ["team", "few", "team"] == [each.channel for each in one.due]
    one.deliver(AlertSettings(), lambda text: text)
    assert () == one.due


def test_the_body_of_a_webhook_is_a_chat_message_with_fields() -> None:
    """`text` is what chats show; known secrets are hidden in all of it."""
    remember_secrets("hunter2-hunter2")
    secret = Trouble(kind=AlertKind.FAILED, text="It said hunter2-hunter2.", way="Run again.")
    body = webhook_body(Message(id="m-1", pipeline="shop", trouble=secret, since="a", at="b"))
    assert "hunter2" not in str(body)
    assert ("shop: failed", "Run again.") == (body["text"].splitlines()[0], body["text"].splitlines()[2])
    assert ("raised", "failed", "m-1") == tuple(body["sluice"][each] for each in ("event", "kind", "id"))


def test_a_mail_has_the_message(tmp_path: Path) -> None:
    """With its sender, its receiver and a subject of one line."""
    del tmp_path
    with mail_server() as received:
        smtp = Smtp(host="127.0.0.1", port=received.port, tls="none")
        channel = Channel(name="ops", mail="ops@example.com", sender="sluice@example.com", smtp=smtp)
        send(channel, MESSAGE, lambda text: text)
    (mail,) = received.mails
    assert {"From: sluice@example.com", "To: ops@example.com", "Subject: shop: failed"} <= set(mail.splitlines())
    assert "First way out: run again." in mail


@pytest.mark.parametrize("status", [302, 404, 500])
def test_an_answer_that_is_no_success_is_an_error_without_the_address(status: int) -> None:
    """A redirect is not followed; the address, which is a secret, is not in the text."""
    with webhook() as received:
        received.statuses.append(status)
        remember_secrets(address(received))
        with pytest.raises(OperationError) as raised:
            send(WEBHOOK, MESSAGE, lambda _: address(received))
    assert f"it answered {status}" in raised.value.what
    assert str(received.port) not in raised.value.render()
    assert 1 == len(received.bodies)


def test_an_address_that_is_no_web_address_is_refused() -> None:
    """Such as a file of this machine."""
    with pytest.raises(OperationError) as raised:
        send(WEBHOOK, MESSAGE, lambda _: "file:///etc/passwd")
    assert "http://" in raised.value.what


def test_every_error_of_the_file_is_reported_at_its_line(tmp_path: Path) -> None:
    """Secrets in plain text are refused, and not repeated."""
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    (tmp_path / "alerts.yml").write_text(
        """\
behind_seconds: soon
channels:
  a: {webhook: "https://hooks.example.com/T0/hunter2"}
  b: {mail: ops, from: s@example.com, smtp: {host: h, password: hunter2}}
  c: {on: [failed, broken], webhook: "{{secrets/a/b}}"}
  d: {}
  e: {webhok: x, mail: a@b.c, from: d@e.f, smtp: {host: h, tls: maybe, port: 0}}
"""
    )
    with pytest.raises(GraphErrors) as raised:
        read_alerts(load_spec(tmp_path / "pipeline.yml"))
    found = [(each.location.line if each.location else 0, each.what) for each in raised.value.errors]
    assert [
        (1, "`behind_seconds`: it is not a number of seconds above 0."),
        (3, "`channels.a.webhook`: the address of a webhook is a secret: write `{{secrets/SCOPE/KEY}}`."),
        (4, "`channels.b.smtp.password`: it is a secret: write `{{secrets/SCOPE/KEY}}`."),
        (4, "`channels.b.mail`: `mail` is one mail address."),
        (5, "`channels.c.on`: `broken` is not one of failed, behind, losing_data, quarantined, schedule_missed."),
        (6, "`channels.d`: it has either `webhook` or `mail`."),
        (7, "`channels.e.webhok`: it is not a setting. Did you mean `webhook`?"),
        (7, "`channels.e.smtp.port`: it is not a port."),
        (7, "`channels.e.smtp.tls`: it is not one of starttls, tls, none."),
    ] == found
    assert "hunter2" not in raised.value.render()


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    """docs/alerts.md: two channels, and a limit; without a file there is no channel."""
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    assert AlertSettings() == read_alerts(load_spec(tmp_path / "pipeline.yml"))
    page = (Path(__file__).parents[4] / "docs" / "alerts.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "alerts.yml").write_text(block)
    found = read_alerts(load_spec(tmp_path / "pipeline.yml"))
    assert [("team", "{{secrets/alerts/team}}"), ("ops", "ops@example.com")] == [
        (each.name, each.target) for each in found.channels
    ]
    assert (600.0, 86_400.0) == (found.behind_seconds, found.losing_seconds)
    assert frozenset({AlertKind.FAILED}) == found.channels[1].kinds
    assert {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} == {each.value for each in AlertKind}
