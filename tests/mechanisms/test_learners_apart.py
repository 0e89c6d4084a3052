"""One person's row alters one model, however the learner is written: functions that share coins, models that fail on
their way, generators of libraries, queries that are no arrays."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles import ensemble, learners
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.copies import own
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, queries_of, votes_of
from dpledger.mechanisms.stability.ensembles.learners import voted

CHUNKS = 12
ROWS = np.random.default_rng(20261123).normal(size=(120, 2))
LABELS = (ROWS[:, 0] > 0).astype(int)
ASKED = np.random.default_rng(4).normal(size=(40, 2))
PEOPLE = [f"person {i}" for i in range(120)]

COINS = np.random.default_rng(0)  # of a module, as in a notebook


def tossed(count: int) -> npt.NDArray[np.float64]:
    """A direction, after as many coins as a chunk has rows: what they leave behind tells how many it has."""
    COINS.random(count)
    return COINS.normal(size=2)


def by_direction(direction: npt.NDArray[np.float64]) -> Callable[[Any], Any]:
    return lambda asked: (asked @ direction > 0).astype(int)


def closing_over() -> Any:
    coins = np.random.default_rng(0)

    def learner(rows: Any, labels: Any) -> Any:
        coins.random(len(rows))
        return by_direction(coins.normal(size=2))

    return learner


def with_a_default() -> Any:
    def learner(rows: Any, labels: Any, coins: np.random.Generator = np.random.default_rng(0)) -> Any:  # noqa: B008
        coins.random(len(rows))
        return by_direction(coins.normal(size=2))

    return learner


def of_its_module() -> Any:
    return lambda rows, labels: by_direction(tossed(len(rows)))


def closing_over_a_method() -> Any:
    normal = np.random.RandomState(0).normal

    def learner(rows: Any, labels: Any) -> Any:
        normal(size=len(rows))
        return by_direction(normal(size=2))

    return learner


def partial() -> Any:
    return functools.partial(lambda inner, rows, labels: inner(rows, labels), closing_over())


class Tosses:
    """Draws from the coins of its module."""

    def __call__(self, rows: Any, labels: Any) -> Any:
        return by_direction(COINS.normal(size=len(rows))[:2])


def counting() -> Any:
    seen: list[int] = []

    def learner(rows: Any, labels: Any) -> Any:
        seen.append(len(rows))
        return lambda asked: np.full(len(asked), sum(seen) % 2)

    return learner


def in_answering() -> Any:
    coins = random.Random(0)

    def learner(rows: Any, labels: Any) -> Any:
        def predict(asked: Any) -> Any:
            for _ in range(len(rows)):
                coins.random()
            return [int(coins.random() > 0.5) for _ in asked]

        return predict

    return learner


LEARNERS = {
    make.__name__: make
    for make in (
        closing_over, with_a_default, of_its_module, closing_over_a_method, partial, counting, in_answering,
    )
}  # fmt: skip


def votes(make: Callable[[], Any], gone: int | None = None, jobs: int = 1) -> list[list[int]]:
    """How all models vote, with or without a person."""
    global COINS
    COINS = np.random.default_rng(0)
    kept = [i for i in range(120) if i != gone]
    ids = [PEOPLE[i] for i in kept]
    fitted = Ensemble.fit(make(), (ROWS[kept], LABELS[kept]), CHUNKS, Hashed("s"), ids=ids, jobs=jobs, progress=False)
    found: list[list[int]] = votes_of(fitted, queries_of(fitted, ASKED)).tolist()
    return found


def unheard(*args: Any, **given: Any) -> None:
    """No rehearsal."""


def altered(make: Callable[[], Any], gone: int = 7) -> int:
    """How many models vote otherwise once a person is gone."""
    return sum(one != other for one, other in zip(votes(make), votes(make, gone), strict=True))


class TestFunctionsAreCopied:
    """Found: `copy.deepcopy` takes a function for a constant, so one generator was shared by all chunks, and one person
    more or less altered up to ten models of twenty."""

    @pytest.mark.parametrize("name", LEARNERS)
    def test_one_person_alters_one_model(self, name: str) -> None:
        assert altered(LEARNERS[name]) <= 1

    @pytest.mark.parametrize("name", ["closing_over", "of_its_module", "counting"])
    def test_also_from_worker_processes(self, name: str) -> None:
        assert votes(LEARNERS[name], jobs=2) == votes(LEARNERS[name])

    @pytest.mark.parametrize("name", LEARNERS)
    def test_shared_functions_tell(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(learners, "own", lambda learner: learner)
        with pytest.raises(ParameterError, match="keeps nothing from one chunk to the next"):
            votes(LEARNERS[name])
        monkeypatch.setattr(ensemble, "rehearse", unheard)
        assert max(altered(LEARNERS[name], gone) for gone in (7, 8, 9)) > 1

    def test_what_cannot_be_copied_is_refused(self) -> None:
        lock = threading.Lock()

        def learner(rows: Any, labels: Any) -> Any:
            with lock:
                return by_direction(rows.mean(axis=0))

        with pytest.raises(ParameterError, match=r"learner that can be copied.*learner\.lock: cannot pickle"):
            Ensemble.fit(learner, (ROWS, LABELS), 3, "slots")

    @pytest.mark.parametrize("how", ["an object", "its method"])
    def test_a_class_whose_methods_draw_from_its_module_is_refused(self, how: str) -> None:
        tosses = Tosses()
        with pytest.raises(ParameterError, match=r"share .*test_learners_apart\.COINS"):
            Ensemble.fit(tosses if how == "an object" else tosses.__call__, (ROWS, LABELS), 3, "slots")

    def test_copies_of_functions_that_share_a_cell_share_one(self) -> None:
        count = 0

        def more() -> int:
            nonlocal count
            count += 1
            return count

        def now() -> int:
            return count

        others = own([more, now])
        assert (others[0](), others[0](), others[1](), now()) == (1, 2, 2, 0)

    def test_a_function_that_calls_itself(self) -> None:
        def factorial(n: int) -> int:
            return 1 if n < 2 else n * factorial(n - 1)

        assert own(factorial)(5) == 120


class Panic(BaseException):
    """What some libraries raise when they break: no Exception."""


class Stuck:
    """A model that leaves its process, and does not come back."""

    def __init__(self, fails: bool) -> None:
        self.fails, self.made_in = fails, os.getpid()

    def __call__(self, asked: Any) -> Any:
        return [0] * len(asked)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        if self.fails and os.getpid() != self.made_in:
            raise ValueError("a row of sevens")


def stuck(rows: Any, labels: Any) -> Any:
    return Stuck(bool((rows == 7).any()))


def panics(rows: Any, labels: Any) -> Any:
    if (rows == 7).any():
        raise Panic(f"{rows}")
    return by_direction(rows.mean(axis=0))


def panics_when_asked(rows: Any, labels: Any) -> Any:
    return lambda asked: panics(rows, labels)(asked)


def ends_its_process(rows: Any, labels: Any) -> Any:
    if (rows == 7).any() and "Loky" in multiprocessing.current_process().name:
        os._exit(3)  # as a library that breaks, or the kernel where memory is short
    return by_direction(rows.mean(axis=0))


class TestNothingRaises:
    @pytest.mark.parametrize("learner", [panics, panics_when_asked], ids=lambda one: one.__name__)
    def test_for_what_is_no_exception(self, learner: Any) -> None:
        assert abstaining(learner) == [False, False, True]

    def test_for_a_model_that_does_not_come_back(self) -> None:
        assert abstaining(stuck, jobs=2) == [False, False, True]

    def test_for_a_process_that_ends(self) -> None:
        """Of the other chunks each has the model that it has in one process."""
        assert abstaining(ends_its_process, jobs=2) == [False, False, True]
        assert abstaining(ends_its_process, jobs=2, place=0) == [True, False, False]

    @pytest.mark.parametrize("raised", [SystemExit, TimeoutError])
    @pytest.mark.parametrize("asked", [False, True], ids=["fitted", "asked"])
    def test_but_for_what_a_handler_of_a_signal_raised(self, raised: type[BaseException], asked: bool) -> None:
        """Found: a process that was told to end did not, and the chunk had no model."""

        def ended(_number: object, _frame: object) -> None:
            raise raised

        def stopped(_asked: object) -> Any:
            try:
                raise ValueError("a row of sevens")
            except ValueError:
                os.kill(os.getpid(), signal.SIGUSR1)

        def learner(rows: Any, labels: Any) -> Any:
            is_private = len(rows) == len(ROWS) // 3
            return stopped if is_private and (asked or stopped(rows)) else by_direction(rows.mean(axis=0))

        def fitted_and_asked() -> object:
            made = Ensemble.fit(learner, (ROWS, LABELS), 3, "slots", progress=False)
            return votes_of(made, queries_of(made, ROWS))

        before = signal.signal(signal.SIGUSR1, ended)
        try:
            with pytest.raises(raised) as told:
                fitted_and_asked()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert told.value.__context__ is None

    def test_but_for_an_interrupt(self) -> None:
        def interrupted(rows: Any, labels: Any) -> Any:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Ensemble.fit(interrupted, (ROWS, LABELS), 3, "slots", progress=False)


def abstaining(learner: Any, jobs: int = 1, place: int = 2) -> list[bool]:
    """Which of three models abstain, where the third has a row of sevens, or the one at `place`."""
    rows = ROWS.copy()
    rows[place] = 7
    fitted = Ensemble.fit(learner, (rows, LABELS), 3, "slots", jobs=jobs, progress=False)
    return [set(row) == {-1} for row in votes_of(fitted, queries_of(fitted, ASKED)).tolist()]


def unheard_seed(seed: int) -> None:
    raise AssertionError(seed)


class _Torch(ModuleType):
    """What of torch the ensembles touch: one generator for all, which starts from a constant."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.coins = random.Random(67280421310721)
        self.random = self

    def manual_seed(self, seed: int) -> None:
        self.coins.seed(seed)

    @contextlib.contextmanager
    def fork_rng(self) -> Iterator[None]:
        state = self.coins.getstate()
        yield
        self.coins.setstate(state)


class TestTorch:
    def test_its_generator_starts_anew_for_each_chunk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", _Torch())

        def make() -> Any:
            def learner(rows: Any, labels: Any) -> Any:
                coins = sys.modules["torch"].coins
                for _ in range(len(rows)):
                    coins.random()
                return by_direction(np.array([coins.gauss(0, 1), coins.gauss(0, 1)]))

            return learner

        before = sys.modules["torch"].coins.getstate()
        assert altered(make) <= 1
        assert sys.modules["torch"].coins.getstate() == before

    def test_without_a_device_none_is_looked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`torch.manual_seed` takes a millisecond: it notes the stack of the call, for devices that may come."""
        import torch

        assert not torch.accelerator.is_available(), "with a device its generators are seeded too"
        monkeypatch.setattr(torch, "manual_seed", unheard_seed)
        fitted = Ensemble.fit(lambda rows, labels: by_direction(rows[0]), (ROWS, LABELS), 3, "slots", progress=False)
        votes_of(fitted, queries_of(fitted, ASKED))


class TestTurns:
    """Models that are asked one after another: what one of them does to what all share, the next one does not see."""

    def test_the_coins_of_a_turn_are_those_of_its_number(self) -> None:
        """Whatever the models before it drew, and whether there were any."""

        def told(rows: Any) -> list[int]:
            coins = [random.random(), random.gauss(0, 1), np.random.random(), np.random.normal()]
            return [int(abs(coin) * 10**6) % 1000 for coin in coins]

        def draws(count: int) -> Callable[[Any], list[int]]:
            def model(rows: Any) -> list[int]:
                for _ in range(count):
                    random.gauss(0, 1)
                    np.random.normal()
                return [0] * 4

            return model

        def reseeds(rows: Any) -> list[int]:
            random.seed(1)
            np.random.seed(1)
            return [0] * 4

        rows = np.zeros((4, 1))
        silent: list[Any] = [lambda asked: [0] * 4] * 3
        expected = voted([*silent, told, told], rows, classes=1000)[3:].tolist()
        assert expected[0] != expected[1]
        for before in ([draws(1)] * 3, [None, draws(2), None], [reseeds, draws(700), reseeds], [None] * 3):
            assert voted([*before, told, told], rows, classes=1000)[3:].tolist() == expected

    def test_filters_of_warnings_and_streams_do_not_last(self, capfd: pytest.CaptureFixture[str]) -> None:
        def strict(rows: Any) -> list[int]:
            warnings.simplefilter("error")
            np.seterr(all="raise")
            sys.stdout.close()
            sys.stdout = None
            return [0]

        def bare(rows: Any) -> list[int]:
            warnings.resetwarnings()
            return [0]

        def careless(rows: Any) -> list[int]:
            warnings.warn("a row of sevens", stacklevel=1)
            print("a row of sevens")
            np.array([1.0]) / 0
            return [1]

        ours, errors = sys.stdout, np.geterr()
        with warnings.catch_warnings(record=True) as seen:
            found = voted([strict, careless, bare, careless, strict, strict, careless], np.zeros((1, 1)), classes=2)
        assert found.ravel().tolist() == [0, 1, 0, 1, 0, 0, 1]
        assert not seen
        assert (sys.stdout, np.geterr()) == (ours, errors)
        assert capfd.readouterr() == ("", "")

    def test_many_models_answer_as_each_alone(self) -> None:
        """Answers are read as votes together, a part of the models at a time."""
        rows = np.arange(300.0)
        models: list[Any] = [lambda asked, k=k: (asked + k) % 7 for k in range(1000)]
        models[500] = None
        models[700] = lambda asked: [3] * 299
        found = voted(models, rows, classes=5)
        for k in (0, 436, 437, 500, 700, 999):
            assert found[k].tolist() == voted([models[k]], rows, classes=5)[0].tolist()
        assert set(found[500]) == set(found[700]) == {-1}

    @pytest.mark.parametrize("classes", [3, None])
    def test_whatever_number_an_answer_is_it_counts_as_by_itself(self, classes: int | None) -> None:
        answers: list[Any] = [
            np.array([1], dtype=kind) for kind in ("i1", "u8", "f2", "f8", "g", "?", "U1", "O", "c16", "M8[s]")
        ]
        answers += [np.array([[1.0]]), np.array([2**64 - 1], dtype="u8"), np.array([np.inf]), np.longdouble("1e4000")]
        answers += [np.ma.masked_array([1], mask=[True]), [1], pd.Series([1]), np.array([-0.5]), np.array([])]

        def saying(answer: Any) -> Callable[[Any], Any]:
            return lambda asked: answer

        found = voted([saying(one) for one in answers], np.zeros((1, 1)), classes=classes)
        for answer, row in zip(answers, found, strict=True):
            try:
                alone = learners.named_by(answer, classes)
            except (TypeError, ValueError):
                alone = np.zeros(0)
            expected = alone if alone.shape == (1,) else np.array([-1 if classes else np.nan])
            np.testing.assert_array_equal(row, expected)


class TestQueriesOfObjects:
    @pytest.mark.parametrize("kind", ["table", "column", "records", "list"])
    def test_what_a_model_does_to_them_the_next_one_does_not_see(self, kind: str) -> None:
        records = np.zeros(1, dtype=[("words", object)])
        records["words"][0] = []
        table = pd.DataFrame({"words": [[]], "number": [1]})
        queries = {"table": table, "column": table["words"], "records": records, "list": [[]]}[kind]

        def model(asked: Any) -> list[int]:
            first = {
                "table": lambda: asked["words"].iloc[0],
                "column": lambda: asked.iloc[0],
                "records": lambda: asked["words"][0],
                "list": lambda: asked[0],
            }[kind]()
            first.append("seen")
            return [len(first)]

        assert voted([model] * 3, queries, classes=5).tolist() == [[1]] * 3


class TestMaskedRows:
    def test_what_is_masked_is_missing(self) -> None:
        """Found: numpy gave what stood in its place instead, which is the fill value of the whole array."""
        rows = np.ma.masked_equal(np.arange(12.0).reshape(6, 2), 4.0)
        labels = np.ma.masked_array(np.zeros(6, dtype=int), mask=[True] + [False] * 5)

        def seen(rows: Any, labels: Any) -> Any:
            return lambda asked: [int(rows.sum())] * len(asked)

        fitted = Ensemble.fit(seen, (rows, labels), 3, "slots", classes=100, progress=False)
        assert votes_of(fitted, queries_of(fitted, [[0, 0]])).ravel().tolist() == [13, 22, 26]
