"""An error arrives whole: pickled, copied, and from the worker process in which it was raised."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal

import joblib
import pytest

from dpledger import errors
from dpledger.errors import BudgetRefused, DpledgerError, ParameterError
from raising import mistaken, refused

pytestmark = pytest.mark.sliced

CLASSES = [thing for _, thing in inspect.getmembers(errors, inspect.isclass) if issubclass(thing, DpledgerError)]
WAYS: list[Callable[[DpledgerError], DpledgerError]] = [
    *(lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol)) for protocol in range(6)),
    copy.copy,
    copy.deepcopy,
]


def made(cls: type[DpledgerError]) -> DpledgerError:
    """One of each class, by its constructor, with an attribute and a note more."""
    wanted = [
        part
        for name, part in inspect.signature(cls.__init__).parameters.items()
        if name not in {"self", "args", "kwargs"}
    ]
    values = {
        part.name: {"asked": {"pure": "2"}, "spent": {}, "left": {"pure": "1"}, "index": 7}.get(
            part.name, f"some {part.name}"
        )
        for part in wanted
    }
    positional = [values[part.name] for part in wanted if part.kind is not part.KEYWORD_ONLY]
    error = cls(
        *(positional or ["a message"]),
        **{part.name: values[part.name] for part in wanted if part.kind is part.KEYWORD_ONLY},
    )
    error.more = ("anything", 1)  # type: ignore[attr-defined]
    error.add_note("seen in March")
    return error


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_error_travels_with_its_message_and_attributes(cls: type[DpledgerError], way: int) -> None:
    error = made(cls)
    arrived = WAYS[way](error)
    assert type(arrived) is cls
    assert (str(arrived), arrived.args, vars(arrived)) == (str(error), error.args, vars(error))


def test_the_tree_names_every_error() -> None:
    assert {cls.__name__ for cls in CLASSES} <= set(errors.__all__)
    assert {"BudgetRefused", "ParameterError", "VerificationError"} <= {cls.__name__ for cls in CLASSES}


def check(refusal: BudgetRefused, mistake: ParameterError) -> None:
    assert refusal.scope == "rows"
    assert refusal.asked == {"pure": "2"}
    assert refusal.left == {"pure": "1"}
    assert "nothing was spent" in str(refusal)
    assert (mistake.field, mistake.value) == ("PureDP.epsilon", "-1")


def test_a_refusal_arrives_from_a_worker_of_joblib() -> None:
    with joblib.parallel_config("loky", n_jobs=2):
        with pytest.raises(BudgetRefused) as refusal:
            joblib.Parallel()(joblib.delayed(refused)(asked) for asked in ("0.5", "2"))
        with pytest.raises(ParameterError) as mistake:
            joblib.Parallel()(joblib.delayed(mistaken)(epsilon) for epsilon in ("0.5", "-1"))
    check(refusal.value, mistake.value)


def test_a_refusal_arrives_from_a_worker_of_concurrent_futures() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        with pytest.raises(BudgetRefused) as refusal:
            workers.submit(refused, "2").result()
        with pytest.raises(ParameterError) as mistake:
            workers.submit(mistaken, "-1").result()
        assert isinstance(workers.submit(refused, "0.5").result(), float)
    check(refusal.value, mistake.value)


def test_a_decimal_is_told_as_it_is_written() -> None:
    assert str(ParameterError("share", Decimal("1.50"), "less")) == "share: expected less, got 1.50"
