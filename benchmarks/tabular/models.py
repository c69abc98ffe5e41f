"""What is fitted: thresher's estimators and their rivals, and over which values parameters are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from inspect import signature
from typing import Any

from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from thresher import NotAvailable

Arguments = dict[str, Any]
GRID, COORDINATE = "grid", "coordinate"
_INSTALL = dict.fromkeys(("lightgbm", "xgboost", "catboost", "interpret"), "pip install -r benchmarks/requirements.txt")


@dataclass(frozen=True)
class Tuning:
    """How parameters are chosen on rows kept for it.

    The plain candidate ``start`` is tried first and keeps its place on a tie. ``"grid"`` tries every combination of
    ``values``; ``"coordinate"`` goes through the parameters in turn, the others as they stand, until a round changes
    nothing.
    """

    name: str
    values: dict[str, tuple[Any, ...]]
    search: str = GRID
    start: Arguments = field(default_factory=dict)

    @cached_property
    def recipe(self) -> str:
        values = ", ".join(f"{name} in {_listed(one)}" for name, one in self.values.items())
        words = {GRID: "every combination", COORDINATE: "one parameter after the other until nothing changes"}
        start = f"; first {_called(self.start) or 'the defaults'}"
        return f"{values}: {words[self.search]}{start}"


@dataclass(frozen=True)
class Model:
    """An estimator by its module and class, its fixed arguments, and its tuning if it has one.

    ``scaled``: columns are standardised before it, on the rows it is fitted on, and so are the targets of a regression.
    ``splines``: each column becomes cubic splines before it, with these arguments: the model is a sum of functions of
    one column.
    """

    name: str
    label: str
    source: tuple[str, str]
    fixed: Arguments = field(default_factory=dict)
    tuning: Tuning | None = None
    scaled: bool = False
    splines: Arguments | None = None

    @cached_property
    def recipe(self) -> str:
        plain = self._recipe(self.fixed)
        return f"{plain}; {self.tuning.name}: {self.tuning.recipe}" if self.tuning else plain

    @cached_property
    def choices(self) -> tuple[str, str]:
        """Return the name that choices are kept under, and their recipe."""
        assert self.tuning is not None
        name = self.name if self.fixed else self.tuning.name
        return name, f"{self._recipe(self.fixed)}; {self.tuning.recipe}"

    @cached_property
    def classifies(self) -> bool:
        return is_classifier(self.make({}, seed=0, threads=1))

    def load(self) -> Any:
        """Return the class, or say what is missing."""
        module, name = self.source
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            package = module.split(".")[0]
            raise NotAvailable(
                f"model {self.name} needs {name} of {package}, which is not here: "
                f"{_INSTALL.get(package, f'install {package} anew')}."
            ) from error

    def make(self, arguments: Arguments, *, seed: int, threads: int) -> Any:
        """Return an estimator that is not fitted; seed and threads are set where it knows them, unless fixed."""
        estimator = self.load()(**{**self.fixed, **arguments})
        known = {*estimator.get_params(deep=False), *signature(type(estimator)).parameters} - self.fixed.keys()
        common = {"random_state": seed, "n_jobs": threads, "thread_count": threads}
        estimator.set_params(**{name: value for name, value in common.items() if name in known})
        if self.splines is not None:
            estimator = make_pipeline(SplineTransformer(**self.splines), estimator)
        return standardised(estimator) if self.scaled else estimator

    def _recipe(self, arguments: Arguments) -> str:
        splines = "" if self.splines is None else f"SplineTransformer({_called(self.splines)}), "
        return f"{'StandardScaler, ' if self.scaled else ''}{splines}{self.source[1]}({_called(arguments)})"


def standardised(estimator: Any) -> Any:
    """Return the estimator behind a scaling of its columns and, for a regression, of its targets."""
    behind = make_pipeline(StandardScaler(), estimator)
    return behind if is_classifier(estimator) else TransformedTargetRegressor(behind, transformer=StandardScaler())


def _listed(values: tuple[Any, ...]) -> str:
    return "{" + ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values) + "}"


def _called(arguments: Arguments) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


# thresher's tuned model: the plain estimator and six variations. A larger grid would mostly fit the noise of small
# validation parts: what leave-one-out chooses is left to it.
OURS = Tuning("grid", values={"feature_learning": (0, 1, 2), "parts": ("auto", "all")})
_POWERS = range(-2, 11, 2), range(-12, 3, 2)
SVM = Tuning("svm-grid", values={"C": tuple(2.0**p for p in _POWERS[0]), "gamma": tuple(2.0**p for p in _POWERS[1])})
SVM_SMALL = Tuning(  # for standardised columns; thousands of them want a gamma far below 1 / columns
    "small-svm-grid",
    values={"C": tuple(2.0**p for p in range(-2, 11, 4)), "gamma": tuple(2.0**p for p in range(-18, 1, 3))},
)
RIDGE = Tuning(
    "ridge-search",
    values={"gamma": tuple(2.0**p for p in range(-8, 1, 2)), "alpha": tuple(10.0**p for p in range(-6, 2))},
    search=COORDINATE,
    start={"gamma": 2.0**-4, "alpha": 0.1},
)

_CLASSIFIER, _REGRESSOR = ("thresher", "ThresherClassifier"), ("thresher", "ThresherRegressor")
_TREES = {"n_estimators": 500}
_QUIET = {"verbose": -1}  # says less, fits the same
CLASSIFIERS = (
    Model("thresher", "thresher, default", _CLASSIFIER),
    Model("thresher-tuned", "thresher, tuned", _CLASSIFIER, tuning=OURS),
    Model("svc", "SVC, RBF, tuned", ("sklearn.svm", "SVC"), tuning=SVM),
    Model("forest", "RandomForest, 500 trees", ("sklearn.ensemble", "RandomForestClassifier"), _TREES),
    Model("mlp", "MLPClassifier, default", ("sklearn.neural_network", "MLPClassifier")),
    Model("lightgbm", "LightGBM, default", ("lightgbm", "LGBMClassifier"), _QUIET),
)
REGRESSORS = (
    Model("thresher", "thresher, default", _REGRESSOR),
    Model("ridge", "kernel ridge, RBF, tuned", ("sklearn.kernel_ridge", "KernelRidge"), {"kernel": "rbf"}, RIDGE),
    Model("forest", "RandomForest, 500 trees", ("sklearn.ensemble", "RandomForestRegressor"), _TREES),
    Model("mlp", "MLPRegressor, default", ("sklearn.neural_network", "MLPRegressor")),
    Model("lightgbm", "LightGBM, default", ("lightgbm", "LGBMRegressor"), _QUIET),
)
TIMED = (
    CLASSIFIERS[0],
    Model("svc", "SVC, default", ("sklearn.svm", "SVC")),
    *(model for model in CLASSIFIERS if model.name in ("forest", "mlp", "lightgbm")),
)
# The same names for classes and for values: a case of generated tables takes those that fit its targets.
_ENSEMBLE = "sklearn.ensemble"
_BOOSTING, _FOREST, _LINEAR, _SVM = (
    "HistGradientBoosting, default",
    "RandomForest, 500 trees",
    "logistic or ridge regression",
    "SVM, RBF, tuned",
)
_LOGISTIC = {"max_iter": 1000, "n_jobs": None}  # it has no use for threads, and warns if it is given some
TABLE_CLASSIFIERS = (
    CLASSIFIERS[0],
    Model("boosting", _BOOSTING, (_ENSEMBLE, "HistGradientBoostingClassifier")),
    Model("forest", _FOREST, (_ENSEMBLE, "RandomForestClassifier"), _TREES),
    Model("linear", _LINEAR, ("sklearn.linear_model", "LogisticRegression"), _LOGISTIC, scaled=True),
    Model("svm", _SVM, ("sklearn.svm", "SVC"), tuning=SVM_SMALL, scaled=True),
)
TABLE_REGRESSORS = (
    REGRESSORS[0],
    Model("boosting", _BOOSTING, (_ENSEMBLE, "HistGradientBoostingRegressor")),
    Model("forest", _FOREST, (_ENSEMBLE, "RandomForestRegressor"), _TREES),
    Model("linear", _LINEAR, ("sklearn.linear_model", "Ridge"), scaled=True),
    Model("svm", _SVM, ("sklearn.svm", "SVR"), tuning=SVM_SMALL, scaled=True),
)
# Published tables: every rival with its defaults. The last four are sums of functions of one column or of two.
_ALL, _COLUMNS, _PAIRS = ({"parts": parts} for parts in ("all", "columns", "pairs"))
_SILENT = {"verbose": 0, "allow_writing_files": False}
_SPLINES = {"n_knots": 10, "knots": "quantile"}
_RIDGES = {"alphas": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)}


def _published(kind: str, ours: tuple[str, str], last: tuple[str, Arguments]) -> tuple[Model, ...]:
    """Return the models for published tables; ``kind`` ends the names of classes, ``last`` follows the splines."""
    return (
        Model("thresher", "thresher, default", ours),
        Model("thresher-all", "thresher, all columns at once", ours, _ALL),
        Model("lightgbm", "LightGBM", ("lightgbm", f"LGBM{kind}"), _QUIET),
        Model("xgboost", "XGBoost", ("xgboost", f"XGB{kind}")),
        Model("catboost", "CatBoost", ("catboost", f"CatBoost{kind}"), _SILENT),
        Model("extra-trees", "ExtraTrees, 500 trees", (_ENSEMBLE, f"ExtraTrees{kind}"), _TREES),
        Model("thresher-columns", "thresher, columns", ours, _COLUMNS),
        Model("thresher-pairs", "thresher, pairs", ours, _PAIRS),
        Model("ebm", "EBM", ("interpret.glassbox", f"ExplainableBoosting{kind}")),
        Model("splines", "splines", ("sklearn.linear_model", last[0]), last[1], splines=_SPLINES),
    )


PUBLISHED_CLASSIFIERS = _published("Classifier", _CLASSIFIER, ("LogisticRegression", _LOGISTIC))
PUBLISHED_REGRESSORS = _published("Regressor", _REGRESSOR, ("RidgeCV", _RIDGES))
TREES = ("lightgbm", "xgboost", "extra-trees")  # the rivals that the goal names
ADDITIVE = ("thresher-columns", "thresher-pairs", "ebm", "splines")
