"""Conformance suite for every implementation of the storage port."""

from __future__ import annotations

import pytest

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage


class StorageConformance:
    """Test suite to subclass, with a fixture `storage` whose root does not exist yet."""

    def test_reading_what_is_absent_answers_so_and_creates_nothing(self, storage: Storage) -> None:
        """Reads of a missing path return None, [] and False, and create nothing."""
        path = storage.path("a", "b.json")
        answers = (
            storage.read_text(path),
            storage.list_names(path),
            storage.list_files(storage.path("a")),
            storage.exists(path),
            storage.exists(storage.root),
        )
        assert answers == (None, [], [], False, False)

    def test_what_is_written_is_read(self, storage: Storage) -> None:
        """A written text, of any characters, is read unchanged."""
        storage.write_text(storage.path("a", "b.json"), "Grüße, 世界 \U0001f680\nsecond line")
        assert storage.read_text(storage.path("a", "b.json")) == "Grüße, 世界 \U0001f680\nsecond line"

    def test_writing_again_replaces_and_leaves_no_other_file(self, storage: Storage) -> None:
        """The second text replaces the first, and no temporary file remains."""
        storage.write_text(storage.path("a", "b"), "first, which is longer")
        storage.write_text(storage.path("a", "b"), "second")
        assert storage.read_text(storage.path("a", "b")) == "second"
        assert storage.list_names(storage.path("a")) == ["b"]

    def test_only_the_first_creates(self, storage: Storage) -> None:
        """`create_text` returns False and changes nothing if the file exists."""
        path = storage.path("lease")
        assert [storage.create_text(path, "one"), storage.create_text(path, "two")] == [True, False]
        assert storage.read_text(path) == "one"
        assert storage.list_names(storage.root) == ["lease"]

    def test_appended_lines_follow_each_other(self, storage: Storage) -> None:
        """Lines are read in the order of their append."""
        path = storage.path("events", "u.jsonl")
        storage.append_text(path, "one\n")
        storage.append_text(path, "two\nthree\n")
        assert storage.read_text(path) == "one\ntwo\nthree\n"

    def test_the_end_of_a_file_is_read_from_a_position_in_bytes(self, storage: Storage) -> None:
        """A position may be within a character; behind the last byte there is nothing, and so in an absent file."""
        path = storage.path("events", "u.jsonl")
        assert storage.read_after(path, 0) == b""
        storage.append_text(path, "one \u00e9\n")
        assert [storage.read_after(path, position) for position in (0, 5, 7, 8)] == [
            b"one \xc3\xa9\n",
            b"\xa9\n",
            b"",
            b"",
        ]

    def test_half_a_line_is_not_appended(self, storage: Storage) -> None:
        """A text without a newline at its end is refused."""
        with pytest.raises(ValueError, match="whole lines"):
            storage.append_text(storage.path("u.jsonl"), "half")

    def test_folders_list_files_and_folders_in_order(self, storage: Storage) -> None:
        """Names are sorted and include folders; files have their size in bytes."""
        storage.write_text(storage.path("d", "b"), "öö")
        storage.write_text(storage.path("d", "a"), "1")
        storage.write_text(storage.path("d", "c", "deep"), "1")
        assert storage.list_names(storage.path("d")) == ["a", "b", "c"]
        assert [(file.name, file.size) for file in storage.list_files(storage.path("d"))] == [("a", 1), ("b", 4)]
        assert all(file.modified_at > 1_600_000_000 for file in storage.list_files(storage.path("d")))

    def test_the_token_of_a_folder_changes_with_its_names(self, storage: Storage) -> None:
        """The token is "" for a missing folder, stable without changes, and different after a new file."""
        folder = storage.path("d")
        tokens = [storage.folder_token(folder)]
        storage.write_text(storage.path("d", "a"), "1")
        tokens += [storage.folder_token(folder), storage.folder_token(folder)]
        while storage.folder_token(folder) == tokens[-1]:  # file system times have a limited resolution
            storage.write_text(storage.path("d", f"b{len(storage.list_names(folder))}"), "1")
        assert tokens[0] == ""
        assert tokens[1] == tokens[2] != ""

    def test_deleting_takes_files_folders_and_what_is_absent(self, storage: Storage) -> None:
        """A folder is deleted with its contents; deleting it again is not an error."""
        storage.write_text(storage.path("d", "c", "deep"), "1")
        storage.write_text(storage.path("e"), "1")
        for path in (storage.path("d"), storage.path("d"), storage.path("e")):
            storage.delete_tree(path)
        assert storage.list_names(storage.root) == []

    def test_a_copied_file_has_the_same_content(self, storage: Storage) -> None:
        """A copy creates the folders of its target, replaces a file there, and leaves the source as it is."""
        storage.write_text(storage.path("d", "file"), "new, \u00fc\x00")
        storage.write_text(storage.path("taken"), "an older and longer text")
        for target in (storage.path("deep", "er"), storage.path("taken")):
            storage.copy_file(storage.path("d", "file"), target)
            assert storage.read_text(target) == "new, \u00fc\x00"
        assert storage.read_text(storage.path("d", "file")) == "new, \u00fc\x00"

    def test_a_folder_moves_to_a_free_place_only(self, storage: Storage) -> None:
        """A rename moves a folder, and is refused if the new path exists."""
        storage.write_text(storage.path("d", "file"), "1")
        storage.write_text(storage.path("taken", "other"), "2")
        storage.rename(storage.path("d"), storage.path("deep", "er"))
        assert storage.read_text(storage.path("deep", "er", "file")) == "1"
        with pytest.raises(OperationError, match="STORAGE_NOT_WRITABLE"):
            storage.rename(storage.path("deep", "er"), storage.path("taken"))
        assert storage.read_text(storage.path("taken", "other")) == "2"

    def test_a_relative_path_lies_below_the_root(self, storage: Storage) -> None:
        """`a/b` and `path("a", "b")` are the same file."""
        storage.write_text("a/b", "1")
        assert storage.read_text(storage.path("a", "b")) == "1"

    def test_the_check_leaves_an_empty_root(self, storage: Storage) -> None:
        """The check creates the root of a writable storage and leaves it empty."""
        storage.check_writable()
        assert (storage.exists(storage.root), storage.list_names(storage.root)) == (True, [])

    def test_a_root_below_a_file_is_refused_with_its_path(self, storage: Storage) -> None:
        """A write below a file raises STORAGE_NOT_WRITABLE with the path."""
        storage.write_text(storage.path("file"), "1")
        with pytest.raises(OperationError) as caught:
            storage.write_text(storage.path("file", "below"), "2")
        assert caught.value.condition == "STORAGE_NOT_WRITABLE"
        assert "file" in str(caught.value.fields["path"])
