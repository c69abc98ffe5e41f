"""Where commands write: links stay, pipes are written to or refused, and a kill loses no run."""

import os
import shutil
import threading
from dataclasses import replace

import pytest
from learnable import SMALL as FAST
from learnable import write_csv
from test_cli import run

import thresher
from thresher import InvalidInput
from thresher.report import load_model, read_run, save_run

SMALL = (*FAST, "--quiet")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and a run of it, for all that only read them."""
    from thresher.cli import commands

    place = tmp_path_factory.mktemp("made")
    table = write_csv(place / "table.csv")
    commands.main(["train", str(table), *SMALL, "--save", str(place / "run")], standalone_mode=False)
    return place


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_predictions_go_through_a_pipe(capsys, made, tmp_path, force):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    code, _, err = run(capsys, "predict", str(made / "run"), str(made / "table.csv"), "--output", str(pipe), *force)
    reader.join(10)
    assert code == 0, err
    assert pipe.is_fifo()
    assert got[0] == run(capsys, "predict", str(made / "run"), str(made / "table.csv"))[1]
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("command", ["train", "report"])
def test_a_report_does_not_replace_a_pipe(capsys, made, tmp_path, command):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = {
        "train": ["train", str(made / "table.csv"), *SMALL, "--report", str(pipe), "--force"],
        "report": ["report", str(made / "run"), "--output", str(pipe), "--force"],
    }[command]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "a device, a pipe or a socket" in err and err.count("\n") == 1
    assert pipe.is_fifo()


def test_a_run_does_not_replace_a_pipe(capsys, made, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    os.mkfifo(folder / "model.thresher")
    code, out, err = run(capsys, "train", str(made / "table.csv"), *SMALL, "--save", str(folder), "--force")
    assert (code, out) == (2, "")
    assert "Choose another folder with --save" in err
    assert (folder / "model.thresher").is_fifo()


def test_predictions_through_a_link(capsys, made, tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a.csv", tmp_path / "b.csv"
    target.write_text("old")
    link.symlink_to(target)
    given = ["predict", str(made / "run"), str(made / "table.csv"), "--output", str(link)]
    assert run(capsys, *given)[0] == 2
    assert target.read_text() == "old"
    assert run(capsys, *given, "--force")[0] == 0
    assert link.is_symlink()
    assert target.read_text().startswith("prediction\n")


def test_a_file_is_no_folder(capsys, made, tmp_path):
    (tmp_path / "afile").write_text("mine")
    code, _, err = run(capsys, "report", str(made / "run"), "--output", str(tmp_path / "afile" / "sub.html"))
    assert code == 2
    assert "afile is a file and no folder" in err
    assert "permission" not in err


class Killed(BaseException):
    """A kill: what runs after it cleans nothing up."""


@pytest.mark.parametrize("moment", range(8))
def test_a_kill_at_any_moment_leaves_a_model_that_can_be_read_and_replaced(capsys, made, tmp_path, monkeypatch, moment):
    folder = tmp_path / "run"
    shutil.copytree(made / "run", folder)
    count = 0

    def counted(true):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count > moment:
                raise Killed
            return true(*arguments, **options)

        return call

    found, model = read_run(folder), load_model(folder).model
    with monkeypatch.context() as patch:
        for name in ("replace", "fsync", "unlink", "rename"):  # all that changes names, and what precedes it
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            save_run(folder, model.set_params(random_state=1), replace(found, network=found.network | {"seed": 1}))
        except Killed:
            pass
        else:
            assert moment >= 5, "fewer steps than were meant to be killed"
    seed = thresher.load(folder / "model.thresher").random_state
    try:
        assert read_run(folder).network["seed"] == seed
    except InvalidInput as error:  # between the two, which belong together
        assert "run.json is of another model than model.thresher" in str(error) and "--force" in str(error)
        assert seed == 1
    save_run(folder, model, found)
    assert sorted(os.listdir(folder)) == ["model.thresher", "run.json"]
    assert read_run(folder).network["seed"] == 0


def test_a_disk_that_refuses_keeps_what_was_there(made, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(made / "run", folder)
    found, model = read_run(folder), load_model(folder).model

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as inside:
        inside.setattr(os, "replace", refuse)
        with pytest.raises(InvalidInput, match="No space left on device"):
            save_run(folder, model, found)
    assert sorted(os.listdir(folder)) == ["model.thresher", "run.json"]
    assert read_run(folder) == found


def test_leftovers_of_a_kill_do_not_lock_a_folder(capsys, made, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("model.thresher.17.unfinished", "run.json.17.unfinished"):
        (folder / name).write_text("half")
    given = ["train", str(made / "table.csv"), *SMALL, "--save", str(folder)]
    (folder / "mine.txt").write_text("mine")
    code, _, err = run(capsys, *given, "--force")
    assert code == 2 and "other files in it" in err
    (folder / "mine.txt").unlink()
    (folder / "model.thresher").write_text("whole")
    code, _, err = run(capsys, *given)
    assert code == 2 and "holds a run already" in err and "--force" in err
    assert run(capsys, *given, "--force")[0] == 0
    assert read_run(folder).network["seed"] == 0
    assert sorted(os.listdir(folder)) == ["model.thresher", "run.json"]
