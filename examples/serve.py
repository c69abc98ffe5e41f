# pip install starlette uvicorn pandas
"""A model over HTTP: rows of JSON in, predictions with intervals, or probabilities of classes, out.

    python examples/serve.py houses.thresher --port 8000
    curl http://127.0.0.1:8000/predict -d '[{"area": 90, "city": "Bern"}]'

A row has all columns of the training table, null where a cell is missing. What cannot be predicted is refused with 400.
"""

import argparse

import pandas as pd
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import thresher


async def predict(request: Request) -> JSONResponse:
    """Answer with a list for each thing that is said of rows; requests wait for each other, as each takes all cores."""
    model, given = request.app.state.model, await request.json()
    if not (isinstance(given, list) and given and all(isinstance(row, dict) for row in given)):
        raise ValueError("expected a list of rows, each an object with the names of columns and their cells.")
    rows = pd.DataFrame(given)
    names = list(getattr(model, "feature_names_in_", rows))
    rows = rows[names] if set(rows) == set(names) else rows  # objects have no order; other names the model refuses
    for name in () if model.encoder_ is None else model.encoder_.unseen(rows):
        kind = model.encoder_.kinds_[name]
        if kind.kind in ("number", "date"):  # it would be predicted as if it were missing
            raise ValueError(f"column {name!r} has {kind.strange}.")
    told = {"prediction": model.predict(rows)}
    if hasattr(model, "classes_"):
        told |= {"probabilities": model.predict_proba(rows), "classes": model.classes_}
    else:
        told["lower"], told["upper"] = model.predict_interval(rows, coverage=0.9)
    return JSONResponse({name: values.tolist() for name, values in told.items()})


async def refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer with what is wrong, in which column."""
    return JSONResponse({"error": str(error)}, status_code=400)


wrong = (ValueError, OverflowError, RecursionError)  # no JSON, or rows that cannot be predicted
app = Starlette(routes=[Route("/predict", predict, methods=["POST"])], exception_handlers=dict.fromkeys(wrong, refuse))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="what model.save or thresher train --save has written")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    app.state.model = thresher.load(options.model)
    uvicorn.run(app, port=options.port)
