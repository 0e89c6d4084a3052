"""A learner on one chunk: a fresh copy, public coins, no word to anybody, and no vote where it fails.

A learner is an estimator with `fit` and `predict`, of which each chunk gets a copy that was never fitted, or a function
`fit(X, y) -> predict`. Its coins are a function of the public number of the chunk: what is left of a shared generator
by one chunk would tell the next one of it. An exception depends on the chunk's rows, so it is an abstention.

>>> def most(rows, labels):
...     top = int(np.bincount(labels).argmax())
...     return lambda asked: [top] * len(asked)
>>> form = Form.of(np.zeros((1, 1)), words=(), missing=0.0)
>>> chunk = ([[0.5], [0.25], [2.0]], [1, 1, 7])
>>> predict = trained(most, chunk, form=form, classes=2, number=0)
>>> voted(predict, np.zeros((4, 1)), classes=2, number=0).tolist()
[1, 1, 1, 1]
>>> trained(most, ([], []), form=form, classes=2, number=1) is None
True
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import inspect
import io
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles.forms import Form, classes_of
from dpledger.mechanisms.stability.ensembles.votes import ABSTAINS

__all__ = ["Learner", "Predict", "check_learner", "packed", "trained", "voted"]

Predict: TypeAlias = Callable[[Any], Any]
"""What a learner returns: the classes of rows."""
Learner: TypeAlias = Any
"""An estimator with `fit` and `predict`, or a function fit(X, y) -> predict; one with a `seed` is given it."""

_FAILS = (Exception, SystemExit)  # of the learner's code: what it raises depends on private rows
_WORLD = threading.RLock()  # generators, filters and streams that all threads share


def check_learner(learner: Learner) -> None:
    """ParameterError for what is no learner."""
    is_estimator = hasattr(learner, "fit") and hasattr(learner, "predict") and not isinstance(learner, type)
    if not is_estimator and not callable(learner):
        raise ParameterError(
            "learner", type(learner).__name__, "an estimator with fit and predict, or a function fit(X, y) -> predict"
        )


def trained(learner: Learner, chunk: tuple[Any, ...], *, form: Form, classes: int, number: int) -> Predict | None:
    """The model of a chunk, its rows (and their labels, if it has two columns); None where it has none: it is empty, or
    the learner failed. Rows whose label is no class are left out. Raises for nothing that a chunk holds."""
    try:
        with _alone(number) as seed:
            rows, labels = _examples(chunk, form, classes)
            return _fitted(learner, rows, labels, seed) if len(rows) else None
    except _FAILS:
        return None


def voted(predict: Predict | None, rows: Any, *, classes: int, number: int) -> npt.NDArray[np.int64]:
    """The votes of a model on queries; abstentions where there is no model, or it fails, or names no class."""
    nothing = np.full(len(rows), ABSTAINS, dtype=np.int64)
    if predict is None:
        return nothing
    try:
        with _alone(number):
            found = classes_of(predict(copy.copy(rows)), classes)
    except _FAILS:
        return nothing
    return found if found.shape == nothing.shape else nothing


def packed(learner: Learner, chunk: tuple[Any, ...], *, form: Form, classes: int, number: int) -> bytes | None:
    """`trained`, as bytes from a worker process: a model that does not pickle is none."""
    predict = trained(learner, chunk, form=form, classes=classes, number=number)
    try:
        return None if predict is None else _as_bytes(predict)
    except _FAILS:
        return None


def _as_bytes(predict: Predict) -> bytes:
    """Functions inside functions too: joblib brings what does it along, the older ones as a part of themselves."""
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        dumps = importlib.import_module("joblib.externals.cloudpickle").dumps
    found: bytes = dumps(predict)
    return found


@contextlib.contextmanager
def _alone(number: int) -> Iterator[int]:
    """Run the learner's code with generators that start from the chunk's number, and put them back; silence warnings
    and what it prints. One at a time: they belong to the whole process."""
    seed = int.from_bytes(hashlib.sha256(b"dpledger chunk %d" % number).digest()[:4])
    with _WORLD:
        ours, theirs = np.random.get_state(), random.getstate()
        np.random.seed(seed)
        random.seed(seed)
        try:
            with (
                warnings.catch_warnings(),
                np.errstate(all="ignore"),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                warnings.simplefilter("ignore")
                yield seed
        finally:
            np.random.set_state(ours)
            random.setstate(theirs)


def _examples(chunk: tuple[Any, ...], form: Form, classes: int) -> tuple[Any, Any]:
    """The rows of a chunk that have a class, and their labels; all rows, and no labels, where it has one column."""
    rows = form.read(chunk[0])
    if len(chunk) == 1:
        return rows, None
    labels = classes_of(chunk[1], classes)
    kept = np.flatnonzero(labels >= 0)
    if len(kept) == len(labels):
        return rows, labels
    return (rows.iloc[kept].reset_index(drop=True) if hasattr(rows, "iloc") else rows[kept]), labels[kept]


def _fitted(learner: Learner, rows: Any, labels: Any, seed: int) -> Predict:
    predict: Predict
    if hasattr(learner, "fit"):
        model = _unfitted(learner)
        _seed(model, seed)
        model.fit(rows) if labels is None else model.fit(rows, labels)
        predict = model.predict
    else:
        own = copy.deepcopy(learner)
        predict = own(rows, labels, seed=seed) if _takes_seed(own) else own(rows, labels)
        if not callable(predict):
            raise TypeError("a learner that returns no function")
    return predict


def _takes_seed(function: Any) -> bool:
    try:
        return "seed" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some functions written in C nobody knows
        return False


def _unfitted(learner: Any) -> Any:
    """A copy that was never fitted, as scikit-learn makes it; of what does not say its parameters, a deep copy."""
    if isinstance(learner, type):
        return learner
    if hasattr(learner, "__sklearn_clone__"):
        return learner.__sklearn_clone__()
    if hasattr(learner, "get_params"):
        parameters = learner.get_params(deep=False)
        return type(learner)(**{name: _unfitted(value) for name, value in parameters.items()})
    return copy.deepcopy(learner)


def _seed(model: Any, seed: int) -> None:
    """Fix each `random_state` that the caller left open, of nested estimators too."""
    if hasattr(model, "get_params") and hasattr(model, "set_params"):
        is_state = {
            name: seed
            for name, value in model.get_params(deep=True).items()
            if value is None and name.rpartition("__")[2] == "random_state"
        }
        model.set_params(**is_state)
