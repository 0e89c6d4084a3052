"""A scope as the accountant of diffprivlib: charged before the data are read, once a run, in every process. Against the
library itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diffprivlib import BudgetAccountant, models, tools
from diffprivlib.utils import BudgetError
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from dpledger.accounting.composition import Group
from dpledger.accounting.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.attach.diffprivlib import ScopeAccountant, accountant
from dpledger.errors import BudgetRefused, ForkedProcess, ParameterError, RelationError, ScopeError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import SigningKey
from dpledger.relations import Relation, Unit
from threads import together

SAID: dict[str, Any] = {"relation": "replace_one", "by": "A. Smith", "reason": "the ages of the study"}
AGES = np.array([31.0, 44, 58, 25, 67, 39, 71, 52])
BOUNDS = (0, 100)
RNG = np.random.default_rng(7)
X, Y = RNG.random((60, 2)), np.arange(60) % 2
BUDGET = PureDP(2)

FIT = models.LogisticRegression.fit  # which a worker can import

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp`:DeprecationWarning"),  # diffprivlib's own
]


def opened(budget: Guarantee = BUDGET, book: Ledger | None = None, rows: int = 1) -> Scope:
    unit = Unit("patient", max_contributions=rows)
    return (book or Ledger.in_memory()).scope("s", unit=unit, relation="replace_one", budget=budget)


def of(scope: Scope) -> ScopeAccountant:
    made = scope.as_diffprivlib(**SAID)
    assert isinstance(made, ScopeAccountant)
    return made


def charges(scope: Scope) -> list[Reserved]:
    return [entry.body for entry in scope._ledger.entries() if isinstance(entry.body, Reserved)]


def logistic(accountant: object, **rest: Any) -> Any:
    return models.LogisticRegression(epsilon=0.5, data_norm=2.0, accountant=accountant, **rest)


RUNS: dict[str, Callable[[Any], object]] = {
    "mean": lambda own: tools.mean(AGES, epsilon=0.5, bounds=BOUNDS, accountant=own),
    "std": lambda own: tools.std(AGES, epsilon=0.5, bounds=BOUNDS, accountant=own),
    "sum": lambda own: tools.sum(AGES, epsilon=0.5, bounds=BOUNDS, accountant=own),
    "count_nonzero": lambda own: tools.count_nonzero(AGES, epsilon=0.5, accountant=own),
    "histogram": lambda own: tools.histogram(AGES, epsilon=0.5, range=BOUNDS, accountant=own),
    "histogram2d": lambda own: tools.histogram2d(X[:, 0], X[:, 1], epsilon=0.5, range=[(0, 1)] * 2, accountant=own),
    "quantile": lambda own: tools.quantile(AGES, 0.5, epsilon=0.5, bounds=BOUNDS, accountant=own),
    "quantiles": lambda own: tools.quantile(AGES, [0.25, 0.75], epsilon=0.5, bounds=BOUNDS, accountant=own),
    "an axis": lambda own: tools.mean(X, epsilon=0.5, bounds=(0, 1), axis=0, accountant=own),
    "naive Bayes": lambda own: models.GaussianNB(epsilon=0.5, bounds=(0, 1), accountant=own).fit(X, Y),
    "logistic": lambda own: logistic(own).fit(X, Y),
    "linear": lambda own: models.LinearRegression(
        epsilon=0.5, bounds_X=(0, 1), bounds_y=(0, 1), accountant=own
    ).fit(X, Y),
    "k-means": lambda own: models.KMeans(2, epsilon=0.5, bounds=(0, 1), accountant=own).fit(X),
    "PCA": lambda own: models.PCA(1, epsilon=0.5, bounds=(0, 1), data_norm=2.0, accountant=own).fit(X),
    "scaler": lambda own: models.StandardScaler(epsilon=0.5, bounds=(0, 1), accountant=own).fit(X),
    "forest": lambda own: models.RandomForestClassifier(
        3, epsilon=0.5, bounds=(0, 1), classes=[0, 1], accountant=own
    ).fit(X, Y),
    "tree": lambda own: models.DecisionTreeClassifier(
        epsilon=0.5, bounds=(0, 1), classes=[0, 1], accountant=own
    ).fit(X, Y),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.filterwarnings("ignore")
def test_each_run_is_charged_what_diffprivlib_says_that_it_spends(name: str) -> None:
    theirs, scope = BudgetAccountant(), opened()
    RUNS[name](theirs)
    RUNS[name](of(scope))
    assert of(scope).spent_budget == [(float(epsilon), float(delta)) for epsilon, delta in theirs.spent_budget]
    assert len(of(scope)) == len(theirs) == len(charges(scope))
    assert scope.spent().upper == pytest.approx(0.5)
    with pytest.raises(BudgetError) as raised:  # and none is run that does not fit
        RUNS[name](of(opened(PureDP("0.1"))))
    assert isinstance(raised.value.__cause__, BudgetRefused)


def test_it_is_charged_before_the_data_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    scope, seen = opened(), []

    def told(array: Any, *bounds: Any) -> Any:
        seen.append(len(charges(scope)))
        return array

    monkeypatch.setattr("diffprivlib.tools.utils.clip_to_bounds", told)
    tools.mean(AGES, epsilon=0.5, bounds=BOUNDS, accountant=of(scope))
    assert seen == [1]
    refused = logistic(of(opened(PureDP("0.25"))))
    with pytest.raises(BudgetError):
        refused.fit(X, Y)
    assert not hasattr(refused, "coef_")  # diffprivlib's own `spend` comes when it has one


def test_a_run_that_raises_keeps_its_charge_and_pays_for_no_other() -> None:
    scope, own = opened(), None
    own = of(scope)
    with pytest.raises(ValueError, match="2 classes"):
        logistic(own).fit(X, np.zeros(60))
    assert len(charges(scope)) == 1
    own.spend(0.5, 0)  # the same numbers, of something else
    assert len(charges(scope)) == 2
    own.check(0.25, 0)
    own.spend(0.25, 0)  # of one function: once
    own.spend(0.25, 0)
    assert own.spent_budget == [(0.5, 0), (0.5, 0), (0.25, 0), (0.25, 0)]


def test_the_record_says_which_function_spent_it_under_which_relation() -> None:
    scope = opened()
    RUNS["logistic"](of(scope))
    (body,) = charges(scope)
    assert body.mechanism.kind == "diffprivlib"
    assert body.mechanism.library.startswith("diffprivlib 0.6")
    assert dict(body.mechanism.parameters) == {"epsilon": "0.5", "delta": "0", "function": "LogisticRegression.fit"}
    assert body.attested is not None
    assert (body.attested.by, body.attested.relation) == ("A. Smith", Relation.REPLACE_ONE)
    added = opened().as_diffprivlib(**{**SAID, "relation": "add_remove"})
    tools.histogram(AGES, epsilon=0.5, range=BOUNDS, accountant=added)
    assert charges(added._reached())[0].parts == Group(PureDP("0.5"), k=2, relation=Relation.ADD_REMOVE)
    assert added.remaining() == (0.5, 0)  # a unit that is exchanged costs twice


def test_it_answers_as_an_accountant() -> None:
    scope = opened(ApproxDP(2, "0.000001"))
    own = of(scope)
    assert isinstance(own, BudgetAccountant)
    assert (own.epsilon, own.delta, own.slack, len(own)) == (2.0, 1e-6, 0.0, 0)
    own.spend(0.5, 1e-8)
    assert own.total()[0] == pytest.approx(0.5, rel=1e-4)
    assert own.total(spent_budget=[(1, 0), (2, 0)]) == (3, 0)
    assert own.remaining()[0] == pytest.approx(1.5, abs=1e-5)
    each = own.remaining(3)[0]
    for _ in range(3):
        own.spend(each, 0)
    assert own.remaining()[0] < 0.01
    for told in (lambda: setattr(own, "slack", 1e-8), lambda: own.remaining(0)):
        with pytest.raises(ParameterError):
            told()
    for wrong, kind in ((("a", 0), TypeError), ((-1, 0), ValueError), ((0, 0), ValueError)):
        with pytest.raises(kind):
            own.check(*wrong)
    assert repr(own) == ("<accountant of scope s: each run is charged under replace_one, by A. Smith>")
    in_rho = of(opened(ZCDP(1)))
    assert (in_rho.epsilon, in_rho.delta) == (float("inf"), 1.0)
    with pytest.raises(ParameterError, match="delta"):
        in_rho.total()


def test_as_a_default_and_as_a_context() -> None:
    scope = opened()
    with of(scope) as own:
        tools.mean(AGES, epsilon=0.5, bounds=BOUNDS)
        model = logistic(None)
        assert model.accountant is own
    model.fit(X, Y)
    of(scope).set_default()
    try:
        tools.mean(AGES, epsilon=0.25, bounds=BOUNDS)
    finally:
        assert BudgetAccountant.pop_default() is not None
    assert own.spent_budget == [(0.5, 0), (0.5, 0), (0.25, 0)]


def test_whom_it_holds_of_is_asked() -> None:
    with pytest.raises(ParameterError, match="relation"):
        opened().as_diffprivlib(**{**SAID, "relation": "neighbours"})
    with pytest.raises(ParameterError, match=r"of: expected 'unit' .* 'row' does not work here"):
        opened(rows=3).as_diffprivlib(**SAID)
    with pytest.raises(RelationError):
        opened().as_diffprivlib(**{**SAID, "relation": "label_flip"})
    nothing: Any = "no scope"
    with pytest.raises(ParameterError, match="a scope"):
        accountant(nothing, **SAID)


# ---- copies, threads, processes -------------------------------------------------------------------------------------


def test_a_copy_is_itself_and_so_every_fold_is_charged() -> None:
    scope = opened()
    own = of(scope)
    assert copy(own) is own
    assert deepcopy(own) is own
    assert clone(logistic(own)).accountant is own
    cross_val_score(logistic(own), X, Y, cv=3)
    assert len(charges(scope)) == 3


def test_threads_share_the_budget() -> None:
    scope = opened(PureDP("1.5"))
    own = of(scope)
    answers = together(*[lambda: RUNS["mean"](own)] * 5)
    assert sum(isinstance(one, BudgetError) for one in answers) == 2
    assert len(charges(scope)) == 3


def made_in(store: str, request: pytest.FixtureRequest, folder: Path) -> Ledger:
    if store == "sqlite":
        return Ledger.create(folder / "a.ledger")
    return Ledger.create(request.getfixturevalue("server").address(), keys=folder / "clinic")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_worker_of_joblib_charges_the_ledger_itself(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """In processes of loky, under one budget: those that do not fit are refused there, and run nothing."""
    with made_in(store, request, tmp_path) as book:
        scope = opened(PureDP("1.5"), book)
        back = Parallel(n_jobs=2, backend="loky")(delayed(FIT)(logistic(of(scope)), X, Y) for _ in range(3))
        assert len(charges(scope)) == 3
        assert all(hasattr(model, "coef_") for model in back)
        with pytest.raises(BudgetError):
            Parallel(n_jobs=2, backend="loky")([delayed(FIT)(logistic(of(scope)), X, Y)])
        with pytest.raises(BudgetError):
            back[0].fit(X, Y)  # what came back charges the same ledger
        assert len(charges(scope)) == 3
        book.verify(key=book.public_key)


@pytest.mark.slow
def test_a_worker_of_joblib_finds_the_default(tmp_path: Path) -> None:
    """Where diffprivlib would take an unlimited accountant of its own."""
    work = [delayed(tools.mean)(AGES, epsilon=0.5, bounds=BOUNDS) for _ in range(2)]
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope = opened(PureDP("1.25"), book)
        with of(scope):
            Parallel(n_jobs=2, backend="loky")(work)
            assert len(charges(scope)) == 2
            with pytest.raises(BudgetError):
                Parallel(n_jobs=2, backend="loky")(work)
        Parallel(n_jobs=2, backend="loky")(work * 2)  # no default of ours any more, in the same workers
        with of(opened()), pytest.raises(pickle.PicklingError):  # in memory
            Parallel(n_jobs=2, backend="loky")(work)
        with of(scope), pytest.raises(ForkedProcess):
            Parallel(n_jobs=2, backend="multiprocessing")(work)
        assert len(charges(scope)) == 2


def test_what_no_worker_could_charge_is_refused_before_anything_runs(tmp_path: Path) -> None:
    in_memory = of(opened())
    with pytest.raises(pickle.PicklingError) as raised:
        Parallel(n_jobs=2, backend="loky")([delayed(FIT)(logistic(in_memory), X, Y)] * 2)
    assert "threads share the scope" in str(raised.value.__cause__)
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope = opened(book=book)
        key = tmp_path / "a.ledger.key"
        key.rename(tmp_path / "elsewhere.key")
        with pytest.raises(ScopeError, match="its signing key is neither in"):
            pickle.dumps(of(scope))
        other = SigningKey.generate(book.id)
        other.save(key)
        with pytest.raises(ScopeError, match="its signing key is neither in"):
            pickle.dumps(of(scope))
    with Ledger.open(tmp_path / "a.ledger", key=tmp_path / "elsewhere.key") as book:  # the worker opens it with that
        assert pickle.loads(pickle.dumps(of(book.scope("s")))).epsilon == 2
    assert charges(in_memory._reached()) == []


def test_a_forked_worker_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope = opened(book=book)
        with pytest.raises(ForkedProcess):
            Parallel(n_jobs=2, backend="multiprocessing")([delayed(FIT)(logistic(of(scope)), X, Y)] * 2)
        assert charges(scope) == []


def test_another_ledger_in_its_place_is_not_charged(tmp_path: Path) -> None:
    file = tmp_path / "a.ledger"
    with Ledger.create(file) as book:
        sent = pickle.dumps(of(opened(book=book)))
    for one in tmp_path.iterdir():
        one.unlink()
    with Ledger.create(file), pytest.raises(ScopeError, match="not the one of the process"):
        pickle.loads(sent).check(0.5, 0)
