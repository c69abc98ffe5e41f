"""A run: what a training leaves behind in a folder, and the page that tells of it."""

from thresher.runs.evaluation import Evaluation, evaluate
from thresher.runs.page import write_report
from thresher.runs.recorder import Recorder
from thresher.runs.run import RUN_FILE, Histogram, Run, Test, Training, read_run, write_run

__all__ = [
    "RUN_FILE",
    "Evaluation",
    "Histogram",
    "Recorder",
    "Run",
    "Test",
    "Training",
    "evaluate",
    "read_run",
    "write_report",
    "write_run",
]
