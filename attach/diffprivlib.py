"""A scope as the accountant of diffprivlib: what its functions and models spend is charged before they read the data.

    accountant = scope.as_diffprivlib(relation="replace_one", by=..., reason=...)
    diffprivlib.tools.mean(ages, epsilon=0.1, bounds=(0, 100), accountant=accountant)

Needs diffprivlib: `pip install 'dpledger[diffprivlib]'`.

diffprivlib asks its accountant twice: `check` before it reads the data, `spend` once the noise is drawn, when a model
has its coefficients already. So `check` charges, durably; the `spend` of the same function, which follows, finds its
charge made. A run that raises between the two keeps its charge. A `spend` without a `check` charges itself.

It is no copy anywhere. Where it is copied (`sklearn.clone`), it stays itself; where it is pickled for a worker (loky of
joblib, multiprocessing), the worker opens the ledger file and charges there. A ledger that no worker can open (in
memory, in a store of your own, signed by a key that is neither in a file beside it nor in DPLEDGER_KEY) does not
pickle, so that joblib refuses before anything runs. A default (`set_default`, `with`) is a variable of one process, and
a worker would take an unlimited accountant instead: so what joblib sends to a worker takes it along.

>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="replace_one", budget=ApproxDP(1, "0.000001"))
>>> accountant = scope.as_diffprivlib(relation="replace_one", by="A. Smith", reason="the ages of the study")
>>> from diffprivlib.tools import mean
>>> value = mean([31, 44, 58, 25], epsilon=0.25, bounds=(0, 100), accountant=accountant)
>>> accountant.spent_budget, len(accountant), accountant.remaining()
([(0.25, 0.0)], 1, (epsilon=0.75, delta=0.0))
"""

from __future__ import annotations

import copyreg
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn, Self, get_args

from dpledger.accounting import reach
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.reach import Of
from dpledger.attach.extras import extra
from dpledger.decimals import read, text, whole
from dpledger.errors import BudgetRefused, ParameterError
from dpledger.ledger.entries.evidence import Evidence, shown, words
from dpledger.ledger.scope import Scope
from dpledger.ledger.workers import ScopePlace, place_of
from dpledger.relations import Relation
from dpledger.schema import one_of

with extra("diffprivlib"):
    import diffprivlib
    from diffprivlib.accountant import BudgetAccountant
    from diffprivlib.utils import Budget, BudgetError
    from diffprivlib.validation import check_epsilon_delta
    from joblib.parallel import BatchedCalls

__all__ = ["ScopeAccountant", "accountant"]

MECHANISM = "diffprivlib"
PLACES = 10**6  # of an epsilon that remains: rounded down to a millionth


def accountant(
    scope: Scope,
    *,
    relation: Relation | str,
    by: str,
    reason: str,
    of: Of | None = None,
    evidence: Evidence | None = None,
) -> ScopeAccountant:
    """`scope` as an accountant of diffprivlib: see `Scope.as_diffprivlib`."""
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
    words(by, "by"), words(reason, "reason"), shown(evidence)
    under = Relation.read(relation)
    whom: Any = None if of is None else one_of(of, get_args(Of), field="of")
    reach.steps_of(under, whom, scope.unit, scope.relation)
    said = {"relation": under, "by": by, "reason": reason, "of": whom, "evidence": evidence}
    return ScopeAccountant(lambda: scope, scope.name, said)


def _reached(place: ScopePlace, said: dict[str, Any]) -> ScopeAccountant:
    """Reached when it is first asked: what is raised while a pool unpickles may stop the pool without a word."""
    return ScopeAccountant(place.reached, place.scope, said)


def _sent(batch: BatchedCalls) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A batch of joblib's calls, and the default that it is to find in a worker."""
    default = BudgetAccountant._default
    return _received, (default if isinstance(default, ScopeAccountant) else None, *batch.__reduce__())


def _received(default: ScopeAccountant | None, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The batch, in a worker; a default that was sent to it before is gone with the block in which it was one."""
    if default is not None or isinstance(BudgetAccountant._default, ScopeAccountant):
        BudgetAccountant._default = default
    return make(*arguments)


class ScopeAccountant(BudgetAccountant):  # type: ignore[misc]
    """A budget accountant of diffprivlib that keeps no budget: a scope does. Made by `accountant`.

    Threads may share it. A copy is itself; pickled, it is the same scope, opened by the process that receives it."""

    def __init__(self, reached: Callable[[], Scope], name: str, said: dict[str, Any]) -> None:
        self._reached = reached
        self._name = name
        self._said = said
        self._checked = threading.local()

    def __repr__(self) -> str:
        said = self._said
        return (
            f"<accountant of scope {self._name}: each run is charged under {said['relation'].value}, by {said['by']}>"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., ScopeAccountant], tuple[ScopePlace, dict[str, Any]]]:
        return _reached, (place_of(self._reached()), self._said)

    # ---- what diffprivlib's functions call --------------------------------------------------------------------------

    def check(self, epsilon: float, delta: float) -> bool:
        """Charge (epsilon, delta), durably: what called reads the data next. BudgetError, with the BudgetRefused as its
        cause, where the scope refuses; the errors of `Scope.charge`."""
        caller = sys._getframe(1).f_code
        self._charge(epsilon, delta, caller)
        self._checked.last = (caller, epsilon, delta)
        return True

    def spend(self, epsilon: float, delta: float) -> Self:
        """Nothing, where the same function of this thread has just had the same checked, and so charged; else charge
        it, and raise as `check`."""
        caller = sys._getframe(1).f_code
        checked: tuple[CodeType, float, float] | None = getattr(self._checked, "last", None)
        self._checked.last = None
        if checked is None or checked[0] is not caller or checked[1:] != (epsilon, delta):
            self._charge(epsilon, delta, caller)
        return self

    def _charge(self, epsilon: float, delta: float, caller: CodeType) -> None:
        check_epsilon_delta(epsilon, delta)
        promised = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        spent = {"epsilon": text(promised.epsilon), "delta": text(promised.fails), "function": caller.co_qualname}
        library = f"diffprivlib {diffprivlib.__version__}"
        try:
            self._reached().charge(promised, **self._said, mechanism=MECHANISM, library=library, parameters=spent)
        except BudgetRefused as refused:
            raise BudgetError(str(refused)) from refused

    def set_default(self) -> Self:
        """The accountant of what is given none, here and in what joblib sends to workers while it is the default."""
        copyreg.pickle(BatchedCalls, _sent)
        super().set_default()
        return self

    # ---- what people ask it -----------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """That of the scope's budget; infinite of one in other terms."""
        budget = self._reached().budget
        return float(budget.epsilon_at(budget.fails)) if budget.is_point else float("inf")

    @property
    def delta(self) -> float:
        """That of the scope's budget; 1 of one in other terms."""
        budget = self._reached().budget
        return float(budget.fails) if budget.is_point else 1.0

    @property
    def slack(self) -> float:
        """None: the scope's filter composes, and takes what it needs from the budget's delta."""
        return 0.0

    @slack.setter
    def slack(self, slack: float) -> NoReturn:
        raise ParameterError("slack", slack, "none: the scope's filter composes, with the delta of its budget")

    @property
    def spent_budget(self) -> list[tuple[float, float]]:
        """(epsilon, delta) of each run of diffprivlib that the scope was charged, by whatever accountant."""
        of_runs = (one.mechanism for one in self._reached().releases() if one.mechanism.kind == MECHANISM)
        spent = (note.parameters for note in of_runs)
        return [(float(str(each["epsilon"])), float(str(each["delta"]))) for each in spent]

    def total(self, spent_budget: Any = None, slack: float | None = None) -> Any:
        """What the scope has spent, by this and by all else, at its budget's delta. Of a `spent_budget` that is given,
        what diffprivlib says. ParameterError for a budget that is no epsilon and delta: ask `Scope.spent`."""
        if spent_budget is not None:
            return super().total(spent_budget, slack)
        return Budget(self._reached().spent().upper, self.delta)

    def remaining(self, k: int = 1) -> Any:
        """The most (epsilon, 0) that `k` runs, one by one, may spend each now; epsilon to six places, rounded down.

        Claim: they are admitted, if nothing is charged before. Source: the gate, asked."""
        runs = whole(k, field="k", least=1)
        least, beyond = 0, int(self._reached().left() * PLACES) + 1
        while beyond - least > 1:
            middle = (least + beyond) // 2
            if self._reached().afford(self._tree(middle), most=runs).one_by_one >= runs:
                least = middle
            else:
                beyond = middle
        return Budget(least / PLACES, 0.0)

    def _tree(self, millionths: int) -> Composition:
        """A run of so much, as far as it reaches one unit of the scope."""
        scope = self._reached()
        steps = reach.steps_of(self._said["relation"], self._said["of"], scope.unit, scope.relation)
        return reach.reaching(PureDP(read(f"{millionths}e-6")), steps, each_step=False)
