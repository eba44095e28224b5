"""`sluice.local.yml`: its keys and faults; the map of paths; Python's files below mapped folders; secrets."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.declare.local_table import LocalTable
from framework.declare.pipeline_spec import load_spec
from framework.declare.spec_secrets import settings_of
from framework.declare.workspace.local_file import SecretSource
from framework.declare.workspace.path_map import path_map
from framework.declare.workspace.python_files import python_files
from framework.declare.workspace.secrets import Secrets
from framework.declare.workspace.surroundings import Surroundings, surrounded_by
from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.secrets.known_secrets import hide_known

SPEC = """
name: p
configuration: {day: monday, kept: "1"}
paths: {/Volumes/a/: of_spec, s3://b/: s3a://dev/b}
runtime: "14.3"
"""
LOCAL = """
paths: {/Volumes/a: here/a}
tables: {other.s.t: {format: csv, path: data/t.csv, header: true}}
functions: {main.default.f: stubs.f}
secrets: {shop: {token: {env: SHOP_TOKEN}, plain: text, key: {file: key.txt}}}
parameters: {day: 2026-01-01, flag: true}
runtime: 15.4
"""


def write(folder: Path, spec: str, local: str) -> Path:
    """A spec and a local file."""
    (folder / "pipeline.yml").write_text(spec, "utf-8")
    (folder / "sluice.local.yml").write_text(local, "utf-8")
    return folder / "pipeline.yml"


def test_each_key_of_the_local_file_is_read_and_comes_before_that_of_the_spec(tmp_path: Path) -> None:
    """Paths are relative to the file that has them."""
    spec = load_spec(write(tmp_path, SPEC, LOCAL))
    found = spec.workspace
    assert found.paths.entries == (("/Volumes/a", f"{tmp_path}/here/a"), ("s3://b/", "s3a://dev/b"))
    assert found.tables == (
        LocalTable(
            name="other.s.t", options=(("format", "csv"), ("path", f"{tmp_path}/data/t.csv"), ("header", "true"))
        ),
    )
    assert found.functions == (("main.default.f", "stubs.f"),)
    assert found.secrets == (
        SecretSource(scope="shop", key="token", kind="env", text="SHOP_TOKEN"),
        SecretSource(scope="shop", key="plain", kind="value", text="text"),
        SecretSource(scope="shop", key="key", kind="file", text=f"{tmp_path}/key.txt"),
    )
    assert "text='text'" not in repr(found)
    assert (found.runtime, spec.configuration) == ("15.4", (("day", "2026-01-01"), ("kept", "1"), ("flag", "true")))

    (tmp_path / "ci.yml").write_text("paths: {/Volumes/a/: ci}", "utf-8")
    assert load_spec(tmp_path / "pipeline.yml", tmp_path / "ci.yml").workspace.paths.entries[0][1] == f"{tmp_path}/ci"


def test_all_faults_of_the_local_file_are_reported_with_their_lines(tmp_path: Path) -> None:
    """An unknown key has the nearest one; those of the spec's own keys are reported too."""
    local = "pathes: {}\npaths: {raw/: here, /a: 1}\nsecrets:\n  shop: {token: {vault: x}}\nparameters: [a]\n"
    with pytest.raises(GraphErrors) as caught:
        load_spec(write(tmp_path, "name: p\nschemas: x\n", local))
    found = [(each.condition, each.location and each.location.line) for each in caught.value.errors]
    assert found == [
        ("PIPELINE_SPEC_UNEXPECTED_FIELD", 2),
        ("LOCAL_FILE_UNEXPECTED_FIELD", 1),
        ("PATH_PREFIX_INVALID", 2),
        ("PIPELINE_SPEC_FIELD_TYPE", 2),
        ("SECRET_ENTRY_INVALID", 4),
        ("PIPELINE_SPEC_FIELD_TYPE", 5),
    ]
    assert "Did you mean `paths`?" in caught.value.render()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/Volumes/m/raw/a", "/data/raw/a"),
        ("dbfs:/Volumes/m/raw", "/data/raw"),
        ("/Volumes/m/rawest", "/data/volumes/m/rawest"),
        ("/dbfs/Volumes/m/x", "/data/volumes/m/x"),
        ("file:///dbfs/tmp/x", "/data/dbfs/tmp/x"),
        ("/mnt/x//y", "/data/dbfs/mnt/x/y"),
        ("/srv/x", None),
        ("data/x", None),
        ("s3://b/x", "s3a://dev/all/b/x"),
        ("S3://c/x", "/data/c/x"),
        ("s3a://b/x", None),
    ],
)
def test_the_longest_prefix_of_any_spelling_wins(path: str, target: str | None) -> None:
    """A prefix ends at a slash; paths of this machine are not those of `dbfs:/`."""
    prefixes = {
        "dbfs:/": "/data/dbfs",
        "/Volumes": "/data/volumes/",
        "/Volumes/m/raw/": "/data/raw",
        "s3://": "s3a://dev/all",
    }
    assert path_map(prefixes, {"s3://c": "/data/c"}).target(path) == target


def around(folder: Path, **options: Any) -> Surroundings:
    """The surroundings of code in a folder."""
    options = {"spark": None, "root": str(folder), "root_path": None, "parameters": (), "secrets": Secrets(), **options}
    return Surroundings(run_notebook=lambda *_: None, **options)


def test_pythons_files_are_those_of_this_machine_under_the_names_of_the_code(tmp_path: Path) -> None:
    """`open`, `os`, `glob`, `pathlib` and `shutil`, also to write; errors name the path of the code."""
    (tmp_path / "raw" / "sub").mkdir(parents=True)
    (tmp_path / "raw" / "sub" / "a.txt").write_text("a", "utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "b.txt").write_text("b", "utf-8")
    paths = path_map(
        {"/Volumes/m/raw/": str(tmp_path / "raw"), "dbfs:/": str(tmp_path / "dbfs"), "/mnt/s3/": "s3a://b"}
    )
    here = around(tmp_path, paths=paths, root_path="src")
    original = os.stat
    with surrounded_by(here), python_files(here):
        found = glob.glob("/Volumes/m/raw/**/*.txt", recursive=True)  # noqa: PTH207 - as code of pipelines does
        assert found == ["/Volumes/m/raw/sub/a.txt"]
        assert [*os.walk("/Volumes/m/raw")] == [("/Volumes/m/raw", ["sub"], []), ("/Volumes/m/raw/sub", [], ["a.txt"])]
        Path("/dbfs/new/folder").mkdir(parents=True)
        shutil.copytree("/Volumes/m/raw", "/dbfs/new/copy")
        os.rename("/dbfs/new/copy/sub", "/dbfs/new/sub")  # noqa: PTH104 - as code of pipelines does
        shutil.rmtree("/dbfs/new/copy")
        with open("/dbfs/new/c.txt", "w", encoding="utf-8") as file:  # noqa: PTH123 - as code of pipelines does
            file.write("c")
        assert [each.path for each in sorted(os.scandir("/dbfs/new"), key=lambda entry: entry.name)] == [
            "/dbfs/new/c.txt", "/dbfs/new/folder", "/dbfs/new/sub",
        ]  # fmt: skip
        assert (Path("b.txt").read_text("utf-8"), Path("src/b.txt").read_text("utf-8")) == ("b", "b")
        for missing in ("/Volumes/m/raw/none", "/mnt/s3/none"):
            with pytest.raises(FileNotFoundError, match=missing):
                Path(missing).read_text("utf-8")
    assert os.stat is original
    assert (tmp_path / "dbfs" / "new" / "sub" / "a.txt").read_text("utf-8") == "a"
    assert not Path("b.txt").exists()


def test_a_secret_comes_from_a_variable_an_entry_or_the_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is read is hidden in all texts; what is nowhere names the entry to add."""
    (tmp_path / "key.txt").write_text("of-a-file\n", "utf-8")
    entries = {"env": "SHOP_TOKEN", "file": str(tmp_path / "key.txt"), "value": "of-an-entry"}
    sources = tuple(SecretSource(scope="shop", key=kind, kind=kind, text=text) for kind, text in entries.items())
    secrets = Secrets(sources=sources, folder=str(tmp_path))
    file = tmp_path / "secrets.yml"
    file.write_text("shop: {more: of-the-file}\nother: {a: b}\n", "utf-8")
    file.chmod(0o644)
    with pytest.raises(UserError) as caught:
        secrets.get("shop", "more")
    assert caught.value.condition == "SECRETS_EXPOSED"
    file.chmod(0o600)
    monkeypatch.setenv("SHOP_TOKEN", "of-a-variable")
    monkeypatch.setenv("SLUICE_SECRET_SHOP_API_KEY", "of-our-variable")
    keys = ("env", "file", "value", "more", "api-key")
    values = [secrets.get("shop", key) for key in keys]
    assert values == ["of-a-variable", "of-a-file", "of-an-entry", "of-the-file", "of-our-variable"]
    assert hide_known(" ".join(values)) == " ".join(["[REDACTED]"] * 5)
    assert (secrets.scopes(), secrets.keys("shop")) == (["other", "shop"], ["env", "file", "more", "value"])
    monkeypatch.delenv("SHOP_TOKEN")
    for key in ("env", "none"):
        with pytest.raises(UserError) as caught:
            secrets.get("shop", key)
        assert caught.value.condition == "SECRET_MISSING"
        assert f"SLUICE_SECRET_SHOP_{key.upper()}" in caught.value.render()


class Keyring:
    """The package `keyring`, with one secret; it is closed for a scope."""

    class errors:  # noqa: N801 - its name in the package
        """The errors of the package."""

        class KeyringError(Exception):
            """Any of them."""

    def get_password(self, service: str, name: str) -> str | None:
        """The secret."""
        if service == "sluice/closed":
            raise self.errors.KeyringError
        return "of-the-keyring" if (service, name) == ("sluice/shop", "token") else None


def test_a_keyring_is_asked_last_if_its_package_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only entries below `sluice/` are read."""
    monkeypatch.setitem(sys.modules, "keyring", None)  # as if it is not installed
    for key in ("token", "other"):
        with pytest.raises(UserError, match="SECRET_MISSING"):
            Secrets().get("shop", key)
    monkeypatch.setitem(sys.modules, "keyring", Keyring())
    assert Secrets().get("shop", "token") == "of-the-keyring"
    for scope in ("shop", "closed"):
        with pytest.raises(UserError, match="SECRET_MISSING"):
            Secrets().get(scope, "other")
    (tmp_path / "secrets.yml").write_text("shop: {token: of-the-file}\n", "utf-8")
    (tmp_path / "secrets.yml").chmod(0o600)
    assert Secrets(folder=str(tmp_path)).get("shop", "token") == "of-the-file"
    (tmp_path / "secrets.yml").write_text("shop: {token: ''}\n", "utf-8")
    assert Secrets(folder=str(tmp_path)).get("shop", "token") == ""


def test_settings_refer_to_secrets(tmp_path: Path) -> None:
    """Each one that is nowhere is an error with the line of the setting."""
    sources = (SecretSource(scope="shop", key="id", kind="value", text="an-id-of-the-shop"),)
    text = 'name: p\nconfiguration:\n  a: "id={{secrets/shop/id}};{{ secrets/shop/id }}"\n  b: plain\n'
    spec = load_spec(write(tmp_path, text + '  c: "{{secrets/shop/c}}"\nspark_conf: {d: "{{secrets/none/d}}"}\n', ""))
    secrets = Secrets(sources=sources)
    assert secrets.in_settings(spec.configuration[:2], spec.file) == (
        ("a", "id=an-id-of-the-shop;an-id-of-the-shop"),
        ("b", "plain"),
    )
    with pytest.raises(GraphErrors) as caught:
        settings_of(spec)
    assert [(each.condition, each.location and each.location.line) for each in caught.value.errors] == [
        ("SECRET_MISSING", 3), ("SECRET_MISSING", 5), ("SECRET_MISSING", 6),
    ]  # fmt: skip


def test_the_file_on_the_page_is_valid(tmp_path: Path) -> None:
    """The example of docs/databricks.md."""
    page = (Path(__file__).parents[3] / "docs" / "databricks.md").read_text("utf-8")
    example = page.split("```yaml\n")[2].partition("```")[0]
    found = load_spec(write(tmp_path, "name: p", example)).workspace
    assert found.paths.target("/Volumes/main/shop/raw/a") == f"{tmp_path}/data/raw/a"
    assert [(each.key, each.kind) for each in found.secrets] == [("token", "env"), ("certificate", "file")]
