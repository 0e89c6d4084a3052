"""A learner on made-up rows, where it may say what is wrong: in an ensemble it abstains without a word.

>>> def forgets_to_return(rows, labels):
...     lambda asked: labels
>>> try_learner(forgets_to_return, np.zeros((4, 2)), [0, 1, 0, 1])
Traceback (most recent call last):
...
TypeError: a learner that returns no function
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles.forms import Column, Form, finite_or_nan
from dpledger.mechanisms.stability.ensembles.learners import (
    Learner,
    answering,
    apart,
    check_learner,
    examples,
    fitted,
    named_by,
    own_copy,
    seed_of,
)
from dpledger.mechanisms.stability.ensembles.votes import MOST_CLASSES
from dpledger.mechanisms.units import Units

__all__ = ["try_learner"]


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
    >>> dpl.try_learner(majority, np.zeros((4, 2)), [0, 1, 1, 1]).tolist()
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
