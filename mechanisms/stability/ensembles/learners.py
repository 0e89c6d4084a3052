"""A learner on one chunk: a fresh copy, public coins, no word to anybody, and no vote where it fails.

A learner is an estimator with `fit` and `predict`, of which each chunk gets a copy that was never fitted, the class of
one, or a function `fit(X, y) -> predict`. Its coins are a function of the public number of the chunk: what is left of a
shared generator by one chunk would tell the next one of it. An exception depends on the chunk's rows, so it is an
abstention. What `Ensemble.fit` asks of it beside that is in `rehearsal`.

>>> def most(rows, labels):
...     top = int(np.bincount(labels).argmax())
...     return lambda asked: [top] * len(asked)
>>> form = Form.of(np.zeros((1, 1)), words=(), missing=0.0)
>>> chunk = ([[0.5], [0.25], [2.0]], [1, 1, 7])
>>> predict = trained(most, chunk, form=form, classes=2, number=0)
>>> voted([predict, None], np.zeros((4, 1)), classes=2).tolist()
[[1, 1, 1, 1], [-1, -1, -1, -1]]
>>> def mean(rows, labels):
...     return lambda asked: [labels.mean() - 2] * len(asked)
>>> scoring = trained(mean, chunk, form=form, classes=None, number=0)
>>> voted([scoring, None], np.zeros((2, 1)), classes=None).tolist()
[[1.0, 1.0], [nan, nan]]
>>> trained(most, ([], []), form=form, classes=2, number=1) is None
True
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import io
import pickle
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.callers import came_to, is_of_a_handler
from dpledger.mechanisms.stability.ensembles.copies import own
from dpledger.mechanisms.stability.ensembles.forms import Form, classes_of, numbers_of, scores_of
from dpledger.mechanisms.stability.ensembles.shared import uncopied

__all__ = [
    "Learner",
    "Predict",
    "Work",
    "answering",
    "apart",
    "as_bytes",
    "check_learner",
    "examples",
    "fitted",
    "named_by",
    "own_copy",
    "seed_of",
    "trained",
    "unpacked",
    "voted",
]

Value = TypeVar("Value")

Predict: TypeAlias = Callable[[Any], Any]
"""What a learner returns: the classes of rows."""
Learner: TypeAlias = Any
"""An estimator with `fit` and `predict`, its class, or a function fit(X, y) -> predict; it may ask for a `seed`."""

_WORLD = threading.RLock()  # generators, filters and streams that all threads share
_AT_A_TIME = 2**17  # answers of models that are read as votes together
_STREAM, _STRETCH = 20261128, 2**11  # a public seed, and how many bits of its stream lie between two turns


def check_learner(learner: Learner) -> None:
    """ParameterError for what is no learner, or cannot be copied."""
    kind = learner if isinstance(learner, type) else type(learner)  # some have `predict` only once they are fitted
    is_estimator = hasattr(learner, "fit") and (hasattr(learner, "predict") or hasattr(kind, "predict"))
    if not is_estimator and not callable(learner):
        raise ParameterError(
            "learner", type(learner).__name__, "an estimator with fit and predict, or a function fit(X, y) -> predict"
        )
    try:
        _unfitted(learner)
    except Exception as error:
        name = uncopied(learner)
        what = str(error) if name is None else f"{name}: {error}"
        expected = f"a learner that can be copied, so that no two chunks share it ({what}); make it inside the learner"
        raise ParameterError("learner", type(learner).__name__, expected) from error


def trained(
    learner: Learner, chunk: tuple[Any, ...], *, form: Form, classes: int | None, number: int
) -> Predict | None:
    """The model of a chunk, its rows (and their labels, if it has two columns); None where it has none: it is empty, or
    the learner failed. Rows whose label is no class (`classes` None: no number) are left out. Raises for nothing that a
    chunk holds."""

    def model() -> Predict | None:
        with apart(), _alone(number) as seed:
            rows, labels = examples(chunk, form, classes)
            return answering(fitted(learner, rows, labels, seed), classes) if len(rows) else None

    return _unless_it_fails(model)


def _unless_it_fails(code: Callable[[], Value]) -> Value | None:
    """What code on private rows came to; None where it failed, or would have ended the program: they may be why. Only
    an interrupt goes on, and what a handler of a signal raised."""
    try:
        found = came_to(code)
    except (SystemExit, GeneratorExit) as error:
        if is_of_a_handler(error):
            raise
        return None
    return None if found is None else found[0]


@dataclass(frozen=True, slots=True)
class _MeanLabel:
    """The score of a classifier: the mean of the labels it knows, by their probabilities."""

    model: Any

    def __call__(self, asked: Any) -> Any:
        return self.model.predict_proba(asked) @ np.asarray(self.model.classes_, dtype=np.float64)


def answering(predict: Predict, classes: int | None) -> Predict:
    """What is asked for votes. Of scores (`classes` None) a classifier that tells probabilities answers with its mean
    label, all else with what it predicts."""
    model = getattr(predict, "__self__", None)
    tells = hasattr(model, "predict_proba") and hasattr(model, "classes_")
    return _MeanLabel(model) if classes is None and tells else predict


def named_by(answers: Any, classes: int | None) -> npt.NDArray[Any]:
    """What a model answered, as votes: classes (-1: none), or scores from 0 to 1 (NaN: none)."""
    return scores_of(answers) if classes is None else classes_of(answers, classes)


def voted(models: Sequence[Predict | None], rows: Any, *, classes: int | None) -> npt.NDArray[Any]:
    """The votes of the models of all chunks on queries, a row a model; abstentions where there is no model, or it fails
    on them, or names no class. Of scores (`classes` None) an abstention is NaN."""
    kind = np.float64 if classes is None else np.int16 if classes < 2**15 else np.int32
    found = np.empty((len(models), len(rows)), dtype=kind)
    together = max(1, _AT_A_TIME // max(1, len(rows)))
    with apart(), _turns() as begin:
        for start in range(0, len(models), together):
            answers = np.full((min(together, len(models) - start), len(rows)), np.nan)
            for number, predict in enumerate(models[start : start + together], start):
                begin(number)
                told = None if predict is None else _unless_it_fails(partial(_numbers_told, predict, rows))
                if told is not None:
                    answers[number - start] = told
            found[start : start + together] = named_by(answers.ravel(), classes).reshape(answers.shape)
    return found


def _numbers_told(predict: Predict, rows: Any) -> npt.NDArray[np.float64] | None:
    """What a model says of the rows, as numbers, if it says one a row."""
    with np.errstate(all="ignore"):
        told = predict(own_copy(rows))
        if type(told) is not np.ndarray or told.dtype.kind not in "fiub":
            told = numbers_of(told)
        fits = told.shape in ((len(rows),), (len(rows), 1))
        return told.reshape(-1).astype(np.float64) if fits else None


def own_copy(rows: Any) -> Any:
    """A copy for one model: what it alters, the next one does not see."""
    if isinstance(rows, np.ndarray):
        is_flat = not rows.dtype.hasobject
    else:
        is_flat = hasattr(rows, "iloc") and not np.any(rows.dtypes == np.dtype(object))
    return rows.copy() if is_flat else own(rows)


@dataclass(frozen=True, slots=True)
class Work:
    """What every chunk is trained with. Public."""

    learner: Learner
    form: Form
    classes: int | None

    def model(self, chunk: tuple[Any, ...], number: int) -> Predict | None:
        """The model of a chunk."""
        return trained(self.learner, chunk, form=self.form, classes=self.classes, number=number)

    def packed(self, chunk: tuple[Any, ...], number: int) -> bytes | None:
        """The same as bytes, from a worker process: a model that does not pickle is none."""
        predict = self.model(chunk, number)
        return None if predict is None else _unless_it_fails(partial(as_bytes, predict))


def unpacked(model: bytes | None, *, number: int) -> Predict | None:
    """What `Work.packed` packed; None for a model that does not travel back."""

    def loaded() -> Predict | None:
        with apart(), _alone(number):
            return None if model is None else cast(Predict, pickle.loads(model))  # noqa: S301  # of our own worker

    return _unless_it_fails(loaded)


def as_bytes(predict: Predict) -> bytes:
    """Functions inside functions too: joblib brings what does it along, the older ones as a part of themselves."""
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        dumps = importlib.import_module("joblib.externals.cloudpickle").dumps
    found: bytes = dumps(predict)
    return found


def _torch() -> Any:
    """torch, whose generator starts from a public constant and goes on from chunk to chunk; None where nobody imported
    it."""
    return sys.modules.get("torch")


def _torch_seeder() -> Callable[[int], object]:
    """What seeds torch. Without a device its own generator alone: `torch.manual_seed` notes the stack of each call, for
    devices that may come, which takes a millisecond a model."""
    torch = _torch()
    if torch is None:
        return lambda _: None
    devices = getattr(torch, "accelerator", None)  # since torch 2.6
    if devices is None or devices.is_available():
        return cast("Callable[[int], object]", torch.manual_seed)
    return cast("Callable[[int], object]", torch.default_generator.manual_seed)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Run learners' code, one thread at a time, and then put the generators back that belong to the whole process."""
    torch = _torch()
    with _WORLD, contextlib.nullcontext() if torch is None else torch.random.fork_rng():
        ours, theirs = np.random.get_state(), random.getstate()
        try:
            yield
        finally:
            np.random.set_state(ours)
            random.setstate(theirs)


@functools.lru_cache(maxsize=2**14)
def seed_of(number: int) -> int:
    """The seed of a chunk, by its public number."""
    return int.from_bytes(hashlib.sha256(b"dpledger chunk %d" % number).digest()[:4])


@contextlib.contextmanager
def _alone(number: int) -> Iterator[int]:
    """The code of one chunk, `apart`: generators start from its number, warnings and what it prints are dropped."""
    seed = seed_of(number)
    np.random.seed(seed)
    random.seed(seed)
    _torch_seeder()(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield seed


class _Silence(io.TextIOBase):
    """Where what models print goes: nowhere. It cannot be closed, and keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)

    def close(self) -> None:
        """Not for a model to do."""


@contextlib.contextmanager
def _turns() -> Iterator[Callable[[int], None]]:
    """What begins the turn of a model that is asked, by its number: as `_alone`, for turns so short that what the turn
    before left as it was is not set anew.

    Python's coins are those of one public stream, a stretch further on in each turn, of models that there are not too.
    Whether any were drawn shows in the stretch that comes next, but for a chance of 2^-2048."""
    seed_torch, silence = _torch_seeder(), _Silence()
    random.seed(_STREAM)
    stream, shared = random.Random(_STREAM), getattr(random.gauss, "__self__", None)  # noqa: S311  # public

    def begin(number: int) -> None:
        seed = seed_of(number)
        np.random.seed(seed)
        seed_torch(seed)
        if random.getrandbits(_STRETCH) != stream.getrandbits(_STRETCH) or getattr(shared, "gauss_next", None):
            random.setstate(stream.getstate())
        if warnings.filters[:1] != first:
            warnings.simplefilter("ignore")
        sys.stdout = silence

    with warnings.catch_warnings(), contextlib.redirect_stdout(silence):
        warnings.simplefilter("ignore")
        first = warnings.filters[:1]
        yield begin


def examples(chunk: tuple[Any, ...], form: Form, classes: int | None) -> tuple[Any, Any]:
    """The rows of a chunk that have a class (a finite number, where `classes` is None), and their labels; all rows, and
    no labels, where it has one column."""
    rows = form.read(chunk[0])
    if len(chunk) == 1:
        return rows, None
    labels: npt.NDArray[Any]
    if classes is None:
        labels = numbers_of(chunk[1])
        kept = np.flatnonzero(np.isfinite(labels))
    else:
        labels = classes_of(chunk[1], classes)
        kept = np.flatnonzero(labels >= 0)
    if len(kept) == len(labels):
        return rows, labels
    return (rows.iloc[kept].reset_index(drop=True) if hasattr(rows, "iloc") else rows[kept]), labels[kept]


def fitted(learner: Learner, rows: Any, labels: Any, seed: int) -> Predict:
    """A fresh copy of the learner, fitted; raises what it raises, and TypeError for one that returns no function."""
    predict: Predict
    if hasattr(learner, "fit"):
        model = learner() if isinstance(learner, type) else _unfitted(learner)
        _seed(model, seed)
        model.fit(rows) if labels is None else model.fit(rows, labels)
        predict = model.predict
    else:
        train = own(learner)
        predict = train(rows, labels, seed=seed) if _takes_seed(train) else train(rows, labels)
        if not callable(predict):
            raise TypeError("a learner that returns no function")
    return predict


def _takes_seed(function: Any) -> bool:
    try:
        return "seed" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some functions written in C nobody knows
        return False


def _unfitted(learner: Any) -> Any:
    """A copy that was never fitted, as scikit-learn makes it; of what does not say its parameters, one of all of it."""
    if isinstance(learner, type):
        return learner
    if hasattr(learner, "__sklearn_clone__"):
        return own(learner.__sklearn_clone__())
    if hasattr(learner, "get_params"):
        parameters = learner.get_params(deep=False)
        return type(learner)(**{name: _unfitted(value) for name, value in parameters.items()})
    return own(learner)


def _seed(model: Any, seed: int) -> None:
    """Fix each `random_state` that the caller left open, of nested estimators too."""
    if hasattr(model, "get_params") and hasattr(model, "set_params"):
        is_state = {
            name: seed
            for name, value in model.get_params(deep=True).items()
            if value is None and name.rpartition("__")[2] == "random_state"
        }
        model.set_params(**is_state)
