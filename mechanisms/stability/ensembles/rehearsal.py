"""A learner on made-up rows: whether its chunks keep apart, and what is wrong with it, of which it says nothing in an
ensemble.

`rehearse` is what `Ensemble.fit` does before it touches a private row. By the same code, in a worker process where
there are some, it fits a chunk, another one with the opposite labels, and the first one again, and asks the models in
between. Both models of the first chunk must vote alike, and nothing that the learner's code reaches may have changed
(`shared`). Models that answer no made-up query must be the same bytes instead.

>>> from sklearn.linear_model import LogisticRegression
>>> __name__ = "a_notebook"
>>> class Teacher:
...     model = LogisticRegression()
...     def learn(self, rows, labels):
...         return self.model.fit(rows, labels).predict
>>> two_numbers = Form.of(np.zeros((1, 2)), words=(), missing=0.0)
>>> try:
...     rehearse(Work(Teacher().learn, two_numbers, 2), labelled=True, jobs=1)
... except ParameterError as error:
...     print(error.value)
learn, one whose chunks share Teacher.model
>>> def forgets_to_return(rows, labels):
...     lambda asked: labels
>>> try_learner(forgets_to_return, np.zeros((4, 2)), [0, 1, 0, 1])
Traceback (most recent call last):
...
TypeError: a learner that returns no function
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles.forms import Column, Form, finite_or_nan
from dpledger.mechanisms.stability.ensembles.learners import (
    Learner,
    Predict,
    Work,
    answering,
    apart,
    as_bytes,
    check_learner,
    examples,
    fitted,
    named_by,
    own_copy,
    seed_of,
    unpacked,
    voted,
)
from dpledger.mechanisms.stability.ensembles.shared import changed, left, remembered
from dpledger.mechanisms.stability.ensembles.votes import MOST_CLASSES
from dpledger.mechanisms.units import Units
from dpledger.process import Home

__all__ = ["Chunk", "rehearse", "try_learner"]

Chunk: TypeAlias = tuple[Any, ...]
"""The rows of a chunk, and their labels, if it has them."""
_Heard: TypeAlias = Literal["failed", "shared", "alike", "apart"]
"""The learner fits no such chunk; its chunks share something; both models say the same, or each its own."""

_NUMBERS = (0, 1, 0)  # of the chunks, in the order in which they are fitted
_ROWS, _ASKED = 120, 200  # of a made-up chunk, and queries
_ENTRIES = 10**6  # of fewer rows, where they are large
_MOST_CLASSES = 50  # made up
_WORDS = ("red apple", "green pear", "blue plum", "white fig")  # words to whoever reads texts, and four categories
_SHARED: set[tuple[tuple[CodeType, ...], str]] = set()  # learners, and what they shared: when full it stays as it is
_TURNS = itertools.count()  # rows of their own for each rehearsal of this process
_INSIDE = (
    "a learner that keeps nothing from one chunk to the next: make the estimator, its caches and its generators inside "
    "the learner (from the seed that it gets where it has a parameter `seed`)"
)


def rehearse(work: Work, *, labelled: bool, jobs: int) -> None:
    """Fit made-up chunks, and nothing else, as `Ensemble.fit` fits private ones. ParameterError for a learner whose
    chunks do not keep apart, which names what they share where it can be found; and for one that fails on every made-up
    chunk, of which nothing is known."""
    home, before, code = Home("a rehearsal"), remembered(work.learner), _code_of(work.learner)
    for one, other, asked in _made_up(work.form, work.classes, labelled):
        there = _Told([], left(before))
        heard = _heard(_in_turn(work, (one, other, one), jobs, there), asked, work.classes)
        home.require()  # a learner is the caller's code, and may have forked
        still = (name for name in there.left if heard == "alike" or (code, name) in _SHARED)
        shared = [*there.changed, *changed(before, remembered(work.learner)), *still]
        if shared:
            _SHARED.update((code, name) for name in shared if code)
            raise _refused(work, f"one whose chunks share {', '.join(dict.fromkeys(shared))}", _INSIDE)
        if heard == "shared":
            raise _refused(work, "one whose model of made-up rows is another after a second chunk was fitted", _INSIDE)
        if heard != "failed":
            return
    expected = (
        "a learner that fits some made-up rows (try_learner shows what it raises), and with jobs a model that pickles"
    )
    raise _refused(work, "one that fails on all of them", expected)


@dataclass(frozen=True, slots=True)
class _Told:
    """Names of what changed in a worker process, and of what an earlier rehearsal left, there or here."""

    changed: list[str]
    left: list[str]


def _code_of(learner: Any) -> tuple[CodeType, ...]:
    """That of a function, or of the methods of a class: the same when a cell runs again, another one once it is
    mended."""
    if isinstance(code := getattr(learner, "__code__", None), CodeType):
        return (code,)
    kind = learner if isinstance(learner, type) else type(learner)
    return tuple(one.__code__ for one in vars(kind).values() if isinstance(one, FunctionType))


def _refused(work: Work, got: str, expected: str) -> ParameterError:
    return ParameterError(
        "learner", f"{getattr(work.learner, '__name__', type(work.learner).__name__)}, {got}", expected
    )


def _in_turn(work: Work, chunks: tuple[Chunk, Chunk, Chunk], jobs: int, told: _Told) -> Iterator[Predict | None]:
    """The models of chunks 0, 1 and 0 again, each fitted when it is asked for; in worker processes, all in one of them,
    one after another."""
    if jobs == 1:
        yield from (work.model(chunk, number) for number, chunk in zip(_NUMBERS, chunks, strict=True))
    else:
        from joblib import Parallel, delayed  # here: it takes its time, and may not be needed

        [(models, there)] = Parallel(n_jobs=jobs)([delayed(_packed)(work, chunks)])
        told.changed.extend(there.changed)
        told.left.extend(there.left)
        yield from (unpacked(model, number=number) for number, model in zip(_NUMBERS, models, strict=True))


def _packed(work: Work, chunks: tuple[Chunk, Chunk, Chunk]) -> tuple[list[bytes | None], _Told]:
    before = remembered(work.learner)
    models = [work.packed(chunk, number) for number, chunk in zip(_NUMBERS, chunks, strict=True)]
    return models, _Told(changed(before, remembered(work.learner)), left(before))


def _heard(models: Iterator[Predict | None], asked: Any, classes: int | None) -> _Heard:
    """What the models of a chunk, another one and the first one again say. Each is asked twice, for one may have coins
    of its own."""
    first = next(models)
    made, alone = _bytes(first), voted([first], asked, classes=classes)[0]
    second = next(models)
    before, kept = voted([first, second], asked, classes=classes), _bytes(first)
    again = next(models)
    made_again, alone_again = _bytes(again), voted([again], asked, classes=classes)[0]
    after, kept_again = voted([again, second], asked, classes=classes), _bytes(again)
    if (first is None) != (again is None):
        return "shared"
    if first is None or second is None:
        return "failed"
    if np.all(_silent(np.stack([alone, before[0], alone_again, after[0]]))):
        same = made is not None and kept is not None and (made, kept) == (made_again, kept_again)
    else:
        same = _alike(alone, alone_again) and _alike(before[0], after[0])
    return "shared" if not same else "alike" if _alike(alone, before[1]) else "apart"


def _alike(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    """Whether votes are the same; of scores, up to the order in which threads may add."""
    return bool(np.allclose(left, right, rtol=0, atol=1e-9, equal_nan=True))


def _silent(votes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.isnan(votes) if votes.dtype.kind == "f" else votes < 0


def _bytes(model: Predict | None) -> bytes | None:
    try:
        return None if model is None else as_bytes(model)
    except Exception:  # a model that does not pickle
        return None


def _made_up(form: Form, classes: int | None, labelled: bool) -> Iterator[tuple[Chunk, Chunk, Any]]:
    """Two chunks and queries, by public facts alone: numbers around 0, from 0 to 1, small and larger whole ones, and
    words where there are some. Labels are coins, of every class or 50 of them, one of them more often; in the second
    chunk that is the opposite one."""
    turn = next(_TURNS)
    coins = np.random.default_rng(turn)
    present = 2 if classes is None else min(classes, _MOST_CLASSES)
    named = np.linspace(0, 1 if classes is None else classes - 1, present).round()
    for shape in _shapes(form):
        base = max(4 * present, min(_ROWS, _ENTRIES // max(1, math.prod(shape))))
        least = base + 2 * turn % base  # of another length each time: one may be the key of a cache
        labels = [np.arange(-(length // 5), length).clip(0) % present for length in (least, least + 1)]
        for most, offset in ((1, -0.5), (1, 0.0), (5, 0.0), (100, 0.0)):

            def rows(count: int, least: float, size: tuple[int, ...], most: int, offset: float) -> npt.NDArray[Any]:
                values = most * (least + offset + 0.75 * coins.random((count, *size)))
                return _with_words(values if most == 1 else np.floor(values), form, coins)

            sort = (shape, most, offset)
            of_one, of_other = (coins.permutation(each) for each in labels)
            one, other = rows(len(of_one), 0.0, *sort), rows(len(of_other), 0.25, *sort)
            asked = form.asked(rows(min(_ASKED, 2 * base), 0.125, *sort))
            if labelled:
                yield (one, named[of_one]), (other, named[present - 1 - of_other]), asked
            else:
                yield (one,), (other,), asked


def _shapes(form: Form) -> list[tuple[int, ...]]:
    """Of a row; where nobody says how long rows are, some that are common."""
    if form.names is not None:
        return [(len(form.names),)]
    return [(2,), (), *((width,) for width in (1, 3, 4, 5, 6, 8, 10))] if form.shape is None else [form.shape]


def _with_words(values: npt.NDArray[Any], form: Form, coins: np.random.Generator) -> npt.NDArray[Any]:
    columns = range(values.shape[1]) if values.ndim == 2 else ()
    places = [place for place in columns if (place if form.names is None else form.names[place]) in form.words]
    if not form.words:
        return values
    found = values.astype(object)
    for column in (found[:, place] for place in places) if found.ndim == 2 else (found,):
        column[:] = coins.choice(_WORDS, len(column))
    return found


def try_learner(
    learner: Learner,
    made_up_rows: Any,
    made_up_labels: Any = None,
    *,
    classes: int | None = 2,
    words: tuple[Column, ...] = (),
    missing: float = 0.0,
) -> npt.NDArray[Any]:
    """Fit a copy of `learner` to the rows as to one chunk of an `Ensemble`, and return how its model votes on them:
    int64[rows], -1 where it names no class; with `classes` None its scores, float64[rows], NaN where it has none.
    Nothing is caught or silenced: whatever the learner raises, it raises here.

    For public or made-up rows alone: what private rows make a learner say is a release that nobody counts. The other
    parameters are those of `Ensemble.fit`. ParameterError where they are bad, where no row has a class, or where the
    model does not answer with one number a row.

    >>> def majority(rows, labels):
    ...     return lambda asked: np.full(len(asked), labels.mean() > 0.5, dtype=int)
    >>> dpl.stability.try_learner(majority, np.zeros((4, 2)), [0, 1, 1, 1]).tolist()
    [1, 1, 1, 1]
    """
    check_learner(learner)
    if classes is not None:
        classes = whole(classes, field="classes", least=1, most=MOST_CLASSES)
    data = Units.of(made_up_rows if made_up_labels is None else (made_up_rows, made_up_labels))
    form = Form.of(data.columns[0], words=words, missing=finite_or_nan(missing, field="missing"))
    rows, labels = examples(data.columns, form, classes)
    if not len(rows):
        raise ParameterError("made_up_rows", "no row that has a class", "rows with labels from 0 to classes - 1")
    with apart():
        predict = answering(fitted(learner, rows, labels, seed_of(0)), classes)
        answers = predict(own_copy(rows))
    votes: npt.NDArray[Any] = np.zeros(0, dtype=np.int64)
    with suppress(TypeError, ValueError):
        votes = named_by(answers, classes)
    if votes.shape != (len(rows),) or not (votes >= 0).any():
        wanted = "scores" if classes is None else "classes"
        raise ParameterError("learner", f"{type(answers).__name__} that names none", f"{len(rows)} {wanted}, one a row")
    return votes
