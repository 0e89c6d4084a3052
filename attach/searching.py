"""A private search for the best of several ways to train, for about three times the price of one training.

    found = private_search(
        scope, [{"pace": 0.1}, {"pace": 1.0}], rows, trials=20, epsilon="0.1",
        training=DPSGD(rate="0.1", steps=100, ...), train=train, wrong=wrong,
    )
    found.value.place, found.value.model

`train(candidate, step)` trains as with `private_sgd`: `step(gradients)` is one noisy mean gradient. The rows are dealt
to training and to counting errors inside; no function sees more of them than batches, and single units that are held
out. With candidates that are estimators of `dpledger.attach.sklearn`, rows are `(X, y)` and nothing else is needed.
docs/private_search.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.decimals import Number, round_up, text, whole
from dpledger.errors import ContractViolation, ParameterError
from dpledger.ledger.charging.charges import Receipt
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.callers import came_to, signature_of
from dpledger.mechanisms.entropy import Entropy, system
from dpledger.mechanisms.protocol import Described
from dpledger.mechanisms.selection.search import Found, PrivateSearch, Searched
from dpledger.mechanisms.training import DPSGD, Gradients
from dpledger.mechanisms.training.training_run import TrainingRun
from dpledger.mechanisms.units import ByUnit, Units
from dpledger.schema import listed

__all__ = ["private_search"]

Step: TypeAlias = Callable[[Gradients], npt.NDArray[np.float64]]
Positions: TypeAlias = npt.NDArray[np.int64]


@runtime_checkable
class SearchedEstimator(Protocol):
    """An estimator that a search can fit: it says what a fit costs, and what it makes of units at positions."""

    def searched(self, data: Units, scope: Scope) -> Described:
        """What one fit is, for the ledger. ParameterError where it cannot be fitted on such data in the scope."""
        ...

    def trained_on(self, data: Units, positions: Positions, scope: Scope, entropy: Entropy) -> Any:
        """A fitted copy."""
        ...

    def is_wrong(self, data: Units, positions: Positions) -> npt.NDArray[np.bool_]:
        """Of each unit there, whether it is wrong of at least half of its rows."""
        ...


def private_search(
    scope: Scope,
    candidates: Sequence[Any],
    data: object,
    *,
    trials: Trials | int,
    epsilon: Number,
    training: DPSGD | None = None,
    train: Callable[[Any, Step], Any] | None = None,
    wrong: Callable[[Any, Any], bool] | None = None,
    held_out: Number = "0.2",
    units: object = None,
    example_rows: object = None,
    key: str | None = None,
    tail_delta: Number | None = None,
) -> Receipt[Found | None]:
    """Train candidates drawn at random, a secret number of times, and publish the one with the fewest errors on units
    held out: one charge in `scope`, and a receipt with the `Found`, or None where every trial failed.

    `candidates`: public, of one price: estimators (`LearnerClassifier`) whose fits promise the same, with data `(X,
    y)`; or whatever tells `train(candidate, step)` how to train, with `training`, the plan of every one, and
    `wrong(model, item)`, whether a model is wrong of one unit. `step(gradients)`: one step of the plan, at most so
    many. `trials`: the law of their number, or the mean of a geometric one, 2 or more. `epsilon`: of one count of
    errors. `held_out`: the chance of a unit to be held out. `units`: an id for each row. `example_rows`: made-up rows,
    on the first of which `wrong` is tried beforehand, as `train` is on no rows. `key`, `tail_delta`: as of
    `Scope.release`; raises as it does, with nothing spent.
    Assumes: functions keep nothing of a trial, and nobody sees the trials or how long they took.
    Source: docs/proofs/selection.md, section 7.

    >>> budget = dpl.ApproxDP(20, "1e-6")
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> plan = dpl.DPSGD(rate="0.2", steps=5, noise_multiplier=2, clip_norm=1, dimension=2, expected_batch_size=10)
    >>> def train(pace, step):
    ...     weights = np.zeros(2)
    ...     for _ in range(5):
    ...         weights = weights - pace * step(lambda batch: weights - batch)
    ...     return weights
    >>> def far(weights, row):
    ...     return np.abs(weights - row).max() > 0.5
    >>> found = dpl.private_search(
    ...     scope, [0.01, 0.5], np.ones((50, 2)), trials=4, epsilon="0.5", training=plan, train=train, wrong=far
    ... )
    >>> found.value.place in (0, 1), found.value.model.shape
    (True, (2,))
    """
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
    every = listed(candidates, field="candidates")
    if not every:
        raise ParameterError("candidates", "none", "at least one")
    items = data if units is None else ByUnit(data, units=units)
    of_estimators = all(isinstance(one, SearchedEstimator) and not isinstance(one, type) for one in every)
    given = [name for name, one in (("training", training), ("train", train), ("wrong", wrong)) if one is not None]
    if of_estimators:
        if given:
            raise ParameterError(
                given[0], "given together with estimators", "nothing: the estimators say it themselves"
            )
        plan, searched, by_claim = _of_estimators(every, items, scope)
    else:
        by_claim = False
        plan, searched = _of_functions(every, items, scope, training, train, wrong, example_rows)
    search = PrivateSearch(
        candidates=len(every),
        training=plan,
        epsilon=epsilon,
        repeats=_law(trials),
        held_out=held_out,
        by_claim=by_claim,
    )
    return scope.release(search, searched, key=key, tail_delta=tail_delta)


def _law(trials: Trials | int) -> Trials:
    if isinstance(trials, NegativeBinomialTrials | PoissonTrials):
        return trials
    mean = whole(trials, field="trials", least=2, most=10**4)
    return NegativeBinomialTrials(eta=1, gamma=round_up(Fraction(1, mean)))


def _of_estimators(every: list[Any], items: object, scope: Scope) -> tuple[Described, Searched, bool]:
    units = Units.of(items)
    fits = [one.searched(units, scope) for one in every]
    placed = [one.under(scope.relation, scope.unit) for one in fits]
    by_claim = any(one.parts() != placed[0].parts() for one in placed)
    if by_claim and len(claims := list(dict.fromkeys(one.claim() for one in placed))) > 1:
        found = " and ".join(f"{claim.kind} {text(claim.epsilon_at(Decimal('1e-6')))}" for claim in claims[:2])
        expected = "fits that promise the same (each epsilon, or rho, is a fit's own): here at delta 1e-6"
        raise ParameterError("candidates", found, expected)
    searched = Searched(
        data=items,
        train=lambda place, positions, entropy: (every[place].trained_on(units, positions, scope, entropy),),
        wrong=lambda model, positions: model.is_wrong(units, positions),
    )
    return fits[0], searched, by_claim


def _of_functions(
    every: list[Any],
    items: object,
    scope: Scope,
    training: DPSGD | None,
    train: Callable[[Any, Step], Any] | None,
    wrong: Callable[[Any, Any], bool] | None,
    example_rows: object,
) -> tuple[DPSGD, Searched]:
    if not isinstance(training, DPSGD):
        raise ParameterError("training", type(training).__name__, "DPSGD(...), the plan of each candidate")
    if train is None or wrong is None:
        raise ParameterError("train" if train is None else "wrong", "nothing", "a function")
    for function in (train, wrong):
        signature_of(function)
    plan = training.under(scope.relation, scope.unit)
    plan.inspect(items)
    units = Units.of(items)

    def opened(positions: Positions, entropy: Entropy) -> TrainingRun:
        return plan.open(_part(items, units, positions), entropy=entropy)

    def trained(place: int, positions: Positions, entropy: Entropy) -> tuple[Any] | None:
        run = opened(positions, entropy)
        model = came_to(lambda: train(every[place], run.ask))
        if run.close().outside_guarantee:
            raise ContractViolation("the gradients of a training failed: one record may be why")
        return model  # None: of what it was handed, which is noisy

    def is_wrong(model: Any, positions: Positions) -> npt.NDArray[np.bool_]:
        return np.array([_judged(wrong, model, item) for item in map(units.item, positions.tolist())], dtype=np.bool_)

    nobody = np.zeros(0, dtype=np.int64)
    _rehearse(lambda: train(every[0], opened(nobody, system()).ask), wrong, example_rows)
    return training, Searched(data=items, train=trained, wrong=is_wrong)


def _judged(wrong: Callable[[Any, Any], bool], model: Any, item: Any) -> bool:
    """Whether the model is wrong of a unit; where that cannot be said, it is."""
    found = came_to(lambda: bool(wrong(model, item)))
    return found is None or found[0]


def _rehearse(train: Callable[[], Any], wrong: Callable[[Any, Any], bool], example_rows: object) -> None:
    """Train the first candidate on nobody, and judge it by a made-up unit: what fails there would fail in every trial,
    where nothing may be told of it."""
    try:
        model = train()
    except Exception as error:
        raise ParameterError(
            "train", f"{type(error).__name__}: {error}", "a training that also runs on no rows"
        ) from None
    if example_rows is None:
        return
    try:
        bool(wrong(model, Units.of(example_rows).item(0)))
    except Exception as error:
        raise ParameterError("wrong", f"{type(error).__name__}: {error}", "true or false of a unit") from None


def _part(items: object, units: Units, positions: Positions) -> object:
    """The units at these positions, in the form of the data."""
    if not isinstance(items, ByUnit):
        return units.take(positions)
    rows = units.rows(positions)
    return ByUnit(rows if units.side_by_side else rows[0], units=units.owners(positions))
