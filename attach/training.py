"""Three lines around a training loop of your own: `private_sgd` accounts for it, draws its batches and its noise;
`private_ftrl` does so with noise that later steps take off again.

    with private_sgd(scope, rows, lambda batch: gradients(weights, batch), rate="0.1", steps=100, ...) as run:
        for mean_gradient in run:
            weights -= 0.5 * mean_gradient

The function is given once and called anew in each step, so it sees the weights as they are then. It returns one
gradient for each item of the batch (of a record, or of a whole user), and a batch may be empty, unless made-up rows are
given to try it on (`example_rows`). The gradient of an item must not change, to its last bit, with the rest of the
batch: `check_batch_invariance` tries the function on made-up rows, and `microbatch=1` makes it so. What the loop gets
is the noisy mean of the clipped gradients; weights, schedules and models made of it are free. The whole run is charged
before the first step, and steps are granted in blocks before they run; leaving the block settles the charge.

Where a unit has many rows, `units=ids` (an id beside each row) makes one item of all the rows of a unit; the function
then gets a list of such items, and returns one gradient for each. With `by_row=True` rows are drawn and clipped one by
one, and a unit is charged for as many rows as its scope says: that costs more than one gradient of all of them.

>>> import numpy as np
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> rows, weights = np.ones((50, 2)), np.zeros(2)
>>> with private_sgd(
...     scope, rows, lambda batch: weights - batch,
...     rate="0.1", steps=3, noise_multiplier=4, clip_norm=1, dimension=2, expected_batch_size=5,
... ) as run:
...     for mean_gradient in run:
...         weights -= 0.5 * mean_gradient
>>> run.receipt.value
StepsTaken(done=3, planned=3)
>>> def of_people(people):  # the gradient of a person: the mean of those of the person's rows
...     return np.array([(weights - own).mean(axis=0) for own in people]).reshape(len(people), 2)
>>> with private_sgd(
...     scope, rows, of_people, units=np.arange(50) // 5, key="people",
...     rate="0.1", steps=3, noise_multiplier=4, clip_norm=1, dimension=2, expected_batch_size=1,
... ) as run:
...     for mean_gradient in run:
...         weights -= 0.5 * mean_gradient
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.attach.fitting import told_what_fits
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.charging.charges import Receipt
from dpledger.ledger.charging.sessions import Session
from dpledger.ledger.charging.takeovers import Resume
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.training import DPFTRL, DPSGD, Gradients, StepsTaken
from dpledger.mechanisms.training.gradients import not_on_nobody
from dpledger.mechanisms.training.of_gradients import OfGradients
from dpledger.mechanisms.units import ByUnit
from dpledger.progress import track

__all__ = ["PrivateFTRL", "PrivateSGD", "private_ftrl", "private_sgd"]


def private_sgd(
    scope: Scope,
    data: object,
    gradients: Gradients,
    *,
    rate: Number,
    steps: int,
    noise_multiplier: Number,
    clip_norm: Number,
    dimension: int,
    expected_batch_size: Number,
    grid: Number | None = None,
    microbatch: int | None = None,
    units: object = None,
    grouped: bool = False,
    by_row: bool = False,
    example_rows: object = None,
    key: str | None = None,
    tail_delta: Number | None = None,
    resume: Resume = False,
) -> PrivateSGD:
    """Open a DP-SGD run on `data` in `scope`: a context to iterate over, one noisy mean gradient a step.

    The parameters are those of `DPSGD`; `key`, `tail_delta` and `resume` are the scope's. With `tail_delta=0` the run
    is priced step by step, and steps that never ran come back. `resume`: the token that was saved beside a model, or
    True if there is none: a run under the key whose process died continues after the steps that it was granted, and
    `StepsLost` warns of those that the model lacks, which without a token are all. `units`: an id for each row of
    `data` (`ByUnit`): items, and gradients, are then one for each unit. A scope whose unit may contribute many rows
    needs it, or `grouped=True` if the items of `data` are whole units already, or `by_row=True` if they are rows that
    are drawn and clipped one by one: then a unit is charged for as many rows as it may have. First `gradients` is tried
    on empty batches, of floats, of whole numbers or of objects, whatever types the data have, which one record may have
    decided: if it raises of all, or returns another shape than (0, dimension), ParameterError says what it raised, and
    nothing is spent. `example_rows`: made-up rows in the form of `data` (with `units`: `ByUnit(rows, units=ids)`),
    never private ones, for a function that cannot take an empty batch, as `torch.func.vmap` makes them: it is tried on
    these, and not called where a batch is empty. Raises BudgetRefused, ParameterError, RelationError or AlreadySpent as
    `Scope.open` does, with nothing spent. Inside the loop, ContractViolation if `gradients` fails on a batch: the run
    is closed and the full charge stands.

    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.ZCDP(1))
    >>> plan = {"rate": "0.1", "steps": 3, "noise_multiplier": 4, "clip_norm": 1, "expected_batch_size": 5}
    >>> weights = np.zeros(2)
    >>> with dpl.private_sgd(scope, np.ones((50, 2)), lambda batch: weights - batch, dimension=2, **plan) as run:
    ...     for mean_gradient in run:
    ...         weights -= 0.5 * mean_gradient
    >>> run.receipt.value
    StepsTaken(done=3, planned=3)
    """
    plan = DPSGD(
        rate=rate,
        steps=steps,
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        dimension=dimension,
        expected_batch_size=expected_batch_size,
        grid=grid,
        microbatch=microbatch,
        grouped=grouped,
        by_row=by_row,
    )
    ready, items, called = _ready(plan, scope, data, gradients, units, example_rows)
    with told_what_fits("scope.plan_training"):
        session = scope.open(ready, items, key=key, tail_delta=tail_delta, resume=resume)
    return PrivateSGD(session, called)


def private_ftrl(
    scope: Scope,
    data: object,
    gradients: Gradients,
    *,
    steps: int,
    groups: int,
    noise_multiplier: Number,
    clip_norm: Number,
    dimension: int,
    expected_batch_size: Number,
    rate: Number = 1,
    coefficients: Sequence[Number] = (),
    grid: Number | None = None,
    microbatch: int | None = None,
    units: object = None,
    grouped: bool = False,
    example_rows: object = None,
    key: str | None = None,
    tail_delta: Number | None = None,
) -> PrivateFTRL:
    """Open a DP-FTRL run on `data` in `scope`: a context to iterate over, one noisy mean gradient a step.

    As `private_sgd`, but that the parameters are those of `DPFTRL` (`planning.ftrl_plan` finds them), that nothing of
    the charge comes back where fewer steps run, and that such a run cannot be resumed. An optimiser without momentum,
    or with the one that the factor was made for, at a steady learning rate, gains most.

    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.ZCDP(1))
    >>> plan = {"steps": 6, "groups": 3, "noise_multiplier": 4, "clip_norm": 1, "expected_batch_size": 17}
    >>> weights = np.zeros(2)
    >>> rows = np.ones((50, 2))
    >>> with dpl.learning.private_ftrl(scope, rows, lambda batch: weights - batch, dimension=2, **plan) as run:
    ...     for mean_gradient in run:
    ...         weights -= 0.5 * mean_gradient
    >>> run.receipt.value
    StepsTaken(done=6, planned=6)
    """
    plan = DPFTRL(
        steps=steps,
        groups=groups,
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        dimension=dimension,
        expected_batch_size=expected_batch_size,
        rate=rate,
        coefficients=coefficients,
        grid=grid,
        microbatch=microbatch,
        grouped=grouped,
    )
    ready, items, called = _ready(plan, scope, data, gradients, units, example_rows)
    with told_what_fits("dpl.planning.ftrl_plan(..., scope=scope)"):
        session = scope.open(ready, items, key=key, tail_delta=tail_delta)
    return PrivateFTRL(session, called, steps=ready.steps)


Training = TypeVar("Training", bound=OfGradients)


def _ready(
    plan: Training, scope: object, data: object, gradients: Gradients, units: object, example_rows: object
) -> tuple[Training, object, Gradients]:
    """The mechanism as the scope wants it, the items of the data, and the function as it is called: each tried."""
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
    plan = plan.under(scope.relation, scope.unit)
    items = data if units is None else ByUnit(data, units=units)
    plan.inspect(items)
    if example_rows is not None:
        if isinstance(items, ByUnit) and not isinstance(example_rows, ByUnit):
            raise ParameterError(
                "example_rows", type(example_rows).__name__, "ByUnit(rows, units=ids), as the data are"
            )
        plan.probe(gradients, items, example_rows)
        gradients = not_on_nobody(gradients, plan.dimension)
    plan.probe(gradients, items)
    return plan, items, gradients


class _PrivateTraining:
    """An open run, as a context. Leaving the `with` block closes it, also by an exception."""

    def __init__(self, session: Session[Gradients, npt.NDArray[np.float64], StepsTaken], gradients: Gradients) -> None:
        self._session = session
        self._gradients = gradients

    @property
    def receipt(self) -> Receipt[StepsTaken]:
        """How many steps were started, and the signed entry of the commit; once closed."""
        return self._session.receipt

    def __enter__(self) -> Self:
        self._session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)


class PrivateFTRL(_PrivateTraining):
    """An open run: iterate over it for the noisy mean gradients, float64[dimension], with a progress bar.

    Leaving the `with` block closes the run, also by an exception; the whole charge stands.
    """

    def __init__(
        self,
        session: Session[Gradients, npt.NDArray[np.float64], StepsTaken],
        gradients: Gradients,
        *,
        steps: int,
    ) -> None:
        super().__init__(session, gradients)
        self._steps = steps

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        for _ in track(self._left(), "training", total=self._steps - self._session.asked):
            yield self._session.ask(self._gradients)

    def _left(self) -> Iterator[int]:
        """A number for each step that is left; none once all have run or the run is closed. Halted if it ended by a
        broken contract, which is not its end."""
        while not self._session.halted:
            yield self._session.asked
        if self._session.asked < self._steps:
            self._session.receipt  # noqa: B018  # there is one of a run that was closed


class PrivateSGD(_PrivateTraining):
    """An open run: iterate over it for the noisy mean gradients, float64[dimension], with a progress bar.

    Leaving the `with` block closes the run and commits the steps that were started, also by an exception; but an
    exception leaves a run that may be resumed open.
    """

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        for _ in self._session.steps():
            yield self._session.ask(self._gradients)

    def token(self) -> RunToken:
        """What to save beside the model, once the gradient of this step is in it; give it to `resume=`.

        >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.ZCDP(1))
        >>> plan = {"rate": "0.1", "steps": 3, "noise_multiplier": 4, "clip_norm": 1, "expected_batch_size": 5}
        >>> rows, weights = np.ones((50, 2)), np.zeros(2)
        >>> asked = {**plan, "dimension": 2, "key": "model", "resume": True}
        >>> with dpl.private_sgd(scope, rows, lambda batch: weights - batch, **asked) as run:
        ...     for mean_gradient in run:
        ...         weights -= 0.5 * mean_gradient
        ...         saved = weights.tolist(), run.token()
        >>> saved[1]["generation"], saved[1]["step"]
        (0, 3)
        """
        return self._session.token()
