"""Several outputs as columns of targets, and networks made again from steps, for problems that tests have at hand."""

import numpy as np

from thresher import train
from thresher.training.options import Setup
from thresher.training.restore import remake
from thresher.training.train import complete


def train_columns(problems, **options):
    """The results of problems with the same inputs, trained as columns."""
    return train(problems[0].inputs, np.column_stack([one.targets for one in problems]), **options).outputs


def replay_columns(problems, *, steps, **options):
    """The networks that these steps lead to, a path for each problem."""
    return remake(Setup.of(problems, complete(options)), [list(path) for path in steps])


def replay(problem, *, steps, **options):
    return replay_columns([problem], steps=[steps], **options)[0]
