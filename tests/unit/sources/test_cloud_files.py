"""`cloudFiles` without Spark: options, listings, globs and the list of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.foundation.errors import OperationError, UserError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.storage import LocalStorage
from framework.sources.cloud_files.file_log import FileLog
from framework.sources.cloud_files.listing import FoundFile, decoded, encoded, glob_pattern, list_new, local_path
from framework.sources.cloud_files.options import CloudFilesOptions, EvolutionMode, parse_options


def options(path: object = "/in", *, has_schema: bool = False, **given: object) -> CloudFilesOptions:
    """Options with the format JSON, named as keyword arguments with `__` for dots."""
    texts = {name.replace("__", ".").lower(): str(value) for name, value in given.items()}
    return parse_options(str(path), {"cloudfiles.format": "json", **texts}, has_schema=has_schema, zone="UTC")


def names(found: list[FoundFile]) -> list[str]:
    """The names of files, in their order."""
    return [decoded(file.uri).rpartition("/")[2] for file in found]


def retained(text: str) -> dict[str, str]:
    """The option of the retention."""
    return {"cloudFiles__cleanSource.retentionDuration": text}


def moved(text: str) -> dict[str, str]:
    """The option of the destination."""
    return {"cloudFiles__cleanSource.moveDestination": text}


def test_options_have_the_documented_defaults() -> None:
    """Without a schema columns are added and data is rescued; with one they are not."""
    without, given = options(), options(has_schema=True)
    assert (without.mode, without.rescued, without.max_files, without.include_existing) == (
        EvolutionMode.ADD, "_rescued_data", 1000, True,
    )  # fmt: skip
    assert (given.mode, given.rescued, given.partition_columns) == (EvolutionMode.NONE, None, ())
    assert options(cloudFiles__maxBytesPerTrigger="10g").max_bytes == 10 * 2**30
    cleaned = {"cloudFiles__cleanSource": "move", **moved("/old/"), **retained("1 week 2 days")}
    found = options(has_schema=False, **cleaned)
    assert (found.retention_seconds, found.move_destination) == (9 * 86_400, "/old")
    assert options(cloudFiles__cleanSource="DELETE").retention_seconds == 30 * 86_400
    assert options(modifiedAfter="1970-01-01T00:01:00").modified_after == 60
    assert options(modifiedBefore="1970-01-01 00:01:00.000000 UTC+0").modified_before == 60
    assert options(multiLine="true", cloudFiles__maxFilesPerTrigger=3).reader == (("multiline", "true"),)


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({"cloudFiles__fromat": "json"}, "CLOUD_FILES_OPTION_UNKNOWN"),
        ({"cloudFiles__format": "docx"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__maxFilesPerTrigger": "0"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__maxBytesPerTrigger": "ten"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__includeExistingFiles": "maybe"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"modifiedAfter": "yesterday"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"modifiedAfter": "2025-01-02", "modifiedBefore": "2025-01-01"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__schemaEvolutionMode": "addNewColumnsWithTypeWidening"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__schemaEvolutionMode": "sometimes"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "MOVE"}, "CLOUD_FILES_OPTION_MISSING"),
        ({"cloudFiles__cleanSource": "ARCHIVE"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "DELETE", **retained("7 days")}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "DELETE", **retained("a while")}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "DELETE", **moved("/old")}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__cleanSource": "MOVE", **moved("file:/in/old")}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__cleanSource": "OFF", **moved("/old")}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__cleanSource.retentionDuration": "1 day"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__useNotifications": "true"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"maxFileAge": "1d"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__format": "text", "rescuedDataColumn": "rest"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
    ],
)
def test_an_option_that_is_wrong_or_without_effect_is_refused(given: dict[str, str], condition: str) -> None:
    """The condition names the option; none is ignored."""
    with pytest.raises(UserError) as raised:
        options(has_schema=False, **given)
    assert raised.value.condition == condition


def test_a_given_schema_is_not_evolved() -> None:
    """`addNewColumns` contradicts a schema."""
    with pytest.raises(UserError) as raised:
        options(has_schema=True, cloudFiles__schemaEvolutionMode="addNewColumns")
    assert raised.value.condition == "CLOUD_FILES_OPTION_CONFLICT"


def test_a_listing_has_new_files_by_time_then_name(tmp_path: Path) -> None:
    """Depth, hidden names, other alphabets, times, globs of names and of folders, and a single file."""
    for at, name in enumerate(("b.json", "a b%=ü.json", "deep/er/c.csv", "_no.json", ".no", "_d=1/x.json")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * at)
        os.utime(path, (100 + at, 100 + at))
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    found = list_new(None, options(tmp_path, modifiedAfter="1970-01-01T00:00:00"), frozenset())
    assert names(found) == ["b.json", "a b%=ü.json", "c.csv", "c.csv", "x.json"]
    assert [file.size for file in found] == [0, 1, 2, 2, 5]
    known = {found[0].uri}
    assert names(list_new(None, options(tmp_path, pathGlobFilter="*.{json,txt}"), known)) == ["a b%=ü.json", "x.json"]
    assert names(list_new(None, options(tmp_path / "{deep,_d=1}" / "*"), frozenset())) == ["c.csv", "x.json"]
    assert names(list_new(None, options(f"file://{tmp_path}/b.json"), frozenset())) == ["b.json"]
    times = options(tmp_path, modifiedAfter="1970-01-01T00:01:40Z", modifiedBefore="1970-01-01T00:01:42Z")
    assert names(list_new(None, times, frozenset())) == ["a b%=ü.json"]
    assert list_new(None, options(tmp_path / "no*"), frozenset()) == []
    (tmp_path / "\udcff.json").touch()
    for folder, condition in ((tmp_path / "none", "FOLDER_MISSING"), (tmp_path, "NAME_UNREADABLE")):
        with pytest.raises(UserError) as raised:
            list_new(None, options(folder), frozenset())
        assert raised.value.condition == f"CLOUD_FILES_{condition}"


def test_an_overwritten_file_is_new_only_if_that_is_allowed(tmp_path: Path) -> None:
    """It has another size or another time."""
    (tmp_path / "a.json").write_text("1")
    allowed = options(tmp_path, cloudFiles__allowOverwrites="true")
    (first,) = list_new(None, allowed, frozenset())
    assert list_new(None, allowed, {first.uri}, stamped=[first]) == []
    (tmp_path / "a.json").write_text("12")
    assert names(list_new(None, allowed, {first.uri}, stamped=[first])) == ["a.json"]
    assert list_new(None, options(tmp_path), {first.uri}) == []


def test_names_survive_their_encoding() -> None:
    """Spaces, percent signs, tabs, and letters of any alphabet."""
    for name in ("/in/a b.json", "/in/100%.json", "/in/x=1/ж\t\n+&;.json", "/in/%20.json"):
        assert decoded(encoded(name)) == f"file:{name}"
        assert set(encoded(name)) & set(" \t\n") == set()
    assert (local_path("hdfs://x/y"), local_path("file:///x"), local_path("/x")) == (None, "/x", "/x")
    assert glob_pattern("a[0-9]?{b,c*}").fullmatch("a1_cd")


def files(*names_: str) -> list[FoundFile]:
    """Files of these names."""
    return [FoundFile(uri=f"file:/{name}", size=1, modified_ms=2) for name in names_]


def test_the_list_of_files_only_grows_and_survives_every_stop(tmp_path: Path) -> None:
    """Numbers stay, also while segments are merged; passed over files are known and not read."""
    storage = LocalStorage(str(tmp_path))

    def log() -> FileLog:
        return FileLog(storage, str(tmp_path / "log")).load()

    def stop() -> None:
        raise KeyboardInterrupt

    first = log()
    assert first.is_new
    for point in ("cloud_files.before_start", None):
        if point:
            arm(point, action=stop)
            with pytest.raises(KeyboardInterrupt):
                log().begin(files("old", "older"))
            disarm()
            assert log().is_new
        else:
            log().begin(files("old"))
    expected = ["old"]
    for number in range(140):
        if number == 100:
            arm("cloud_files.after_merge", nth=1, action=stop)
        try:
            log().append(files(f"a{number}", f"b{number}"))
        except KeyboardInterrupt:
            disarm()
        expected += [f"a{number}", f"b{number}"]
    disarm()
    final = log()
    assert [file.uri for file in final.between(0, final.last)] == [f"file:/{name}" for name in expected]
    assert (final.first_unread, final.last, len(final.uris)) == (2, 281, 281)
    assert len(list((tmp_path / "log").iterdir())) < 80
    with pytest.raises(OperationError) as raised:
        final.between(0, 282)
    assert raised.value.condition == "CLOUD_FILES_POSITION_LOST"
