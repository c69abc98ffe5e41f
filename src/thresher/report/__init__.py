"""How well a model does and why, as a value, as one HTML page, and beside the model in a folder, a run."""

from thresher.report.details import Details
from thresher.report.evaluate import evaluate
from thresher.report.evaluation import Evaluation, Training
from thresher.report.saved import SavedModel, load, load_model, read_run, save_run

__all__ = ["Details", "Evaluation", "SavedModel", "Training", "evaluate", "load", "load_model", "read_run", "save_run"]
