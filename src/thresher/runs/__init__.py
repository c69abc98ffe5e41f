"""A run: what a training leaves behind in a folder, and the page that tells of it."""

from thresher.runs.describing import describe
from thresher.runs.evaluation import Evaluation, evaluate_rows
from thresher.runs.later.comparing import Comparison
from thresher.runs.making import evaluate
from thresher.runs.record import Histogram, Record, Test, Training
from thresher.runs.recorder import Recorder
from thresher.runs.report import write_report
from thresher.runs.run import RUN_FILE, Run, read_run, write_run
from thresher.runs.saved import SavedModel, load_model

__all__ = ["RUN_FILE", "Comparison", "Evaluation", "Histogram", "Record", "Recorder", "Run", "SavedModel", "Test",
           "Training", "describe", "evaluate", "evaluate_rows", "load_model", "read_run",
           "write_report", "write_run"]  # fmt: skip
