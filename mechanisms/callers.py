"""The caller's own code, run where what goes wrong in it may not be told: it depends on the data.

>>> came_to(lambda: 1), came_to(lambda: 1 / 0)
((1,), None)
"""

from __future__ import annotations

import functools
import inspect
import signal
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from types import CodeType, MappingProxyType
from typing import Final, TypeVar

from dpledger.errors import ParameterError

__all__ = ["begins_later", "came_to", "is_of_a_handler", "signature_of"]

Value = TypeVar("Value")


def came_to(code: Callable[[], Value]) -> tuple[Value] | None:
    """What the code came to; None where it raised, whatever that was, unless somebody ends the program, or a handler of
    a signal raised (a timer's): that is nothing of the code, and goes on as what it is, without the error of the code
    that was being handled."""
    try:
        return (code(),)
    except BaseException as error:  # what some libraries raise when they break is no Exception
        if not isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)) and not is_of_a_handler(error):
            return None
        stop = error
    stop.__context__ = None  # of the code, whose text may be data
    try:
        raise stop
    finally:
        del stop  # no cycle with this frame


def is_of_a_handler(error: BaseException) -> bool:
    """Whether a handler of a signal, as it is installed now, raised it: its frame is on the way that the error came."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    way = error.__traceback__
    while way is not None:
        if way.tb_frame.f_code in handlers:
            return True
        way = way.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """The code that runs when Python calls it; None for what is no handler of Python's."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for found in (handler, vars(type(handler)).get("__call__")):  # a function or method; an object of a class
        code = getattr(found, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


_LATE: Final[Mapping[str, Callable[[object], bool]]] = MappingProxyType(
    {
        "a coroutine function": inspect.iscoroutinefunction,
        "a generator function": inspect.isgeneratorfunction,
        "an async generator function": inspect.isasyncgenfunction,
    }
)


def signature_of(function: object) -> inspect.Signature:
    """What the function takes. ParameterError for what returns before it has run, or does not say what it takes."""
    called = function
    while isinstance(called, functools.partial | staticmethod):
        called = called.func if isinstance(called, functools.partial) else called.__func__
    expected = "a function that says what it takes, and has run once it returns"
    if not callable(function):
        raise ParameterError("function", type(function).__name__, expected)
    for kind, is_late in _LATE.items():
        if is_late(called) or is_late(type(called).__call__):
            raise ParameterError("function", f"{kind}, which has not run when it returns", expected)
    with suppress(ValueError):  # of a builtin that says nothing
        return inspect.signature(function)
    raise ParameterError("function", function if isinstance(function, type) else type(function).__name__, expected)


def begins_later(result: object) -> bool:
    """Whether what a function returned is still to run, as a coroutine or a generator is. It is closed, where it can
    be, so that it never does."""
    if not any(is_late(result) for is_late in (inspect.isawaitable, inspect.isgenerator, inspect.isasyncgen)):
        return False
    if isinstance(result, Coroutine | Generator):
        result.close()
    return True
