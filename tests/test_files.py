"""Files: whole or not at all, and read with suspicion."""

import errno
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, MemoryRefused, files
from thresher.files import read_file, write_file

TENSORS = {"steps": np.arange(6.0).reshape(2, 3), "counts": np.arange(3)}
METADATA = {"words": 'with "checksum":"000" inside', "numbers": [1, 0.1, 1e-300]}


def write(path, tensors=TENSORS, metadata=METADATA, **options):
    write_file(path, tensors, metadata, **{"kind": "checkpoint", "version": 1, **options})


def read(path):
    return read_file(path, kind="checkpoint", version=1)


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "a.checkpoint")
    return tmp_path / "a.checkpoint"


def sealed(header, data=b""):
    """A file with this header and a checksum that fits, as an attacker would make it."""
    about = {"checksum": "0" * 64, "kind": "checkpoint", "version": 1, "metadata": {}}
    header = {"__metadata__": {"thresher": json.dumps(about, separators=(",", ":"))}, **header}
    text = json.dumps(header, separators=(",", ":")).encode()
    raw = len(text).to_bytes(8, "little") + text + data
    return raw.replace(b"0" * 64, files._checksum(raw).encode(), 1)


def test_what_is_written_is_read(path):
    found = read(path)
    assert found.metadata == METADATA
    assert set(found.tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert found.tensors[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found.tensors[name], tensor)


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    write(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_every_flipped_bit_is_noticed(path):
    raw = path.read_bytes()
    for bit in range(0, 8 * len(raw), 5):
        broken = bytearray(raw)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(InvalidInput, match=path.name):
            read(path)


def test_every_cut_is_noticed(path):
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(InvalidInput, match=path.name):
            read(path)
    path.write_bytes(raw + b"\0")
    with pytest.raises(InvalidInput, match="checksum does not fit"):
        read(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 2}, "newer thresher: version 2 of its layout, and this one reads 1. Upgrade"),
        ({"kind": "model"}, "not a checkpoint of thresher but a 'model'. Give a checkpoint"),
        ({"version": 0}, "its version is '0'"),
        ({"version": True}, "its version is 'True'"),
    ],
)
def test_other_versions_and_kinds_are_named(tmp_path, options, message):
    write(tmp_path / "a", **options)
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path / "a")


HOSTILE = {
    "10^15 rows": {"x": {"dtype": "F64", "shape": [10**15, 8], "data_offsets": [0, 64 * 10**15]}},
    "10^15 rows in no bytes": {"x": {"dtype": "F64", "shape": [10**15], "data_offsets": [0, 0]}},
    "sizes that overflow": {"x": {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 0]}},
    "negative": {"x": {"dtype": "F64", "shape": [-1], "data_offsets": [0, -8]}},
    "overlap": {"x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                "y": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}},
    "unknown type": {"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}},
    "no type": {"x": {"dtype": "F63", "shape": [2], "data_offsets": [0, 4]}},
    "no tensor": {"x": 3},
    "huge numbers": {"x": {"dtype": "U8", "shape": [10**30], "data_offsets": [0, 10**30]}},
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_sizes_that_lie_are_refused_before_anything_is_allocated(tmp_path, case):
    (tmp_path / "a").write_bytes(sealed(HOSTILE[case], b"\0" * 4))
    with pytest.raises(InvalidInput, match="its header does not describe its bytes"):
        read(tmp_path / "a")


def test_a_header_longer_than_the_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes((10**15).to_bytes(8, "little") + b"{}")
    with pytest.raises(InvalidInput, match="first bytes are damaged"):
        read(tmp_path / "a")


def test_a_deep_header_is_refused(tmp_path):
    text = b"[" * 200_000
    (tmp_path / "a").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(InvalidInput, match="first bytes are damaged"):
        read(tmp_path / "a")


def test_a_file_larger_than_memory_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("thresher.memory.available_bytes", lambda: 2**30)
    with open(tmp_path / "a", "wb") as file:
        file.truncate(2**30)  # sparse: takes no room
    with pytest.raises(MemoryRefused, match=r"reading .* needs about"):
        read(tmp_path / "a")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InvalidInput, match=r"not a file|Is a directory"):
            read(tmp_path / name)
    with pytest.raises(InvalidInput, match="not a file"):
        read(type(tmp_path)("/dev/zero"))
    with pytest.raises(InvalidInput, match="No such file"):
        read(tmp_path / "nobody")
    with pytest.raises(InvalidInput, match="cannot read"):
        read(tmp_path / "a\0b")


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.text() | st.integers() | st.floats(), st.lists)))
def test_whatever_stands_in_a_header_only_our_errors_come(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "a"
    if isinstance(content, bytes):
        path.write_bytes(len(content).to_bytes(8, "little") + content)
    else:
        path.write_bytes(sealed({"x": content}))
    with pytest.raises(InvalidInput):
        read(path)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch, failing, error):
    old = path.read_bytes()

    def refuse(*_):
        raise error

    monkeypatch.setattr(f"os.{failing}", refuse)
    with pytest.raises(InvalidInput if isinstance(error, OSError) else KeyboardInterrupt):
        write(path, {"steps": np.zeros(9)})
    assert path.read_bytes() == old
    assert os.listdir(path.parent) == [path.name]


def test_places_that_cannot_be_written_are_named(tmp_path):
    for path in (tmp_path / "no" / "folder", type(tmp_path)("/sys/a.checkpoint")):
        with pytest.raises(InvalidInput, match=r"cannot write .* Make room, or choose another place\."):
            write(path)


def test_the_previous_file_is_kept(path, tmp_path):
    old, kept = path.read_bytes(), tmp_path / "a.checkpoint.previous"
    for _ in range(2):
        write(path, {"steps": np.zeros(9)}, previous=kept)
    assert read(kept).tensors["steps"].shape == (9,)
    write(path, previous=kept)
    assert (read(kept).tensors["steps"].shape, path.read_bytes()[-72:]) == ((9,), old[-72:])
    assert sorted(os.listdir(tmp_path)) == ["a.checkpoint", "a.checkpoint.previous"]


def test_a_reader_never_sees_half_a_file(path):
    stop = threading.Event()

    def rewrite():
        while not stop.is_set():
            write(path, {"steps": np.zeros(5000)}, previous=path.with_name("previous"))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(200):
            read(path)
    finally:
        stop.set()
        writer.join()
