"""`cloudFiles` without Spark: options, listings and globs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from framework.foundation.errors import SourceError, UserError
from framework.foundation.files.storage import LocalStorage
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.folder_times import keep_times
from framework.sources.cloud_files.files.folders import folder_columns
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    NothingKnown,
    decoded,
    encoded,
    has_new,
    present_files,
)
from framework.sources.cloud_files.files.offsets import log_folder, offset_text
from framework.sources.cloud_files.files.positions import unread_files
from framework.sources.cloud_files.settings.given_options import parse_options, reader_options
from framework.sources.cloud_files.settings.globs import glob_pattern
from framework.sources.cloud_files.settings.options import CloudFilesOptions, EvolutionMode, local_path
from framework.sources.cloud_files.source import CloudFilesSource
from framework.sources.kinds import is_drained
from framework.sources.port import NO_LAG, Lag, SourcePosition, SourceReference, SourceShape
from framework.sources.stored_lag import flow_lag


def options(path: object = "/in", *, has_schema: bool = False, **given: object) -> CloudFilesOptions:
    """Options with the format JSON, named as keyword arguments with `__` for dots."""
    texts = {name.replace("__", ".").lower(): str(value) for name, value in given.items()}
    return parse_options(str(path), {"cloudfiles.format": "json", **texts}, has_schema=has_schema, zone="UTC")


def names(found: list[FoundFile]) -> list[str]:
    """The names of files, in their order."""
    return [decoded(file.uri).rpartition("/")[2] for file in found]


def reference(root: Path, name: str) -> SourceReference:
    """A source of JSON files, with its folder."""
    folder = root / name
    folder.mkdir(exist_ok=True)
    mark = {"path": str(folder), "options": {"cloudfiles.format": "json"}, "has_schema": False}
    return SourceReference(kind="cloud_files", shape=SourceShape.FOLDER, location=str(folder), details=json.dumps(mark))


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
    csv = {"cloudFiles__format": "csv"}
    assert [options(has_schema=False, **csv, **more).flag("header") for more in ({}, {"header": "false"})] == [
        True,
        False,
    ]
    assert options(has_schema=True, cloudFiles__format="csv").reader == ()


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({"cloudFiles__fromat": "json"}, "CLOUD_FILES_OPTION_UNKNOWN"),
        ({"cloudFiles__format": "docx"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__maxFilesPerTrigger": "0"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__maxBytesPerTrigger": "ten"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__includeExistingFiles": "maybe"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"pathGlobFilter": "*.{json"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"pathGlobFilter": "[z-a]*"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"modifiedAfter": "yesterday"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"modifiedAfter": "2025-01-02", "modifiedBefore": "2025-01-01"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__schemaEvolutionMode": "sometimes"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "MOVE"}, "CLOUD_FILES_OPTION_MISSING"),
        ({"cloudFiles__format": "xml"}, "CLOUD_FILES_OPTION_MISSING"),
        ({"cloudFiles__cleanSource": "ARCHIVE"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "DELETE", **retained("7 days")}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "DELETE", **retained("a while")}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__cleanSource": "DELETE", **moved("/old")}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__cleanSource": "MOVE", **moved("file:/in/old")}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__cleanSource": "OFF", **moved("/old")}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__cleanSource.retentionDuration": "1 day"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"maxFileAge": "1d", "cloudFiles__useNotifications": "true"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__useStrictGlobber": "true"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__pathRewrites": "{}"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"skipRows": "1"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__format": "csv", "skipRows": "-1"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__format": "csv", "skipRows": "1", "mode": "FAILFAST"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"readerCaseSensitive": "maybe"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"parserCaseSensitive": "true"}, "CLOUD_FILES_OPTION_UNKNOWN"),
        ({"multiLin": "true"}, "CLOUD_FILES_OPTION_UNKNOWN"),
        ({"cloudFile.schemaHints": "id INT"}, "CLOUD_FILES_OPTION_UNKNOWN"),
        ({"maxFileAge": "1d"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__maxFileAge": "1d"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__format": "text", "rescuedDataColumn": "rest"}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"cloudFiles__format": "text", "cloudFiles__schemaHints": "value INT"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__maxFilesPerTrigger": "1", "maxFilesPerTrigger": "2"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__partitionColumns": "a,b,A"}, "CLOUD_FILES_OPTION_INVALID"),
        ({"cloudFiles__partitionColumns": "a,_rescued_data"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"mode": "dropMalformed"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"columnNameOfCorruptRecord": "bad"}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__cleanSource": "MOVE", **moved("/x/../in/old")}, "CLOUD_FILES_OPTION_CONFLICT"),
        ({"cloudFiles__cleanSource": "MOVE", **moved("file:///in")}, "CLOUD_FILES_OPTION_CONFLICT"),
    ],
)
def test_an_option_that_is_wrong_or_without_effect_is_refused(given: dict[str, str], condition: str) -> None:
    """The condition names the option; none is ignored."""
    with pytest.raises(UserError) as raised:
        options(has_schema=False, **given)
    assert raised.value.condition == condition


def test_an_unknown_option_names_the_one_that_is_meant() -> None:
    """As the user spells both; those of a format have no prefix, and those of `cloudFiles` have one."""
    for name, text in (
        ("cloudFiles.inferSchema", "Did you mean `cloudFiles.inferColumnTypes`?"),
        ("cloudFiles.SchemaHint", "no option `cloudFiles.SchemaHint`. Did you mean `cloudFiles.schemaHints`?"),
        ("cloudFiles.header", "An option of the format has no prefix: `header`."),
        ("MultiLin", "no option `MultiLin`. Did you mean `multiLine`?"),
        ("schemaHint", "Did you mean `cloudFiles.schemaHints`?"),
        ("cloudFile.schemaHints", "Did you mean `cloudFiles.schemaHints`?"),
        ("badRecordsPath", "can't be `true`: set `rescuedDataColumn`"),
    ):
        with pytest.raises(UserError) as raised:
            parse_options("/in", {"cloudFiles.format": "json", name: "true"}, has_schema=False, zone="UTC")
        assert text in raised.value.render(), name


def test_options_that_change_no_row_are_noted_with_the_reason() -> None:
    """Those of notifications, of other formats, without their prefix, and unknown ones if these are not validated."""
    given = {
        "cloudFiles.format": "json", "cloudFiles.useNotifications": "true", "cloudFiles.backfillInterval": "1 day",
        "cloudFiles.resourceTag.Owner": "me", "databricks.serviceCredential": "s", "Header": "true",
        "mergeSchema": "true", "columnNameOfCorruptRecord": "_corrupt_record",
        "fs.s3a.endpoint": "e", "inferColumnTypes": "true", "trigger.AvailableNow": "true",
        "schemaHints": "id INT",
    }  # fmt: skip
    found = parse_options("/in", given, has_schema=False, zone="UTC")
    why = dict(found.without_effect)
    assert set(why) == {*given} - {"cloudFiles.format", "fs.s3a.endpoint"}
    assert why["Header"] == "it is an option of csv, and the format is json"
    assert why["cloudFiles.backfillInterval"] == "each listing is complete, so that no file is missed"
    assert why["trigger.AvailableNow"] == "no format has it"
    assert why["inferColumnTypes"] == "its name is `cloudFiles.inferColumnTypes`"
    assert (found.infers_types, found.hints) == (False, "")
    assert {"usenotifications", "infercolumntypes"}.isdisjoint(dict(found.reader))
    lenient = {"cloudFiles.format": "json", "cloudFiles.validateOptions": "false", "multiLin": "true"}
    assert dict(parse_options("/in", lenient, has_schema=False, zone="UTC").without_effect) == {
        "multiLin": "it is unknown, and `cloudFiles.validateOptions` is false; did you mean `multiLine`?"
    }


def test_read_files_has_the_options_without_the_prefix() -> None:
    """In any case; all others go to the reader, and types are inferred unless the query says otherwise."""
    given = {"format": "csv", "SchemaHints": "id INT", "useNotifications": "true", "skipRows": "1", "sep": ";"}
    assert reader_options(given) == {
        "cloudFiles.inferColumnTypes": "true", "cloudFiles.format": "csv", "cloudFiles.SchemaHints": "id INT",
        "cloudFiles.useNotifications": "true", "skipRows": "1", "sep": ";",
    }  # fmt: skip
    assert reader_options({"INFERCOLUMNTYPES": "false"}) == {"cloudFiles.INFERCOLUMNTYPES": "false"}


def test_skipped_rows_and_letter_case_are_options_of_ours() -> None:
    """Spark's reader does not get them, and other skipped rows mean other columns."""
    csv = {"cloudFiles.format": "csv"}
    plain, skipping = (
        parse_options("/in", {**csv, **more}, has_schema=False, zone="UTC")
        for more in ({}, {"skipRows": "2", "parserCaseSensitive": "false"})
    )
    assert (skipping.skip_rows, skipping.is_case_sensitive, skipping.reader) == (2, False, plain.reader)
    assert (plain.skip_rows, plain.is_case_sensitive) == (0, True)
    assert not set(skipping.inference_keys) & set(plain.inference_keys)


def test_files_are_not_moved_into_their_folder_by_a_link(tmp_path: Path) -> None:
    """They would be read again."""
    (tmp_path / "in/old").mkdir(parents=True)
    (tmp_path / "archive").symlink_to(tmp_path / "in/old")
    with pytest.raises(UserError) as raised:
        options(tmp_path / "in", has_schema=False, cloudFiles__cleanSource="MOVE", **moved(f"{tmp_path}/archive"))
    assert raised.value.condition == "CLOUD_FILES_OPTION_CONFLICT"


def test_a_given_schema_is_not_evolved() -> None:
    """The modes that add columns contradict a schema, and so do hints."""
    for given in (
        {"cloudFiles__schemaEvolutionMode": "addNewColumns"},
        {"cloudFiles__schemaEvolutionMode": "addNewColumnsWithTypeWidening"},
        {"cloudFiles__schemaHints": "id INT"},
    ):
        with pytest.raises(UserError) as raised:
            options(has_schema=True, **given)
        assert raised.value.condition == "CLOUD_FILES_OPTION_CONFLICT"
    same = options(has_schema=True, mode="DROPMALFORMED", maxFilesPerTrigger=1, cloudFiles__maxFilesPerTrigger=1)
    assert (same.max_files, same.rescued) == (1, None)


def test_a_flow_that_begins_to_widen_types_has_the_columns_that_were_recorded_before() -> None:
    """The other way round it infers them again: a table without wide types could not take them."""
    before, after = options(), options(cloudFiles__schemaEvolutionMode="addnewcolumnswithtypewidening")
    assert (before.widens_types, after.widens_types, after.rescued) == (False, True, "_rescued_data")
    assert before.inference_keys[0] in after.inference_keys[1:]
    assert after.inference_keys[0] not in before.inference_keys


class Seen:
    """Files that were seen, in memory."""

    def __init__(self, *files: FoundFile) -> None:
        self.files = files

    def unseen(self, uris: Sequence[str]) -> list[str]:
        """URIs of other files."""
        return [uri for uri in uris if uri not in {file.uri for file in self.files}]

    def changed(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Other files."""
        return [file for file in files if file not in self.files]


def test_a_listing_has_new_files_by_time_then_name(tmp_path: Path) -> None:
    """Depth, hidden names, other alphabets, times, globs of names and of folders, and a single file."""
    for at, name in enumerate(("b.json", "a b%=ü.json", "deep/er/c.csv", "_no.json", ".no", "_d=1/x.json")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * at)
        os.utime(path, (100 + at, 100 + at))
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    found = list_new(None, options(tmp_path, modifiedAfter="1970-01-01T00:00:00"), NothingKnown())
    assert names(found) == ["b.json", "a b%=ü.json", "c.csv", "c.csv", "x.json"]
    assert [file.size for file in found] == [0, 1, 2, 2, 5]
    known = Seen(found[0])
    assert names(list_new(None, options(tmp_path, pathGlobFilter="*.{json,txt}"), known)) == ["a b%=ü.json", "x.json"]
    assert names(list_new(None, options(tmp_path / "{deep,_d=1}" / "*"), NothingKnown())) == ["c.csv", "x.json"]
    assert names(list_new(None, options(f"file://{tmp_path}/b.json"), NothingKnown())) == ["b.json"]
    times = options(tmp_path, modifiedAfter="1970-01-01T00:01:40Z", modifiedBefore="1970-01-01T00:01:42Z")
    assert names(list_new(None, times, NothingKnown())) == ["a b%=ü.json"]
    assert list_new(None, options(tmp_path / "no*"), NothingKnown()) == []
    assert has_new(str(tmp_path), options(tmp_path, pathGlobFilter="*.json"), Seen(*found[:2]))
    assert not has_new(str(tmp_path), options(tmp_path), Seen(*found))
    (tmp_path / "\udcff.json").touch()
    for folder, condition in ((tmp_path / "none", "FOLDER_MISSING"), (tmp_path, "NAME_UNREADABLE")):
        with pytest.raises(SourceError) as raised:
            list_new(None, options(folder), NothingKnown())
        assert raised.value.condition == f"CLOUD_FILES_{condition}"


def test_an_overwritten_file_is_new_only_if_that_is_allowed(tmp_path: Path) -> None:
    """It has another size or another time."""
    (tmp_path / "a.json").write_text("1")
    allowed = options(tmp_path, cloudFiles__allowOverwrites="true")
    (first,) = list_new(None, allowed, NothingKnown())
    assert list_new(None, allowed, Seen(first)) == []
    (tmp_path / "a.json").write_text("12")
    assert names(list_new(None, allowed, Seen(first))) == ["a.json"]
    assert list_new(None, options(tmp_path), Seen(first)) == []


def test_a_batch_has_the_present_content_of_each_file_once(tmp_path: Path) -> None:
    """Of a file that was replaced and put back, and of one that was replaced; files that are gone are named."""
    for name in ("back", "replaced", "gone"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    first = list_new(None, options(tmp_path), NothingKnown())
    other = replace(first[0], modified_ms=7)
    (tmp_path / "gone").unlink()
    (tmp_path / "replaced").write_text("replaced later")
    listed = [*first, other, first[0]]
    present, gone = present_files(listed, overwrites=True)
    assert (names(present), gone) == (["back"], [first[1].uri])
    present, _ = present_files(listed, overwrites=False)
    assert [(file.uri, file.size) for file in present] == [(first[0].uri, 4), (first[2].uri, 14)]


def test_names_survive_their_encoding() -> None:
    """Spaces, percent signs, tabs, and letters of any alphabet."""
    for name in ("/in/a b.json", "/in/100%.json", "/in/x=1/ж\t\n+&;.json", "/in/%20.json"):
        assert decoded(encoded(name)) == f"file:{name}"
        assert set(encoded(name)) & set(" \t\n") == set()
    assert (local_path("hdfs://x/y"), local_path("file:///x"), local_path("/x")) == (None, "/x", "/x")
    assert glob_pattern("a[0-9]?{b,c*}").fullmatch("a1_cd")


def test_a_glob_with_folders_in_braces_names_them_and_each_file_is_found_once(tmp_path: Path) -> None:
    """As in Hadoop; folders within each other have the same files. Pipes are no files."""
    for name in ("a/b/1.json", "a/2.json", "c/d/3.json", "c/4.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    os.mkfifo(tmp_path / "c" / "pipe")

    def found(path: str) -> list[str]:
        return sorted(names(list_new(None, options(tmp_path / path), NothingKnown())))

    assert found("{a/b,c}") == ["1.json", "3.json", "4.json"]
    assert found("{a,a/{b,x}}") == ["1.json", "2.json"]
    assert found("{a,c}/{b,d}/*") == ["1.json", "3.json"]
    assert found("{c/d,none/x}") == ["3.json"]


def test_a_change_shows_in_every_folder_that_is_listed(tmp_path: Path) -> None:
    """Folders such as `_date=1` have files too, and a URI may be encoded."""
    storage, source = LocalStorage(str(tmp_path)), CloudFilesSource()
    folder = tmp_path / "in put"
    (folder / "_date=1").mkdir(parents=True)
    (folder / "_hidden").mkdir()
    mark = {"path": folder.as_uri(), "options": {"cloudfiles.format": "text"}, "has_schema": True}
    reference = SourceReference(
        kind="cloud_files", shape=SourceShape.FOLDER, location=folder.as_uri(), details=json.dumps(mark)
    )
    before = source.change_token(storage, reference, None)
    os.utime(folder / "_hidden", (1, 1))
    assert source.change_token(storage, reference, before) == before
    os.utime(folder / "_date=1", (1, 1))
    assert source.change_token(storage, reference, before) != before


def test_a_folder_with_many_known_files_is_not_listed_to_learn_that_it_has_changed(tmp_path: Path) -> None:
    """Its time says so; while it is the same, the names are compared: the time may be that of an earlier change."""
    storage, checkpoint, folder = LocalStorage(str(tmp_path)), str(tmp_path / "checkpoint"), tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "1.json").write_text("1")
    log, times = FileLog(storage, f"{log_folder(checkpoint, 0)}/files").load(), dict[str, int]()
    log.begin([])
    log.append(list_new(None, options(folder), log, times))
    assert set(times) == {str(folder), str(folder / "deep")}
    os.utime(folder / "deep", ns=(1, times[str(folder / "deep")]))
    keep_times(storage, log_folder(checkpoint, 0), times)
    position = SourcePosition(
        storage=storage, checkpoint=checkpoint, sources=(reference(tmp_path, "in"),), source_count=1,
        offsets=(offset_text(1, 0),),
    )  # fmt: skip
    source = CloudFilesSource()
    assert source.is_drained(position) is True
    (folder / "deep" / "2.json").write_text("2")
    assert source.is_drained(position) is None
    os.utime(folder / "deep", ns=(1, times[str(folder / "deep")]))
    assert source.is_drained(position) is False
    shutil.rmtree(folder / "deep")
    assert source.is_drained(position) is None
    for damaged in ("", "{", "null", "[1]"):
        storage.write_text(f"{log_folder(checkpoint, 0)}/listed.json", damaged)
        assert source.is_drained(position) is True


def test_what_is_hidden_or_not_selected_can_not_stop_a_listing(tmp_path: Path) -> None:
    """A hidden link that leads to itself, and a folder whose name is no text but which has no selected file."""
    (tmp_path / ".loop").symlink_to(tmp_path / ".loop")
    (tmp_path / "1.json").write_text("1")
    odd = os.fsencode(tmp_path) + b"/bad\xff"
    Path(os.fsdecode(odd)).mkdir()
    (Path(os.fsdecode(odd)) / "_hidden.json").write_text("1")
    assert names(list_new(None, options(tmp_path), NothingKnown())) == ["1.json"]
    (Path(os.fsdecode(odd)) / "2.json").write_text("1")
    with pytest.raises(SourceError) as raised:
        list_new(None, options(tmp_path), NothingKnown())
    assert raised.value.condition == "CLOUD_FILES_NAME_UNREADABLE"


def test_positions_of_sources_are_theirs_in_any_query(tmp_path: Path) -> None:
    """A view that is read twice is one source with two offsets; files that no listing has found yet are unread."""
    storage, checkpoint = LocalStorage(str(tmp_path)), str(tmp_path / "checkpoint")
    a, b = references = [reference(tmp_path, name) for name in ("a", "b")]
    for number, each in enumerate(references):
        Path(str(each.location), "1.json").write_text("1")
        log = FileLog(storage, f"{log_folder(checkpoint, number)}/files").load()
        log.begin([])
        log.append(list_new(None, options(each.location), log))
    position = SourcePosition(
        storage=storage, checkpoint=checkpoint, sources=(a, a, b), source_count=3,
        offsets=(offset_text(1, 0), offset_text(1, 0), offset_text(1, 1)),
    )  # fmt: skip
    source = CloudFilesSource()
    assert (source.is_drained(position), source.gaps(position)) == (True, ())
    (tmp_path / "b" / "2.json").write_text("22")
    assert (source.is_drained(position), source.lag(position, now=0.0).bytes) == (False, 2)
    assert unread_files(position, 0) == []
    assert names(unread_files(position, 1) or []) == ["2.json"]
    lost = replace(position, offsets=(offset_text(1, 0), offset_text(1, 0), offset_text(9, 1)))
    assert [(gap.condition, gap.location) for gap in source.gaps(lost)] == [
        ("CLOUD_FILES_POSITION_LOST", str(tmp_path / "b"))
    ]


def test_a_union_with_a_folder_that_never_had_a_file_is_idle(tmp_path: Path) -> None:
    """Its lag is that of the other folders; the first file in the empty one is unread."""
    storage, checkpoint = LocalStorage(str(tmp_path)), str(tmp_path / "checkpoint")
    sources = tuple(reference(tmp_path, name) for name in ("full", "empty"))
    (tmp_path / "full" / "1.json").write_text("1")
    for number, each in enumerate(sources):
        log = FileLog(storage, f"{log_folder(checkpoint, number)}/files").load()
        log.begin([])
        log.append(list_new(None, options(each.location), log))

    def state(offsets: str) -> tuple[bool | None, Lag]:
        storage.write_text(f"{checkpoint}/offsets/0", f"v1\n{{}}\n{offsets}")
        storage.write_text(f"{checkpoint}/commits/0", "v1\n{}")
        return is_drained(storage, checkpoint, sources), flow_lag(storage, checkpoint, sources, now=0.0)

    assert state(f"{offset_text(1, 0)}\n-") == (True, NO_LAG)
    (tmp_path / "empty" / "1.json").write_text("22")
    assert state(f"{offset_text(1, 0)}\n-") == (False, Lag(records=None, bytes=2, seconds=0.0))
    # A query that had two sources, of which the code has one left.
    assert is_drained(storage, checkpoint, sources[:1]) is False


def test_a_snapshot_beside_a_folder_is_not_finished_before_it_has_begun(tmp_path: Path) -> None:
    """Spark has no offset for it yet."""
    storage, checkpoint = LocalStorage(str(tmp_path)), str(tmp_path / "checkpoint")
    folder = reference(tmp_path, "in")
    (tmp_path / "in" / "1.json").write_text("1")
    log = FileLog(storage, f"{log_folder(checkpoint, 0)}/files").load()
    log.begin([])
    log.append(list_new(None, options(folder.location), log))
    storage.write_text(f"{checkpoint}/commits/0", "v1\n{}")
    snapshot = SourceReference(kind="database_snapshot", shape=SourceShape.TABLE)
    planned = [json.dumps({"bounds": [], "chunks": 1, "finished": finished}) for finished in (False, True)]
    for offset, expected in zip(("-", *planned), (False, False, True), strict=True):
        storage.write_text(f"{checkpoint}/offsets/0", f"v1\n{{}}\n{offset_text(1, 0)}\n{offset}")
        found = is_drained(storage, checkpoint, (folder, snapshot))
        assert found is expected, offset


def test_folders_that_differ_in_case_are_one_column() -> None:
    """Names of columns have no case."""
    files = [FoundFile(uri=f"file:/in/{each}=1/x.json", size=1, modified_ms=1) for each in ("date", "Date")]
    assert folder_columns(options(), files).fieldNames() == ["date"]
