"""What exports of an estimator say of rows: those to arrays, to ONNX and to torch."""

import pytest

from thresher.export import predict_arrays


def run_onnx(model, rows, *, dtype):
    """What an ONNX model returns, by name."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="an extra")
    session = onnxruntime.InferenceSession(model.to_onnx(dtype=dtype).SerializeToString())
    found = session.run(None, {"X": rows.astype(dtype)})
    return dict(zip([one.name for one in session.get_outputs()], found, strict=True))


def by_onnx(model, rows, *, dtype="float64"):
    found = run_onnx(model, rows, dtype=dtype)
    return found["scores"] if "scores" in found else found["outputs"]


def by_torch(model, rows, *, dtype="float64"):
    torch = pytest.importorskip("torch", reason="an extra")
    return model.to_torch(dtype=dtype)(torch.from_numpy(rows.astype(dtype))).numpy()


def by_arrays(model, rows, *, dtype="float64"):
    return predict_arrays(model.to_numpy(dtype=dtype), rows.astype(dtype))


exports = pytest.mark.parametrize("export", [by_arrays, by_onnx, by_torch])
