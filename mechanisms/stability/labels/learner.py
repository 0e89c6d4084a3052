"""A learner whose labels are private: an ensemble labels public rows, and a student learns from the labels alone.

    each public row: the class that the ensemble answers, by tests of distances (`PrivateClassifier`), by a noisy
    maximum (`NoisyVotes`: PATE), or by both (`HybridVotes`); a fair coin where it is UNSTABLE, or where the run has
    halted: never anything else of the data
    the student is fitted to the rows and these labels, and may be published and used without limit

Two uses. *Private records and public rows*: under the relations of the ensemble's chunker. *Private labels alone*:
under label_flip the rows may be the features of records too, whose labels are not used: an ensemble of the first half
by position, the rows of the second. Features are not protected then, and the record says so.
Source: Bassily-Thakkar-Thakurta 2018, Algorithm 5; Papernot et al. 2018; proofs: docs/proofs/stability.md, section 9.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.relations import Relation, Unit
>>> def halfway(rows, labels):
...     middle = (rows[labels == 0].max() + rows[labels == 1].min()) / 2
...     return lambda asked: (asked > middle).astype(int)
>>> rows, labels = np.arange(9000.0), (np.arange(9000) > 4500).astype(int)
>>> private = Ensemble.fit(halfway, (rows, labels), 300, "slots")
>>> teacher = LabelPrivateLearner(PrivateClassifier(epsilon=1, delta="1e-6", cutoff=2, chunks=300)).under(
...     Relation.REPLACE_ONE, Unit("record")
... )
>>> public = np.array([100.0, 1000.0, 4400.0, 4600.0, 8000.0])
>>> student = teacher.release(Lesson(private, public, halfway), entropy=seeded(3)).value
>>> student.labels.tolist(), student.predict([4000, 5000]).tolist()
([0, 0, 0, 1, 1], [0, 1])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import StringConstraints

from dpledger.accounting.composition import Composition, PostProcessed
from dpledger.accounting.guarantees import Failure, Guarantee
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import uniform
from dpledger.mechanisms.protocol import Release, fixed
from dpledger.mechanisms.stability.answers import UNSTABLE, StableAnswer
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, form_of, queries_of
from dpledger.mechanisms.stability.ensembles.learners import Learner, check_learner
from dpledger.mechanisms.stability.hybrid_votes import HybridVotes
from dpledger.mechanisms.stability.labels.student import Labels, Student, taught
from dpledger.mechanisms.stability.noisy_votes import NoisyVotes
from dpledger.mechanisms.stability.over_ensemble import ASSUMES
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["FEATURES", "LabelPrivateLearner", "Lesson"]

FEATURES = "labels alone are protected: the features of a record are not, neither of a private one nor of a public row"
"""What the record says under label_flip."""
_STUDENT = (
    "; the student sees nothing but the public rows and their labels, and those rows are public (under label_flip: "
    "features, whose labels are not used)"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lesson:
    """What a `LabelPrivateLearner` runs on. `teachers`: the private ensemble. `rows`: public, like those that were
    fitted, without labels. `student`: an estimator or a function fit(X, y) -> predict; None: labels alone.

    >>> def majority(rows, labels):
    ...     return lambda asked: np.full(len(asked), labels.mean() > 0.5, dtype=int)
    >>> teachers = dpl.stability.Ensemble.fit(majority, (np.zeros((9, 2)), [0] * 9), 3, "slots")
    >>> lesson = dpl.stability.Lesson(teachers, rows=np.zeros((4, 2)), student=majority)
    >>> lesson.rows.shape
    (4, 2)
    """

    teachers: Ensemble
    rows: Any
    student: Learner | None = None

    def __repr__(self) -> str:
        return "Lesson(...)"


@record
class LabelPrivateLearner:
    """Labels for public rows by an ensemble, and a student of them; a fair coin for each row that is not answered.

    `of`: what answers the rows, a `PrivateClassifier`, `NoisyVotes` or `HybridVotes`; its claim is the learner's.
    `student`: what it is, in words, for the record.

    Data: a `Lesson`, with no more rows than `max_queries` of `of`, if that is given. The value is a `Student`.

    >>> votes = dpl.stability.NoisyVotes(sigma=40, chunks=250, max_queries=300)
    >>> dpl.stability.LabelPrivateLearner(votes, student="logistic regression").claim().rho
    Decimal('0.1875')
    """

    of: PrivateClassifier | NoisyVotes | HybridVotes
    student: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["label_private_learner"] = tag(default="label_private_learner")

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism, and what answers, for this relation and unit. RelationError as of `of`."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        placed = self.of.under(relation, unit)
        return dataclasses.replace(self, of=placed, relation=own_relation, unit=own_unit)

    def claim(self) -> Guarantee:
        """That of the answers."""
        return self.of.claim()

    def parts(self) -> Composition:
        """Those of the answers: the labels and the student are made of nothing else."""
        return PostProcessed(self.of.parts())

    def failures(self) -> tuple[Failure, ...]:
        """Those of the answers."""
        return self.of.failures()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, those of `of` inside."""
        values = {
            "of": {"kind": self.of.kind, **self.of.parameters()},
            "student": self.student,
            "assumes": ASSUMES + _STUDENT,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """As `of` says."""
        return self.of.values_read_as()

    def inspect(self, data: object) -> None:
        """ParameterError where the data are no `Lesson`, its ensemble does not fit, or its rows are none, more than are
        planned, or not like those that were fitted. All of that is public."""
        if not isinstance(data, Lesson):
            raise ParameterError("data", type(data).__name__, "a Lesson(ensemble, public rows, student)")
        self.of.inspect(data.teachers)
        if data.student is not None:
            try:
                check_learner(data.student)
            except ParameterError as error:
                raise ParameterError("data", f"a student that is {error.value}", error.expected) from None
        try:
            count = len(queries_of(data.teachers, data.rows))
        except ParameterError as error:
            raise ParameterError("data", error.value, error.expected) from None
        if not count:
            raise ParameterError("data", "no public rows", "at least one")
        if self.of.max_queries is not None and count > self.of.max_queries:
            raise ParameterError("data", f"{count} public rows", f"at most max_queries = {self.of.max_queries}")

    def release(self, data: Lesson, *, entropy: Entropy) -> Release[Student]:
        """Label the rows, and teach the student. ParameterError where `inspect` has one."""
        self.inspect(data)
        rows = queries_of(data.teachers, data.rows)
        run = self.of.open(data.teachers, entropy=entropy)
        labels = _labelled(run.ask_many(data.rows), len(rows), self.of.classes, entropy)
        ended = run.close()
        told = (FEATURES,) if self.relation is Relation.LABEL_FLIP else ()
        return Release(
            value=taught(data.student, rows, labels, form_of(data.teachers)),
            parts=PostProcessed(ended.parts),
            warnings=(*ended.warnings, *told),
        )


def _labelled(answers: tuple[StableAnswer, ...], count: int, classes: int, entropy: Entropy) -> Labels:
    """A class for each of so many rows: the answer, or a coin of that many equal sides."""
    given = np.array([UNSTABLE is not answer for answer in answers], dtype=np.bool_)
    answered = np.zeros(count, dtype=np.bool_)
    answered[: len(answers)] = given
    labels = np.empty(count, dtype=np.int64)
    labels[answered] = np.fromiter((answer for answer in answers if answer is not UNSTABLE), dtype=np.int64)
    labels[~answered] = uniform(classes, int((~answered).sum()), entropy=entropy, given=True)
    return Labels(labels, answered)
