"""`sluice serve`, `sluice open` and `sluice token` as a user types them, and as docs/server.md shows them."""

from __future__ import annotations

import json
import re
import shlex
import signal
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.served_place import Place, ask
from tests.support.server_world import FIRST


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a recorded pipeline."""
    return Place(tmp_path)


def ended(process: subprocess.Popen[str], sent: signal.Signals) -> tuple[int, str]:
    """The exit code and the messages of a server that is told to end."""
    process.send_signal(sent)
    _, errors = process.communicate(timeout=20)
    return process.returncode, errors


def test_a_server_is_opened_by_a_code_and_ends_when_it_is_told_to(place: Place) -> None:
    """The printed address signs in once, `sluice open` gives another one, and an open stream does not keep it alive."""
    with place.serving() as (process, address):
        url, _, code = address.partition("/#c=")
        own = {"Origin": url, "X-Sluice-Request": "1", "Content-Type": "application/json"}
        me, headers = ask(f"{url}/api/sluice/v1/session", own, {"code": code})
        cookie = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
        assert "manage" == me["role"]
        (shop,) = ask(f"{url}/api/sluice/v1/pipelines", cookie)[0]["pipelines"]
        assert ("shop", "COMPLETED") == (shop["name"], shop["last"]["state"])
        again = place.run("open").stdout.strip()
        assert url == again.partition("/#c=")[0]
        assert code != again.partition("/#c=")[2]
        stream = urlopen(Request(f"{url}/api/sluice/v1/stream", headers=cookie))  # noqa: S310 - our own server
        assert b"event: snapshot\n" == [stream.readline(), stream.readline()][1]
        code_, errors = ended(process, signal.SIGTERM)
        stream.close()
    assert (143, True) == (code_, "1 pipeline below " in errors)
    assert "[SERVE_NOT_RUNNING]" in place.run("open").stderr


def test_tokens_are_made_listed_and_revoked(place: Place) -> None:
    """The text is printed once; a wrong name, role or time makes none."""
    text = place.run("token", "create", "nightly", "--role", "view", "--pipelines", "shop", "--expires", "90d").stdout
    assert re.fullmatch(r"slk_[0-9a-f]{12}_[\w-]{43}\n", text)
    (row,) = json.loads(place.run("token", "list", "-o", "json").stdout)
    assert ("nightly", "view", "shop", None) == (row["name"], row["role"], row["pipelines"], row["last_used_at"])
    assert "[SERVE_TOKEN_EXISTS]" in place.run("token", "create", "nightly", "--role", "view").stderr
    wrong: Sequence[tuple[str, ...]] = (("x", "--role", "root"), ("x",), ("x", "--role", "view", "--expires", "0d"))
    assert [2, 2, 2] == [place.run("token", "create", *each).returncode for each in wrong]
    for_none = place.run("token", "create", "x", "--role", "view", "--pipelines", "")
    assert (2, True) == (for_none.returncode, "[SERVE_TOKEN_INVALID]" in for_none.stderr)
    with place.serving() as (_, address):
        url, bearer = address.partition("/#c=")[0], {"Authorization": f"Bearer {text.strip()}"}
        board = ask(f"{url}/api/sluice/v1/pipelines/shop/updates/{FIRST}/board", bearer)[0]
        assert "COMPLETED" == board["state"]
        assert 0 == place.run("token", "revoke", "nightly").returncode
        with pytest.raises(Exception, match="401"):
            ask(f"{url}/api/sluice/v1/pipelines", bearer)


def test_an_unprotected_address_is_refused_before_anything_listens(place: Place) -> None:
    """The way out is in the text."""
    done = place.run("serve", "--address", "0.0.0.0", "--port", "0")  # noqa: S104 - it is refused
    assert (2, "") == (done.returncode, done.stdout)
    assert "[SERVE_UNPROTECTED]" in done.stderr
    assert 2 == place.run("serve", "--tls-cert", "shop/pipeline.yml").returncode


def test_the_commands_of_the_page_can_be_given(place: Place) -> None:
    """docs/server.md serves the folder, and creates and revokes a token; HTTPS needs the certificate."""
    page = (Path(__file__).parents[3] / "docs" / "server.md").read_text("utf-8")
    (serve, create, _, outside) = re.findall(r"```shell\n(.*?)```", page, re.DOTALL)
    assert "sluice serve ~/pipelines" == serve.strip()
    arguments = shlex.split(create)
    assert ("sluice", 0) == (arguments[0], place.run(*arguments[1:]).returncode)
    assert ["sluice token revoke nightly"] == re.findall(r"`(sluice token revoke \w+)`", page)
    assert 0 == place.run("token", "revoke", "nightly").returncode
    (place.folder / "work" / "pipelines").mkdir()
    done = place.run(*shlex.split(outside.replace("~/", ""))[1:])
    assert (2, True) == (done.returncode, "cert.pem" in done.stderr)


def test_https_is_served_with_a_secure_cookie(place: Place) -> None:
    """With the given certificate."""
    certificate, key = place.folder / "cert.pem", place.folder / "key.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out",
            str(certificate), *subject)  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    with place.serving("--tls-cert", str(certificate), "--tls-key", str(key)) as (_, address):
        url, _, code = address.partition("/#c=")
        assert url.startswith("https://127.0.0.1:")
        own = {"Origin": url, "X-Sluice-Request": "1", "Content-Type": "application/json"}
        context = ssl.create_default_context(cafile=str(certificate))
        _, headers = ask(f"{url}/api/sluice/v1/session", own, {"code": code}, context)
        assert "; Secure" in headers["Set-Cookie"]
