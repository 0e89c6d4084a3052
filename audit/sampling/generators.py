"""Generators that a mechanism does not get from the audit, seeded for each of its runs, and put back as they were.

Two kinds: those that a process shares (of `random`, numpy and torch), and those that a mechanism holds itself: in its
attributes, its closure, its defaults, or under a global name that its code uses. A copy of the second kind in a worker
would repeat its noise; seeded for each run, no two runs share noise, and the same seed gives the same runs.
"""

from __future__ import annotations

import functools
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import mtrand
from numpy.random.mtrand import get_bit_generator, set_bit_generator

__all__ = ["Watch", "own_generators", "seeded_globals", "watched"]

MOST_VISITED = 10_000  # objects that are looked at for generators
LIBRARIES = sys.stdlib_module_names | {
    "numpy", "scipy", "pandas", "torch", "sklearn", "joblib", "pydantic", "dpledger", "matplotlib", "cloudpickle",
}  # fmt: skip
"""Whose code is not searched: what it shares is seeded with the globals."""


# ---- those that a process shares ------------------------------------------------------------------------------------


@contextmanager
def seeded_globals(sequence: np.random.SeedSequence) -> Iterator[None]:
    """Seed the global generators of `random`, of numpy and, where it is loaded, of torch, each by itself.

    Whoever draws from them in another thread meanwhile draws from the seeded ones."""
    with _globals_kept():
        _seed_globals(sequence)
        yield


@contextmanager
def _globals_kept() -> Iterator[None]:
    with ExitStack() as undo:
        undo.callback(random.setstate, random.getstate())
        undo.callback(set_bit_generator, get_bit_generator())
        torch = sys.modules.get("torch")  # what never imported it draws nothing from it
        if torch is not None:
            undo.enter_context(torch.random.fork_rng(_devices(torch)))
        yield


def _seed_globals(sequence: np.random.SeedSequence) -> None:
    for_random, for_numpy, for_torch = sequence.spawn(3)
    random.seed(int.from_bytes(for_random.generate_state(8).tobytes(), "little"))
    set_bit_generator(np.random.MT19937(for_numpy))
    torch = sys.modules.get("torch")
    if torch is not None:
        seed = int(for_torch.generate_state(1, np.uint64)[0]) >> 1
        torch.default_generator.manual_seed(seed)
        if _devices(torch):
            torch.cuda.manual_seed_all(seed)


def _devices(torch: Any) -> range:
    return range(torch.cuda.device_count()) if torch.cuda.is_initialized() else range(0)


@contextmanager
def _globals_watched(watch: Watch) -> Iterator[None]:
    """See whether what a process shares is drawn from; then it is put back, as what was drawn is drawn again."""
    torch = sys.modules.get("torch")
    of_random, of_numpy = random.getstate(), np.random.get_state(legacy=False)
    of_torch = None if torch is None else torch.get_rng_state()
    told = pickle.dumps(of_numpy)
    yield
    now = random.getstate(), pickle.dumps(np.random.get_state(legacy=False))
    if now != (of_random, told) or (torch is not None and not torch.equal(of_torch, torch.get_rng_state())):
        watch.drew = True
        random.setstate(of_random)
        np.random.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)


# ---- those that a mechanism holds -----------------------------------------------------------------------------------


def own_generators(subject: object) -> list[Any]:
    """The generators that `subject` (a function, or an object that is called) holds or names, each once."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting: list[object] = [subject]
    while waiting and len(seen) < MOST_VISITED:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if _is_generator(one):
            if not any(one is shared for shared in _shared()):
                found.append(one)
        else:
            waiting.extend(_within(one))
    return found


def _is_generator(one: object) -> bool:
    torch = sys.modules.get("torch")
    kinds = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
    if isinstance(one, kinds):
        return not isinstance(one, random.SystemRandom)
    return torch is not None and isinstance(one, torch.Generator)


def _shared() -> list[object]:
    torch = sys.modules.get("torch")
    return [mtrand._rand, random._inst, *([] if torch is None else [torch.default_generator])]


def _is_library(module: object) -> bool:
    return not isinstance(module, str) or module.partition(".")[0] in LIBRARIES


def _within(one: object) -> list[object]:
    """What an object holds, or names."""
    match one:
        case types.FunctionType():
            return [] if _is_library(one.__module__) else _of_function(one)
        case types.MethodType():
            return [one.__self__, one.__func__]
        case functools.partial():
            return [one.func, *one.args, *one.keywords.values()]
        case staticmethod() | classmethod():
            return [one.__func__]
        case dict():
            return list(one.values())
        case list() | tuple() | set() | frozenset():
            return list(one)
        case type():
            return [] if _is_library(one.__module__) else list(vars(one).values())
        case types.ModuleType() | np.ndarray() | str() | bytes() | int() | float() | None:
            return []
    if _is_library(type(one).__module__):
        return []
    slots = [name for kind in type(one).__mro__ for name in _listed(vars(kind).get("__slots__", ()))]
    held = [value for name in slots if (value := getattr(one, name, None)) is not None]
    return [*getattr(one, "__dict__", {}).values(), *held, *type(one).__mro__]


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _of_function(function: types.FunctionType) -> list[object]:
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
    names = sorted(_names(function.__code__))  # in one order, whatever process this is
    named = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [one for one in named if isinstance(one, types.ModuleType) and not _is_library(one.__name__)]
    from_modules = [vars(module)[name] for module in modules for name in names if name in vars(module)]
    wrapped = list(vars(function).values())
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*cells, *defaults, *wrapped, *named, *from_modules]


def _names(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _is_full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a name that has no value yet
        return False


def _state(one: Any) -> Callable[[], object]:
    """How to put a generator back."""
    match one:
        case np.random.Generator(bit_generator=bits):
            return _state(bits)
        case np.random.BitGenerator():
            return functools.partial(setattr, one, "state", one.state)
        case np.random.RandomState():
            return functools.partial(one.set_state, one.get_state(legacy=False))
        case random.Random():
            return functools.partial(one.setstate, one.getstate())
        case _:
            return functools.partial(one.set_state, one.get_state())


def _seed(one: Any, sequence: np.random.SeedSequence) -> None:
    match one:
        case np.random.Generator(bit_generator=bits):
            _seed(bits, sequence)
        case np.random.BitGenerator():
            one.state = type(one)(sequence).state
        case np.random.RandomState():
            kind: Any = type(one._bit_generator)
            one.set_state(np.random.RandomState(kind(sequence)).get_state(legacy=False))
        case random.Random():
            one.seed(int.from_bytes(sequence.generate_state(8).tobytes(), "little"))
        case _:
            one.manual_seed(int(sequence.generate_state(1, np.uint64)[0]) >> 1)


# ---- around the runs of a piece -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """What is seeded before each run. `drew`: whether a run drew from what a process shares although it was not
    seeded, known after the last run."""

    own: list[Any]
    with_globals: bool
    drew: bool = field(default=False)

    @property
    def seeds(self) -> bool:
        """Whether anything is to be seeded."""
        return self.with_globals or bool(self.own)

    def begin(self, entropy: int) -> None:
        """Seed all of it for one run."""
        if not self.seeds:
            return
        *mine, rest = np.random.SeedSequence(entropy).spawn(len(self.own) + 1)
        for one, sequence in zip(self.own, mine, strict=True):
            _seed(one, sequence)
        if self.with_globals:
            _seed_globals(rest)


@contextmanager
def watched(subject: object, *, with_globals: bool) -> Iterator[Watch]:
    """Seed what `subject` holds, and with `with_globals` what the process shares; else see whether it is drawn from."""
    with ExitStack() as undo:
        watch = Watch(own_generators(subject), with_globals)
        for one in watch.own:
            undo.callback(_state(one))
        if with_globals:
            undo.enter_context(_globals_kept())
            yield watch
        else:
            undo.enter_context(_globals_watched(watch))
            yield watch
