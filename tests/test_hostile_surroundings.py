"""No number depends on what surrounds the program: the caller's decimal context first of all.

Everything in `every_number` is computed with empty caches in surroundings that round coarsely, trap every signal or
print otherwise, and compared with what it is in ordinary ones, digit by digit. Then once more in ordinary surroundings
with the caches as they are: what was computed under another's context must not have stayed wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import decimal
import locale
import os
import platform
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Context
from pathlib import Path
from typing import Any, get_args

import flint
import mpmath
import numpy as np
import pytest
import torch

import dpledger as dpl
import every_number
from dpledger.accounting.leaves import Leaf
from dpledger.errors import FloatsAltered

pytestmark = pytest.mark.sliced

ROUNDINGS = (
    decimal.ROUND_UP,
    decimal.ROUND_DOWN,
    decimal.ROUND_CEILING,
    decimal.ROUND_FLOOR,
    decimal.ROUND_HALF_UP,
    decimal.ROUND_HALF_DOWN,
    decimal.ROUND_HALF_EVEN,
    decimal.ROUND_05UP,
)
SIGNALS = (
    decimal.Clamped,
    decimal.DivisionByZero,
    decimal.FloatOperation,
    decimal.Inexact,
    decimal.InvalidOperation,
    decimal.Overflow,
    decimal.Rounded,
    decimal.Subnormal,
    decimal.Underflow,
)


def context(digits: int, rounding: str, *, trap: bool, narrow: bool) -> Context:
    """One that rounds to so many digits; it traps every signal or none, and holds all exponents or hardly any."""
    return Context(
        prec=digits,
        rounding=rounding,
        Emin=-3 if narrow else decimal.MIN_EMIN,
        Emax=3 if narrow else decimal.MAX_EMAX,
        capitals=0,
        clamp=int(narrow),
        traps=list(SIGNALS) if trap else [],
    )


@pytest.fixture(scope="module")
def ordinary() -> dict[str, str]:
    every_number.fresh()
    return every_number.whole()


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    return [name for name, text in found.items() if text != expected[name]]


def assert_nothing_changes(
    surroundings: AbstractContextManager[object], numbers: Callable[[], dict[str, str]], ordinary: dict[str, str]
) -> None:
    every_number.fresh()
    with surroundings:
        found = numbers()
    assert differences(found, ordinary) == []
    assert differences(numbers(), ordinary) == [], "a cache kept what was computed there"


def test_every_kind_of_leaf_is_computed_in_them() -> None:
    """CONTRIBUTING.md, "Adding a guarantee or a law"."""
    assert set(get_args(Leaf)) - {type(tree) for tree, _ in every_number.TREES.values()} == set()


# ---- decimal contexts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("digits", "rounding"), list(zip((1, 2, 3, 5, 8, 13, 21, 28), ROUNDINGS, strict=True)))
def test_prices_do_not_depend_on_the_callers_digits(digits: int, rounding: str, ordinary: dict[str, str]) -> None:
    """Every rounding among them, every signal trapped or none, all exponents or hardly any."""
    hostile = context(digits, rounding, trap=digits % 2 == 0, narrow=digits % 3 == 0)
    assert_nothing_changes(decimal.localcontext(hostile), every_number.quick, ordinary)


@pytest.mark.parametrize(
    ("digits", "rounding", "trap", "narrow"),
    [
        (1, decimal.ROUND_UP, False, True),
        (1, decimal.ROUND_05UP, True, True),
    ],
)
def test_nothing_depends_on_the_callers_context(
    digits: int, rounding: str, trap: bool, narrow: bool, ordinary: dict[str, str]
) -> None:
    """The two that show most: what more digits or exponents round, one digit rounds too, or signals."""
    hostile = context(digits, rounding, trap=trap, narrow=narrow)
    assert_nothing_changes(decimal.localcontext(hostile), every_number.whole, ordinary)


@contextmanager
def defaults(hostile: Context) -> Iterator[None]:
    """What every thread that begins now has for its context."""
    default: Any = decimal.DefaultContext
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    before = {name: getattr(default, name) for name in names} | {"traps": dict(default.traps)}
    try:
        for name in names:
            setattr(default, name, getattr(hostile, name))
        default.traps.update(hostile.traps)
        yield
    finally:
        for name in names:
            setattr(default, name, before[name])
        default.traps.update(before["traps"])


def test_nothing_depends_on_what_a_new_thread_begins_with(ordinary: dict[str, str]) -> None:
    found: dict[str, str] = {}
    every_number.fresh()
    with defaults(context(3, decimal.ROUND_UP, trap=True, narrow=True)):
        thread = threading.Thread(target=lambda: found.update(every_number.quick()))
        thread.start()
        thread.join()
    assert found
    assert differences(found, ordinary) == []


def test_the_check_sees_a_number_that_does_depend_on_it() -> None:
    """The mutant: plain operators give other digits, or a signal, in each of the contexts above."""
    third = decimal.Decimal(1) / 3
    for digits in range(1, 28):
        with decimal.localcontext(context(digits, ROUNDINGS[digits % 8], trap=False, narrow=False)):
            assert decimal.Decimal(1) / 3 != third
    with (
        decimal.localcontext(context(28, decimal.ROUND_UP, trap=True, narrow=False)),
        pytest.raises(decimal.Inexact),
    ):
        decimal.Decimal(1) / 3


# ---- other surroundings ---------------------------------------------------------------------------------------------


@contextmanager
def other_precision() -> Iterator[None]:
    """The global precisions of libraries for wide numbers."""
    binary, digits = flint.ctx.prec, mpmath.mp.dps
    flint.ctx.prec, mpmath.mp.dps = 12, 3
    try:
        yield
    finally:
        flint.ctx.prec, mpmath.mp.dps = binary, digits


@contextmanager
def other_locale() -> Iterator[None]:
    """The first locale at hand that writes a decimal comma; where there is none, one that groups digits, or C."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "en_US.UTF-8", "C"):
            with contextlib.suppress(locale.Error):
                locale.setlocale(locale.LC_ALL, name)
                break
        yield
    finally:
        locale.setlocale(locale.LC_ALL, before)


@contextmanager
def ignored_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def other_seeds() -> Iterator[None]:
    states = random.getstate(), np.random.get_state()
    random.seed(7)
    np.random.seed(7)  # the global one is meant
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextmanager
def all_at_once() -> Iterator[None]:
    """Each by itself costs the whole list of numbers; one that changes a number shows among the others too."""
    with (
        np.errstate(divide="raise", over="raise", invalid="raise"),
        np.printoptions(precision=2, suppress=True, floatmode="fixed"),
        ignored_warnings(),
        other_precision(),
        other_locale(),
        other_seeds(),
    ):
        yield


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "all at once": all_at_once,
    "numpy is silent": lambda: np.errstate(all="ignore"),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_nothing_depends_on_other_surroundings(name: str, ordinary: dict[str, str]) -> None:
    numbers = every_number.whole if name == "all at once" else every_number.quick
    assert_nothing_changes(SURROUNDINGS[name](), numbers, ordinary)


def test_nothing_depends_on_hashes_or_the_number_of_threads(ordinary: dict[str, str]) -> None:
    """In a process of its own: the order of sets, and how many threads multiply matrices. Here it is one thread."""
    script = Path(every_number.__file__)
    chosen = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    surroundings = {**os.environ, **chosen, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, str(script)], env=surroundings, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == every_number.digest(ordinary)


# ---- floats that are not those of IEEE 754 --------------------------------------------------------------------------

UPWARD, DOWNWARD, TO_ZERO = (
    (0x800, 0x400, 0xC00) if platform.machine() in {"x86_64", "AMD64"} else (1 << 22, 2 << 22, 3 << 22)
)
"""<fenv.h>, of x86-64 and of AArch64."""


@contextmanager
def rounding(mode: int) -> Iterator[None]:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    before = library.fegetround()
    assert library.fesetround(mode) == 0
    try:
        yield
    finally:
        library.fesetround(before)


@contextmanager
def flushed() -> Iterator[None]:
    """What is near zero is zero, as for whoever trains on a processor and wants it fast."""
    assert torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


ALTERED: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "flushed to zero": flushed,
    "rounded up": lambda: rounding(UPWARD),
    "rounded down": lambda: rounding(DOWNWARD),
    "rounded to zero": lambda: rounding(TO_ZERO),
}


@pytest.mark.parametrize("how", ALTERED)
def test_no_bound_is_computed_in_floats_that_break_its_proof(how: str) -> None:
    """Refused with the reason, nothing spent; what needs no float is charged, and what was computed stays right."""
    step = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier=1), rate="0.01")
    book = dpl.Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    every_number.fresh()
    with ALTERED[how]():
        for call in (
            lambda: dpl.compose((step, 10)).epsilon(delta="1e-6"),
            lambda: dpl.compose((step, 10)).delta(epsilon=1),
            lambda: scope.quote((step, 10), relation="add_remove"),
        ):
            with pytest.raises(FloatsAltered, match="nothing was computed"):
                call()
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 0)
    assert float(dpl.compose((step, 10)).epsilon(delta="1e-6").upper) > 0
    assert len(book.verify(key=book.public_key).entries) == len(book) == 4


def test_flushing_would_take_an_upper_bound_to_zero() -> None:
    """The mutant: what `raised` adds is lost."""
    with flushed():
        assert 1e-310 * 1.0 == 0
