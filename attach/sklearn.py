"""Private learners as scikit-learn classifiers: tables in, labels out, an entry in the ledger for each `fit`.

    stumps = StumpClass(bins)
    model = LearnerClassifier(ExponentialPPACLearner(stumps, epsilon="0.5"), bins, classes=("no", "yes"), scope=scope)
    model.fit(table, labels).predict(other_table)

A learner says by its `domain` which rows it takes, and the table becomes those: its own binning reads the table as it
is; numbered points are the bins of all columns together; bits are the tests of each column. A learner of users takes
`fit(table, labels, units=ids)`, and as many rows of each as a unit of the scope may contribute; so does one of rows, at
most as many, in a scope where one unit may have several. Bins and classes are
public and exist before the data: what an entry or a label is never raises, as the sample would show by it.

The learner's own parameters are parameters of the model, `learner__rho` and the like, so that `GridSearchCV` walks
over them. Each `fit` is one release and pays for itself, clones included: `cross_val_score` with five folds spends five
times. With `key=` it is one fit for ever: a script that runs again gets the same rule, and pays nothing.
Folds overlap, so nothing is saved by them. A pickled model predicts; it has no scope, and cannot be fitted. What a
pipeline computes of the rows before they come here (a scaler that is fitted) has no guarantee: bins need none.
Needs scikit-learn: `pip install 'dpledger[sklearn]'`.

>>> import numpy as np
>>> from sklearn.model_selection import cross_val_score
>>> from dpledger.accounting.guarantees import PureDP
>>> from dpledger.ledger.ledger import Ledger
>>> from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
>>> from dpledger.mechanisms.learning.tables.stumps import StumpClass
>>> scope = Ledger.in_memory().scope("people", unit="record", relation="add_remove", budget=PureDP(40))
>>> bins = Binning({0: [20, 40, 60]}, source="ages by decades")
>>> learner = ExponentialPPACLearner(StumpClass(bins), epsilon=4)
>>> ages = np.arange(100.0).reshape(-1, 1)
>>> old = np.where(ages[:, 0] >= 60, "old", "young")
>>> model = LearnerClassifier(learner, bins, classes=("young", "old"), scope=scope).fit(ages, old)
>>> model.predict([[70], [30], [None]]).tolist(), model.hypothesis_.params
(['old', 'young', 'young'], {'place': '6'})
>>> cross_val_score(model, ages, old, cv=5).shape, scope.spent(0).upper
((5,), 12.0)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.attach.extras import extra
from dpledger.errors import ParameterError
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import Entropy, system
from dpledger.mechanisms.learning.domains import Domain, LearnsClasses, LearnsRows, LearnsUsers, rows_for
from dpledger.mechanisms.learning.hypotheses import ConstantLabel, Hypothesis
from dpledger.mechanisms.learning.samples import LabeledSample, UserSample
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.users.reading import cap_users
from dpledger.mechanisms.numeric.containers import array_of, holds_entries
from dpledger.mechanisms.numeric.rows import word, word_positions
from dpledger.mechanisms.protocol import Mechanism
from dpledger.mechanisms.units import ByUnit, Units
from dpledger.schema import listed

with extra("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils import Tags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["LearnerClassifier"]

Labels: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]

_LEARNERS = "learner__"  # what scikit-learn puts before the name of a parameter of a parameter
_MOST_CLASSES = 255
_HELD = "that holds its entries (what is lazy is computed first)"  # else it might fail on a record, before the charge
_NOT_KEPT = ("scope", "receipt_")  # by a pickle: a handle on a ledger, and what opens a digest


def _says(what: str) -> Any:
    """A condition of scikit-learn's: that what is learned says this beside labels."""
    return available_if(lambda self: isinstance(self.learner, LearnsClasses) and what in self.learner.says)


class LearnerClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A learner of the house as a classifier.

    `learner`: a mechanism that learns from rows and labels (it says so by its `domain`) or from users (`user_domain`).
    `binning`: how a row of a table is read. `classes`: the labels, public, two (or as many as the learner takes); one
    that is none of them counts as the first. `scope`: where each `fit` is released and paid for. `key`: the name of one
    fit, once for ever, as `release` takes it (default: each `fit` is a new one). Under a key that was used for this
    learner, `fit` gives the rule of that first time, whatever table, bins and classes are now, and pays nothing;
    `receipt_.replayed` says so. So folds under one key would all have the rule of the first.

    After `fit`: `hypothesis_` (what was learned; or `dpl.learning.FAIL` where the learner says so, and the first class
    is predicted), `receipt_`, `classes_` (sorted, as scikit-learn has them: the columns of `predict_proba`),
    `n_features_in_` and, of a table, `feature_names_in_`. Raises in `fit`, with nothing spent: ParameterError (a
    ValueError) for parameters, containers and axes that cannot be used, BudgetRefused and RelationError as
    `Scope.release` does; under a used key AlreadySpent, for a learner whose rules are not kept, and KeyReused, for
    another learner."""

    def __init__(self, learner: Any, binning: Any, classes: Any, scope: Any, key: Any = None) -> None:
        self.learner = learner
        self.binning = binning
        self.classes = classes
        self.scope = scope
        self.key = key

    def fit(self, X: Any, y: Any, units: Any = None, **refused: Any) -> Self:  # noqa: N803  # scikit-learn's name
        """Learn from a table and a column of labels: one release, or what it gave under `key`. `units`: beside each row
        the id of whom it belongs to, for learners of users, and where one unit of the scope may have many rows.
        `sample_weight` is refused: a row that weighs more moves the result further than was paid for."""
        for name in refused:
            expected = (
                ("nothing: all rows weigh alike, as they are charged")
                if name == "sample_weight"
                else "X, y and units alone"
            )
            raise ParameterError(name, "given", expected)
        learner, binning, scope = self._checked()
        names = _words(self.classes, learner.labels if isinstance(learner, LearnsClasses) else 2)
        table, labels = _table(X), _column(y)
        self._note_columns(table, reset=True)
        binning.rows(table)
        rows, said = rows_for(_domain(learner), binning, table), word_positions(labels, names) % len(names)
        receipt = scope.release(learner, _sample(learner, rows, said, units, scope), key=self.key)
        self.classes_, self.places_ = _sorted(list(self.classes))
        self.receipt_, self.hypothesis_ = replace(receipt, reads=_read_as(learner, binning, names)), receipt.value
        return self

    def predict(self, X: Any) -> Labels:  # noqa: N803  # scikit-learn's name
        """The class of each row."""
        rows = self._rows(X)
        found = self.hypothesis_ if isinstance(self.hypothesis_, Hypothesis) else ConstantLabel(0)
        said: Labels = self.classes_[np.argsort(self.places_)[found.predict(rows)]]
        return said

    @_says("probabilities")  # type: ignore[untyped-decorator]  # scikit-learn's
    def predict_proba(self, X: Any) -> Labels:  # noqa: N803  # scikit-learn's name
        """The chance of each class for each row by the model, float64[rows, classes]; of models that have one."""
        rows = self._rows(X)
        return np.asarray(self.hypothesis_.probabilities(rows)[:, self.places_])

    @_says("scores")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Labels:  # noqa: N803  # scikit-learn's name
        """How far each row is on the side of the second of `classes_`, float64[rows]; of several classes the score of
        each; of models that have one."""
        rows = self._rows(X)
        scores = np.asarray(self.hypothesis_.scores(rows))
        if scores.ndim == 1:
            return scores if self.places_[0] == 0 else -scores
        return scores[:, self.places_]

    def _rows(self, x: Any) -> Any:
        """The rows of a table as the learner takes them."""
        check_is_fitted(self)
        table = _table(x)
        self._note_columns(table, reset=False)
        self.binning.rows(table)
        return rows_for(_domain(self.learner), self.binning, table)

    def searched(self, data: Units, scope: Scope) -> Any:
        """What one fit costs in `private_search`: its learner. ParameterError for a learner of users, another scope, or
        data that are no table beside labels."""
        learner, binning, own = self._checked()
        if not isinstance(learner, LearnsRows):
            raise ParameterError("learner", type(learner).__name__, "a learner of rows")
        if own is not scope:
            raise ParameterError("scope", "another scope than that of a candidate", "the scope of every candidate")
        _words(self.classes, learner.labels if isinstance(learner, LearnsClasses) else 2)
        if len(data.columns) != 2:
            raise ParameterError("data", f"{len(data.columns)} columns", "(X, y): a table and a column of labels")
        table, labels = _table(data.columns[0]), _column(data.columns[1])
        sample = LabeledSample(rows_for(learner.domain, binning, table), labels)
        learner.inspect(sample)
        return learner

    def trained_on(self, data: Units, positions: Positions, scope: Scope, entropy: Entropy) -> Self:
        """A fitted copy, by all rows of the units at `positions`, with noise of `entropy`: one trial of a search."""
        table, labels = data.rows(positions)
        owners = None if data.groups is None else data.owners(positions)
        model: Self = clone(self)
        model._note_columns(_table(table), reset=True)
        rows = rows_for(_domain(self.learner), self.binning, _table(table))
        sample = _sample(self.learner, rows, self._places(labels), owners, scope)
        model.hypothesis_ = self.learner.under(scope.relation, scope.unit).release(sample, entropy=entropy).value
        model.classes_, model.places_ = _sorted(list(self.classes))
        return model

    def is_wrong(self, data: Units, positions: Positions) -> npt.NDArray[np.bool_]:
        """Of each unit there, whether this model is wrong of at least half of its rows."""
        table, labels = data.rows(positions)
        found = self.hypothesis_ if isinstance(self.hypothesis_, Hypothesis) else ConstantLabel(0)
        wrong = found.predict(rows_for(_domain(self.learner), self.binning, _table(table))) != self._places(labels)
        owners = data.owners(positions)
        tallies = (np.bincount(owners[rows], minlength=len(positions)) for rows in (wrong, slice(None)))
        missed, whole = tallies
        return np.asarray(2 * missed >= whole, dtype=np.bool_)

    def _places(self, labels: Any) -> npt.NDArray[np.int64]:
        names = _words(self.classes, self.learner.labels if isinstance(self.learner, LearnsClasses) else 2)
        return word_positions(_column(labels), names).astype(np.int64) % len(names)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Those of the model and, as `learner__rho`, those of its learner."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep and is_dataclass(self.learner) and not isinstance(self.learner, type):
            found |= {
                f"{_LEARNERS}{one.name}": getattr(self.learner, one.name) for one in fields(self.learner) if one.init
            }
        return found

    def set_params(self, **params: Any) -> Self:
        """As scikit-learn's; a learner never changes, so that another with these parameters takes its place."""
        own = {name: value for name, value in params.items() if not name.startswith(_LEARNERS)}
        if unknown := sorted(set(params) - set(self.get_params())):
            raise ParameterError(unknown[0], "given", f"one of {', '.join(sorted(self.get_params()))}")
        super().set_params(**own)
        theirs = {name.removeprefix(_LEARNERS): value for name, value in params.items() if name not in own}
        if theirs:
            self.learner = replace(self.learner, **theirs)
        return self

    def _note_columns(self, table: Any, *, reset: bool) -> None:
        """Keep, or compare, number and names of the columns; not of a list, in which each row has its own."""
        if not isinstance(table, (list, tuple)):
            validate_data(self, table, reset=reset, skip_check_array=True)

    def _checked(self) -> tuple[Any, Binning, Scope]:
        """Learner, binning and scope; ParameterError for what is none."""
        if isinstance(self.learner, type):
            raise ParameterError("learner", f"the class {self.learner.__name__}", "a learner, made with its parameters")
        if not isinstance(self.learner, Mechanism) or not isinstance(self.learner, LearnsRows | LearnsUsers):
            raise ParameterError("learner", type(self.learner).__name__, "a learner of labelled rows, with a `domain`")
        if not isinstance(self.binning, Binning):
            raise ParameterError("binning", type(self.binning).__name__, "a Binning")
        if not isinstance(self.scope, Scope):
            found = "none (a pickled copy has none: n_jobs=1)" if self.scope is None else type(self.scope).__name__
            raise ParameterError("scope", found, "a scope (see Ledger.scope)")
        return self.learner, self.binning, self.scope

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = isinstance(self.learner, LearnsClasses) and self.learner.labels > 2
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.non_deterministic = True
        return tags

    def __sklearn_clone__(self) -> Self:
        """An unfitted model that spends in the same scope: a scope is a handle, and is not copied."""
        return type(self)(**self.get_params(deep=False))

    def __copy__(self) -> Self:
        """A model of its own in the same scope, as fitted as this one."""
        other: Self = clone(self)
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, _: object) -> Self:
        """As `__copy__`: nothing that it holds changes."""
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _NOT_KEPT} | {"scope": None}


def _read_as(learner: object, binning: Binning, names: list[str]) -> tuple[str, ...]:
    """What entries and labels count as that are none of those declared."""
    labels = f"labels are compared as words, so that 1, 1.0, True and '1' are one: {names[1]!r} is the second class"
    others = f"any other label, also NaN or a missing one, is the first, {names[0]!r}"
    users = () if isinstance(learner, LearnsRows) else ("a user with such a row, or with too few, counts nowhere",)
    return (*binning.read_as(), *users, labels, others)


def _domain(learner: LearnsRows | LearnsUsers) -> Domain:
    """What rows become for it."""
    return learner.domain if isinstance(learner, LearnsRows) else learner.user_domain


def _sample(learner: object, rows: Any, labels: Any, units: Any, scope: Scope) -> LabeledSample | UserSample:
    """Rows and labels as the learner takes them: of users, as many of each as a unit may contribute, at random."""
    if isinstance(learner, LearnsRows):
        return LabeledSample(rows, labels, units)
    if units is None:
        raise ParameterError("units", "none", "the id of a user beside each row")
    by_user = ByUnit((rows, labels), units=units)
    return cap_users(by_user, examples=scope.unit.max_contributions, entropy=system())


def _table(x: Any) -> Any:
    """Rows with columns, as they are or as an array; ParameterError for anything else."""
    if hasattr(x, "toarray"):
        raise ParameterError("X", "a sparse matrix", "a dense table or array (X.toarray() makes one)")
    if isinstance(x, (list, tuple)) or (hasattr(x, "columns") and holds_entries(x)):
        return x
    rows = array_of(x)
    if rows is None or rows.ndim != 2:
        if rows is None:
            raise ParameterError("X", type(x).__name__, f"a table, a list of rows, or an array with two axes {_HELD}")
        expected = "two axes. Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
        raise ParameterError("X", f"{rows.ndim} axes", expected)
    if not rows.shape[1]:
        raise ParameterError("X", f"0 feature(s) (shape={rows.shape}) while a minimum of 1 is required", "columns")
    return rows


def _column(y: object) -> object:
    """Labels as one column; a single column of a table or array, with a warning, as that."""
    if y is None:
        raise ParameterError("y", "None: LearnerClassifier requires y to be passed, but the target y is None", "labels")
    rows = array_of(y)
    if rows is None and not isinstance(y, Sequence):
        raise ParameterError("y", type(y).__name__, f"a list, or an array {_HELD}, of one label a row")
    if rows is None or rows.ndim == 1:
        return y if rows is None else rows
    if rows.ndim != 2 or rows.shape[1] != 1:
        found = f"{rows.shape[1]} columns" if rows.ndim == 2 else f"{rows.ndim} axes"  # not how many rows there are
        raise ParameterError("y", found, "a 1d array: one label a row")
    told = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
    warnings.warn(told, DataConversionWarning, stacklevel=3)
    return rows[:, 0]


def _sorted(classes: list[Any]) -> tuple[Labels, npt.NDArray[np.intp]]:
    """The classes in their order, and of each the place at which it was declared; as they were declared, where numbers
    stand beside texts."""
    given = _as_given(classes)
    try:
        places = np.argsort(given, kind="stable")
    except TypeError:
        places = np.arange(len(given))
    return given[places], places


def _as_given(classes: list[Any]) -> Labels:
    """The classes as an array that holds them as they are: of a number beside a text numpy would make two texts."""
    found = np.array(classes)
    mixed = found.dtype.kind in "US" and not all(isinstance(one, type(classes[0])) for one in classes)
    return np.array(classes, dtype=object) if mixed else found


def _words(classes: object, labels: int) -> list[str]:
    """The classes as words, by which labels are compared: as many as the learner takes."""
    words = [word(one) for one in listed(classes, field="classes", most=_MOST_CLASSES)]
    known = [one for one in words if one is not None]
    if len(set(known)) != len(words) or len(words) != labels:
        many = "two labels" if labels == 2 else f"{labels} labels, as many as the learner takes"
        raise ParameterError("classes", f"{len(words)} classes", f"{many}, different as words")
    return known
