"""Learners as people write them: some that hand one chunk's data on to the next, if nobody keeps them apart, and some
that do not. In a module of their own, so that they travel to worker processes."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

__all__ = ["RIGHT", "SHARING", "InItsClass", "Static", "train"]

SHARING: dict[str, tuple[str, Callable[[], Any]]] = {}
"""By name: what becomes of it ("apart": each chunk gets a copy; "refused"), and how it is made."""
RIGHT: dict[str, Callable[[], Any]] = {}


def sharers(expected: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a maker of learners in the table."""

    def entered(make: Callable[[], Any]) -> Callable[[], Any]:
        SHARING[make.__name__] = (expected, make)
        return make

    return entered


def right(make: Callable[[], Any]) -> Callable[[], Any]:
    """Enter a maker of learners that share nothing."""
    RIGHT[make.__name__] = make
    return make


def by_coins(coins: np.random.Generator, rows: Any) -> Any:
    """A model that tells how many coins were drawn before it."""
    coins.random(len(rows))
    direction = coins.normal(size=rows.shape[1])
    return lambda asked: (asked @ direction > 0).astype(int)


MODEL = DecisionTreeClassifier(random_state=0)
COINS = np.random.default_rng(0)
CACHE: dict[Any, Any] = {}
SEEN: list[float] = []
LAST: Any = None


@sharers("apart")
def a_global_estimator() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        MODEL.fit(rows, labels)
        return MODEL.predict

    return learn


def train(rows: Any, labels: Any) -> Any:
    """A learner that other modules name."""
    return MODEL.fit(rows, labels).predict


@sharers("apart")
def a_global_generator() -> Any:
    return lambda rows, labels: by_coins(COINS, rows)


def named_by_a_partial(depth: int, rows: Any, labels: Any) -> Any:
    return by_coins(COINS, rows)


@sharers("apart")
def a_partial_of_a_function_that_names_a_generator() -> Any:
    return functools.partial(named_by_a_partial, 3)


class WithADefault:
    """A method whose default is a generator."""

    def learn(self, rows: Any, labels: Any, coins: np.random.Generator = np.random.default_rng(0)) -> Any:  # noqa: B008
        return by_coins(coins, rows)


@sharers("refused")
def a_method_whose_default_is_a_generator() -> Any:
    return WithADefault().learn


class Holder:
    """An object with a generator."""

    def __init__(self) -> None:
        self.coins = np.random.default_rng(0)


HOLDER = Holder()


@sharers("apart")
def a_generator_inside_an_object() -> Any:
    return lambda rows, labels: by_coins(HOLDER.coins, rows)


@sharers("apart")
def a_generator_of_torch() -> Any:
    import torch

    coins = torch.Generator().manual_seed(0)

    def learn(rows: Any, labels: Any) -> Any:
        torch.rand(len(rows), generator=coins)
        direction = torch.randn(rows.shape[1], generator=coins).numpy()
        return lambda asked: (asked @ direction > 0).astype(int)

    return learn


@sharers("apart")
def a_cache_in_a_dict() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        if rows.shape[1] not in CACHE:
            CACHE[rows.shape[1]] = DecisionTreeClassifier(random_state=0).fit(rows, labels)
        return CACHE[rows.shape[1]].predict

    return learn


@functools.lru_cache
def remembered(width: int) -> list[Any]:
    return []


@sharers("apart")
def an_lru_cache() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        models = remembered(rows.shape[1])
        models.append(DecisionTreeClassifier(random_state=0).fit(rows, labels))
        return lambda asked: models[0].predict(asked)

    return learn


class InItsClass:
    """Keeps the first model of each size of a chunk in its class."""

    first: ClassVar[dict[int, Any]] = {}

    def __call__(self, rows: Any, labels: Any) -> Any:
        return self.first.setdefault(rows.shape[1], DecisionTreeClassifier(random_state=0).fit(rows, labels)).predict


@sharers("refused")
def a_class_attribute() -> Any:
    InItsClass.first.clear()
    return InItsClass()


class OneForAll:
    """An estimator that is a class, not an object."""

    model: ClassVar[Any] = None

    @classmethod
    def fit(cls, rows: Any, labels: Any) -> None:
        cls.model = DecisionTreeClassifier(random_state=0).fit(rows, labels)

    @classmethod
    def predict(cls, asked: Any) -> Any:
        return cls.model.predict(asked)


@sharers("refused")
def a_class_that_keeps_its_model() -> Any:
    return OneForAll


@sharers("apart")
def a_closure_over_an_estimator() -> Any:
    model = SGDClassifier(random_state=0)

    def learn(rows: Any, labels: Any) -> Any:
        model.partial_fit(rows, labels, classes=[0, 1])
        return model.predict

    return learn


@sharers("apart")
def a_list_that_grows() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        SEEN.extend(rows[:, 0])
        return lambda asked: (asked[:, 0] > np.mean(SEEN)).astype(int)

    return learn


@sharers("refused")
def an_attribute_of_its_module() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        import sharing_learners as here

        here.LAST = DecisionTreeClassifier(random_state=0).fit(rows, labels)
        return lambda asked: here.LAST.predict(asked)

    return learn


@sharers("apart")
def a_global_that_is_set() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        global LAST
        LAST = DecisionTreeClassifier(random_state=0).fit(rows, labels)
        return lambda asked: LAST.predict(asked)

    return learn


@sharers("refused")
def an_attribute_of_an_installed_module() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        vars(np)["last_model"] = DecisionTreeClassifier(random_state=0).fit(rows, labels)
        return lambda asked: vars(np)["last_model"].predict(asked)

    return learn


@sharers("apart")
def a_warm_start() -> Any:
    model = SGDClassifier(warm_start=True, random_state=0)
    return lambda rows, labels: model.fit(rows, labels).predict


class StaysItself:
    """A model that copies of it are."""

    first: Any

    def __init__(self) -> None:
        self.model = DecisionTreeClassifier(random_state=0)

    def __reduce__(self) -> str:
        return "ITSELF"


ITSELF = StaysItself()


class OfItsThread:
    """Keeps the first model of each thread and width."""

    kept: ClassVar[threading.local] = threading.local()

    def __call__(self, rows: Any, labels: Any) -> Any:
        if not hasattr(self.kept, "model"):
            self.kept.model = DecisionTreeClassifier(random_state=0).fit(rows, labels)
        return self.kept.model.predict


@sharers("refused")
def an_attribute_of_its_thread() -> Any:
    vars(OfItsThread.kept).clear()
    return OfItsThread()


@sharers("refused")
def the_first_model_in_an_object_that_is_its_own_copy() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        if not hasattr(ITSELF, "first"):
            ITSELF.first = DecisionTreeClassifier(random_state=0).fit(rows, labels)
        return ITSELF.first.predict

    vars(ITSELF).pop("first", None)
    return learn


@sharers("refused")
def an_object_that_is_its_own_copy() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        ITSELF.model.fit(rows, labels)
        return lambda asked: ITSELF.model.predict(asked)

    return learn


class Static:
    """A method that fits a global estimator."""

    @staticmethod
    def learn(rows: Any, labels: Any) -> Any:
        return MODEL.fit(rows, labels).predict

    def __call__(self, rows: Any, labels: Any) -> Any:
        return self.learn(rows, labels)


@sharers("refused")
def a_static_method_that_fits_a_global_estimator() -> Any:
    return Static()


class Wrapped(BaseEstimator):  # type: ignore[misc]
    """An estimator around a global one."""

    def fit(self, rows: Any, labels: Any) -> Wrapped:
        MODEL.fit(rows, labels)
        return self

    def predict(self, asked: Any) -> Any:
        return MODEL.predict(asked)


@sharers("refused")
def an_estimator_around_a_global_one() -> Any:
    return Wrapped()


@sharers("refused")
def coins_of_the_system() -> Any:
    """Shares nothing, but nobody can tell."""

    def learn(rows: Any, labels: Any) -> Any:
        coins = np.random.default_rng()
        return lambda asked: coins.integers(2, size=len(asked))

    return learn


@right
def a_fresh_estimator() -> Any:
    return lambda rows, labels: LogisticRegression().fit(rows, labels).predict


@right
def a_clone() -> Any:
    return lambda rows, labels: clone(MODEL).fit(rows, labels).predict


@right
def a_class() -> Any:
    return DecisionTreeClassifier


@right
def an_estimator() -> Any:
    return RandomForestClassifier(n_estimators=3)


@right
def an_estimator_that_predicts_once_it_is_fitted() -> Any:
    return StackingClassifier([("tree", DecisionTreeClassifier()), ("line", SGDClassifier())])


@right
def a_pipeline() -> Any:
    return make_pipeline(StandardScaler(), SGDClassifier())


def of_depth(rows: Any, labels: Any, seed: int, depth: int) -> Any:
    return DecisionTreeClassifier(max_depth=depth, random_state=seed, splitter="random").fit(rows, labels).predict


@right
def a_partial() -> Any:
    return functools.partial(of_depth, depth=3)


@right
def a_closure_over_parameters() -> Any:
    depth, names = 3, ["a", "b"]
    return lambda rows, labels: of_depth(rows, labels, seed=len(names), depth=depth)


WEIGHTS = np.array([1.0, -0.5])
MISSING = object()
LOG = logging.getLogger(__name__)


@right
def constants_of_numpy() -> Any:
    def learn(rows: Any, labels: Any, top: Any = MISSING) -> Any:
        LOG.debug("a chunk")
        middle = np.median(rows @ WEIGHTS[: rows.shape[1]]) if top is MISSING else top
        return lambda asked: (asked @ WEIGHTS > middle).astype(int)

    return learn


@right
def a_network_of_torch() -> Any:
    import torch

    scale = torch.tensor([1.0, 2.0])

    def learn(rows: Any, labels: Any) -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(rows.shape[1], 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        descent = torch.optim.SGD(net.parameters(), lr=0.1)
        x, y = torch.tensor(rows, dtype=torch.float32) * scale, torch.tensor(labels)
        for _ in range(3):
            descent.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            descent.step()
        return lambda asked: net(torch.tensor(asked, dtype=torch.float32) * scale).argmax(dim=1).numpy()

    return learn


@right
def coins_of_its_seed() -> Any:
    return lambda rows, labels, seed: by_coins(np.random.default_rng(seed), rows)


@right
def the_generator_of_numpy() -> Any:
    def learn(rows: Any, labels: Any) -> Any:
        np.random.random(len(rows))
        direction = np.random.normal(size=rows.shape[1])
        return lambda asked: (asked @ direction + np.random.normal(size=len(asked)) > 0).astype(int)

    return learn


@right
def a_model_with_coins_of_its_own() -> Any:
    def learn(rows: Any, labels: Any, seed: int) -> Any:
        coins = np.random.default_rng(seed)
        return lambda asked: (coins.random(len(asked)) > labels.mean()).astype(int)

    return learn


class Nearest:
    """An object that is called."""

    def __init__(self, power: int) -> None:
        self.power = power

    def __call__(self, rows: Any, labels: Any) -> Any:
        return functools.partial(self.classes, rows, labels)

    def classes(self, rows: Any, labels: Any, asked: Any) -> Any:
        """The label of the nearest row."""
        far = (np.abs(asked[:, None] - rows[None]) ** self.power).sum(axis=2)
        return labels[far.argmin(axis=1)]


@right
def an_object_that_is_called() -> Any:
    return Nearest(2)


@right
def the_same_for_all() -> Any:
    return lambda rows, labels: lambda asked: [1] * len(asked)
