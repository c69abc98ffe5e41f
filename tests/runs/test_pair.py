"""A run and its model belong together, whatever is killed and when."""

import itertools
import os
import shutil

import pytest

from thresher import InvalidInput
from thresher.files import header_of, write_file
from thresher.runs.pair import MODEL_FILE, RUN_FILE, find_run, replace_pair


class Killed(BaseException):
    """A kill, or an interrupt."""


def replace(folder, name):
    """Replace what a folder holds by a model and a run called ``name``."""

    def model(place):
        write_file(place, {}, {"name": name}, kind="model", version=1)

    def run(place, checksum):
        write_file(place, {}, {"name": name, "model": {"checksum": checksum}}, kind="run", version=1)

    replace_pair(folder, model, run)


def found(folder):
    """The names of the run and the model that a reader finds; None for those that are not there."""
    return [header_of(one).get("metadata", {}).get("name") for one in (find_run(folder), folder / MODEL_FILE)]


def killed(patch, moment, folder, name, *, once=False):
    """Replace until a ``moment`` at which names change or a file is forced to the disk; return if it ended.

    An interrupt comes ``once``; what cleans up after it works.
    """
    count = itertools.count()

    def counted(true):
        def call(*arguments, **options):
            if (now := next(count)) == moment or (now > moment and not once):
                raise Killed
            return true(*arguments, **options)

        return call

    with patch.context() as inside:
        for step in ("replace", "fsync", "unlink"):
            inside.setattr(os, step, counted(getattr(os, step)))
        try:
            replace(folder, name)
        except Killed:
            return False
        return True


def moments(patch, folder):
    """How many moments a replacement has."""
    for moment in itertools.count():
        if killed(patch, moment, folder, "any"):
            return moment
    return 0


@pytest.mark.thorough
@pytest.mark.parametrize("old", [True, False])
def test_two_kills_at_any_moments(tmp_path, monkeypatch, old):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # so that nothing waits for a disk
    begin, folder = tmp_path / "begin", tmp_path / "folder"
    begin.mkdir()
    if old:
        replace(begin, "first")
    many = moments(monkeypatch, shutil.copytree(begin, tmp_path / "count"))
    assert many >= 10
    names = set()
    for once, one, two in itertools.product((False, True), range(many + 1), range(many + 1)):
        shutil.copytree(begin, folder)
        whole = killed(monkeypatch, one, folder, "second", once=once)
        run, model = found(folder)
        assert run == model or (not old and run is None), (once, one, run, model)
        assert not whole or run == "second"
        killed(monkeypatch, two, folder, "third")
        after, model = found(folder)
        assert after == model or (not old and after is None), (once, one, two, after, model)
        assert after in (run, "third")
        names.add(after)
        replace(folder, "fourth")
        assert found(folder) == ["fourth", "fourth"]
        assert sorted(os.listdir(folder)) == [MODEL_FILE, RUN_FILE]
        shutil.rmtree(folder)
    assert names >= {"second", "third"}


def test_a_model_of_another_run_is_refused(tmp_path):
    replace(tmp_path, "first")
    (tmp_path / "other").mkdir()
    replace(tmp_path / "other", "second")
    shutil.copy(tmp_path / "other" / MODEL_FILE, tmp_path)
    with pytest.raises(InvalidInput, match=r"run\.thresher is of another model than model\.thresher.*--force"):
        find_run(tmp_path)
    replace(tmp_path, "third")
    assert found(tmp_path) == ["third", "third"]


def test_a_disk_that_refuses(tmp_path, monkeypatch):
    replace(tmp_path, "first")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as inside:
        inside.setattr(os, "replace", refuse)
        with pytest.raises(InvalidInput, match="No space left on device"):
            replace(tmp_path, "second")
    assert found(tmp_path) == ["first", "first"]
    assert sorted(os.listdir(tmp_path)) == [MODEL_FILE, RUN_FILE]
