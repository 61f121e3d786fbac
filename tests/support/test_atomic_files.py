"""Files are written whole or not at all, and file names are escaped for the terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import visible, whole, write_whole


def test_the_temporary_file_has_an_unpredictable_name(tmp_path: Path) -> None:
    """In a shared folder another user could place a link under a predictable name and redirect the bytes."""
    names = set()
    for _ in range(2):
        with whole(tmp_path / "a.json") as partial:
            assert partial.parent == tmp_path
            assert partial.suffix == ".json"
            names.add(partial.name)
            partial.write_text("{}")
    assert len(names) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "a.json").symlink_to(tmp_path / "victim")
    write_whole(tmp_path / "a.json", "{}")
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "a.json").is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.json", "{}")
    (tmp_path / "b.json").touch()
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "b.json").stat().st_mode


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole(tmp_path / "a.json"):
        raise ZeroDivisionError
    with pytest.raises(GpuschedError, match="cannot be written"), whole(tmp_path / "absent" / "a.json"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_control_characters_of_names_are_escaped() -> None:
    assert visible("Ä 名.json") == "Ä 名.json"
    assert visible("a\x1b[31m\n\u202eb\udcff\u200b") == r"a\x1b[31m\n\u202eb\udcff\u200b"
