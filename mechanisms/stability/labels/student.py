"""A student: a model of public rows and of labels that were answered privately. It may be published.

It is computed of what was answered alone, so it costs nothing more, whatever is asked of it; and another student may be
taught by the same labels. It holds no private row, no model of a chunk, and no public row either.

>>> import numpy as np
>>> from dpledger.mechanisms.stability.ensembles.forms import Form
>>> def nearest(rows, labels):
...     return lambda asked: labels[np.abs(rows[None] - asked[:, None]).argmin(axis=1)]
>>> rows = np.array([0.0, 1.0, 9.0])
>>> form = Form.of(rows, words=(), missing=0.0)
>>> found = taught(nearest, rows, Labels(np.array([0, 0, 1]), np.array([True, True, False])), form)
>>> found
Student(3 labels, 1 of them by a coin)
>>> found.predict([2.0, 8.0]).tolist()
[0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dpledger.errors import ContractViolation, ParameterError, shortened
from dpledger.mechanisms.stability.ensembles.forms import Form
from dpledger.mechanisms.stability.ensembles.learners import (
    Learner,
    Predict,
    apart,
    check_learner,
    fitted,
    own_copy,
    seed_of,
)

__all__ = ["Labels", "Student", "taught"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Labels:
    """The class of each public row, and whether the models answered it: all others are fair coins. Published."""

    classes: npt.NDArray[np.int64]
    answered: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        self.classes.setflags(write=False)
        self.answered.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Student:
    """The labels that were answered, and a model that was taught by them. Everything here may be published and used
    without limit (`LabelPrivateLearner` says what is protected). Pickles if the model does.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> def halves(rows, labels):
    ...     return lambda asked: (np.asarray(asked) > 450).astype(int).ravel()
    >>> private = dpl.stability.Ensemble.fit(halves, (np.arange(900.0), [0, 1] * 450), 300, "slots")
    >>> votes = dpl.stability.PrivateClassifier(epsilon=1, delta="1e-6", cutoff=2, chunks=300)
    >>> teacher = dpl.stability.LabelPrivateLearner(votes).under(dpl.Relation.REPLACE_ONE, dpl.Unit("record"))
    >>> lesson = dpl.stability.Lesson(private, np.array([1.0, 800.0]), halves)
    >>> student = teacher.release(lesson, entropy=seeded(3)).value
    >>> student.predict([4.0, 700.0]).tolist()
    [0, 1]
    """

    labels: npt.NDArray[np.int64]
    answered: npt.NDArray[np.bool_]
    form: Form
    model: Predict | None
    failure: str | None = None

    def __repr__(self) -> str:
        return f"Student({len(self.labels)} labels, {int((~self.answered).sum())} of them by a coin)"

    def predict(self, rows: Any) -> Any:
        """What the model predicts for rows like the public ones. ParameterError for rows of another shape, and where
        no student was named; ContractViolation where it failed when it was taught (its labels stand: `teach`)."""
        if self.failure is not None:
            raise ContractViolation(f"the student failed when it was taught: {self.failure}. Its labels stand: teach()")
        if self.model is None:
            raise ParameterError("student", "nothing, when the labels were answered", "one to teach by them: teach()")
        return self.model(own_copy(self.form.asked(rows)))

    def teach(self, student: Learner, rows: Any) -> Self:
        """Another student, by the same labels of the same public rows: costs nothing. ParameterError where there are
        not as many rows as labels; raises what the student raises."""
        check_learner(student)
        read = self.form.asked(rows)
        if len(read) != len(self.labels):
            raise ParameterError("rows", f"{len(read)} rows", f"the {len(self.labels)} that have labels")
        model = _model(student, read, self.labels)
        return type(self)(self.labels, self.answered, self.form, model)


def taught(student: Learner | None, rows: Any, labels: Labels, form: Form) -> Student:
    """The student of these rows and labels. One that fails is told of when it is asked: its labels are paid for.

    It is told what it raised: that is computed of what may be published."""
    model, failure = None, None
    if student is not None:
        try:
            model = _model(student, rows, labels.classes)
        except Exception as error:
            failure = shortened(f"{type(error).__name__}: {error}")
    return Student(labels.classes, labels.answered, form, model, failure)


def _model(student: Learner, rows: Any, labels: npt.NDArray[np.int64]) -> Predict:
    with apart():
        return fitted(student, own_copy(rows), labels.copy(), seed_of(0))
