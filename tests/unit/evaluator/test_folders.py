import os
import stat

from adaexplore_evaluator.folders import folder_bytes, remove_folder


def nested(top, depth):
    """Folders in folders, made step by step since the whole path is longer than a path may be."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("inner", dir_fd=here)
        below = os.open("inner", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_folder_without_rights_and_with_links_is_removed_and_what_links_name_stays(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    top = tmp_path / "private"
    (top / "shared" / "closed").mkdir(parents=True)
    (top / "shared" / "closed" / "file").write_text("x")
    (top / "link").symlink_to(tmp_path / "kept")
    os.mkfifo(top / "shared" / "pipe")
    (top / "shared" / "closed").chmod(0)
    (top / "shared").chmod(0)
    remove_folder(top)
    assert not top.exists()
    assert (tmp_path / "kept" / "file").read_text() == "x"
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) != 0


def test_a_folder_deeper_than_any_path_is_measured_and_removed(tmp_path):
    nested(tmp_path / "private", 3000)
    (tmp_path / "private" / "file").write_bytes(bytes(8192))
    assert folder_bytes(tmp_path / "private") == 8192
    remove_folder(tmp_path / "private")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_has_no_bytes_and_is_removed_already(tmp_path):
    assert folder_bytes(tmp_path / "none") == 0
    remove_folder(tmp_path / "none")
