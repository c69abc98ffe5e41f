"""Tables on the processor and on the GPU: the same scores.

Give the folder of the tables, .npz files with X, y (whole numbers are classes), train and test, and run the tests of
the GPU:

    THRESHER_TABLES=/data/tables pytest -m gpu -n 0 tests/gpu/test_tables_on_both.py
"""

import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")

from thresher import ThresherClassifier, ThresherRegressor  # noqa: E402

FOLDER = os.environ.get("THRESHER_TABLES")
TABLES = sorted(Path(FOLDER).glob("*.npz")) if FOLDER else []
MOST = 60_000  # rows
CLOSE = 0.005

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not TABLES, reason="needs tables: THRESHER_TABLES names their folder"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.filterwarnings("ignore"),  # of what the tables are like
]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_scores_are_those_of_the_processor(path):
    with np.load(path) as stored:
        X, y, train, test = (stored[name] for name in ("X", "y", "train", "test"))
    train = np.random.default_rng(0).permutation(train)[:MOST]
    kind = ThresherRegressor if y.dtype.kind == "f" else ThresherClassifier
    scores = {}
    for device in ("cpu", "cuda"):
        model = kind(random_state=0, device=device).fit(X[train], y[train])
        scores[device] = model.score(X[test], y[test])
    assert scores["cuda"] == pytest.approx(scores["cpu"], abs=CLOSE)
