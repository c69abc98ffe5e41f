"""Files that are links, pipes or leftovers: links stay, pipes are written to or refused, nothing is lost by a kill."""

import os

import numpy as np
import pytest

from thresher import InvalidInput
from thresher.files import read_file, write_file
from thresher.output import is_stream, place_of, write_text


def write_arrays(path):
    write_file(path, {"a": np.arange(3)}, {}, kind="checkpoint", version=1)


WRITERS = pytest.mark.parametrize("write", [write_arrays, lambda path: write_text(path, "new")])


@WRITERS
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, write, there):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    target, link = tmp_path / "far" / "a", tmp_path / "near" / "b"
    if there:
        target.write_text("old")
    link.symlink_to(os.path.join("..", "far", "a"))
    write(link)
    assert link.is_symlink()
    assert not target.is_symlink()
    assert target.read_bytes() not in (b"", b"old")
    assert os.listdir(tmp_path / "far") == ["a"]
    assert os.listdir(tmp_path / "near") == ["b"]


@WRITERS
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_never_replaced(tmp_path, write, linked):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = tmp_path / "link" if linked else pipe
    if linked:
        path.symlink_to(pipe)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InvalidInput, match=r"a device, a pipe or a socket, and no file\. Choose another place\.\Z"):
        write(path)
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == before


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InvalidInput, match="a link that leads to itself"):
        write_arrays(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_what_is_a_stream(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    found = {name: is_stream(tmp_path / name) for name in ("pipe", "file", "nothing", ".")}
    assert found == {"pipe": True, "file": False, "nothing": False, ".": False}
    assert place_of(tmp_path / "nothing") == tmp_path / "nothing"


def test_what_a_link_leads_to_is_read_back(tmp_path):
    (tmp_path / "b").symlink_to("a")
    write_arrays(tmp_path / "b")
    assert read_file(tmp_path / "a", kind="checkpoint", version=1).tensors["a"].tolist() == [0, 1, 2]
