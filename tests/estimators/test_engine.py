"""Where estimators compute: what is no device is refused."""

import numpy as np
import pytest

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor

X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2


@pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
def test_what_is_no_device_is_refused(kind):
    with pytest.raises(InvalidInput, match="device must be one of 'cpu', 'cuda'; got 'tpu'"):
        kind(device="tpu").fit(X, y)
