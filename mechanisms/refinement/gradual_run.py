"""What gradual releases have in common, whatever their noise, and the conversation that answers level by level.

A level is asked for by a number that rises along the chain: its epsilon, or its mu. Which level that is, is public; and
that each is finer than the last one, the conversation sees to, before anything is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy.typing as npt

from dpledger.accounting.chains import Chain, ChainLaw, is_within
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, read, text
from dpledger.errors import Halted, ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.grid import TotalMap, check_number_or_vector, number_or_vector_to_steps
from dpledger.mechanisms.numeric.one_shot import OneShot, Vouched
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home

__all__ = ["Answer", "Gradual", "GradualRun", "GradualStatistic"]

Answer: TypeAlias = int | float | npt.NDArray[Any]
"""A level: a number where the dimension is 1, else an array; whole numbers where the statistic is whole."""

Answer_co = TypeVar("Answer_co", covariant=True)
_NOTHING = PureDP(0)


class Gradual(OneShot, ABC):
    """Base of a record that answers with one statistic again and again, each time with less noise."""

    __slots__ = ()

    measure: ClassVar[str]
    """What a query is: the field that also holds the cap."""

    @abstractmethod
    def parts(self) -> Chain:
        """One chain, at its finest level."""

    @abstractmethod
    def inspect(self, data: object) -> None:
        """ParameterError where shape and type alone tell that data are not for it."""

    @abstractmethod
    def _law(self, level: Decimal) -> ChainLaw:
        """The law of a level, as the chain names it. ParameterError where no noise has it."""

    @abstractmethod
    def _steps(self, data: object) -> npt.NDArray[Any]:
        """The statistic in whole steps: integers, of one axis. Total: never raises."""

    @abstractmethod
    def _answers(self, steps: npt.NDArray[Any], entropy: Entropy) -> Callable[[Decimal], Answer]:
        """How levels that grow finer are answered, for a statistic in whole steps."""

    def _level_asked(self, query: Number) -> Decimal:
        """The level that a query asks for. ParameterError unless it is one of the chain, by public values alone."""
        cap: Decimal = getattr(self, self.measure)
        asked = read(query, field=self.measure)
        if not 0 < asked <= cap:
            raise ParameterError(self.measure, query, f"a number above 0 and not above the finest level, {text(cap)}")
        return asked

    def level_of(self, query: Number, /) -> ChainLaw:
        """The level of the chain that the answer to `query` publishes."""
        return self._law(self._level_asked(query))

    def open(self, data: object, *, entropy: Entropy) -> GradualRun[Answer]:
        """Begin: nothing is drawn before the first level is asked for."""
        self.inspect(data)
        return GradualRun(self, self._answers(self._steps(data), entropy))


class GradualStatistic(Gradual, Vouched):
    """Base of those that answer with a number, or a vector of a public dimension, that the caller computed."""

    __slots__ = ()

    dimension: int
    bound: Decimal
    missing: Decimal

    @property
    @abstractmethod
    def grid_in_use(self) -> Decimal:
        """The step of what is published."""

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are one number or, where the dimension is above 1, a vector of that length."""
        check_number_or_vector(data, self.dimension)

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return self._map.words()

    @property
    def _map(self) -> TotalMap:
        return TotalMap(grid=self.grid_in_use, bound=self.bound, missing=self.missing)

    def _steps(self, data: object) -> npt.NDArray[Any]:
        return number_or_vector_to_steps(data, self._map, self.dimension)


class GradualRun(Generic[Answer_co]):
    """The conversation of a gradual release. Shows nothing of the data, does not pickle, and refuses in a forked child.
    Threads may share it: they are answered one after another."""

    def __init__(self, mechanism: Gradual, answer: Callable[[Decimal], Answer_co]) -> None:
        self._mechanism = mechanism
        self._answer = answer
        self._reached: ChainLaw | None = None
        self._level: Decimal | None = None
        self._last: Answer_co | None = None
        self._release: Release[Answer_co | None] | None = None
        self._home = Home("a gradual release")
        self._turn = Turn("a gradual release")

    def __repr__(self) -> str:
        ended = "" if self._release is None else ", closed"
        reached = "nothing asked" if self._level is None else f"at {self._mechanism.measure} {text(self._level)}"
        return f"<{type(self).__name__}: {reached}{ended}>"

    def __reduce__(self) -> str:
        raise TypeError("a gradual release does not pickle: a copy would repeat its noise")

    @property
    def level(self) -> Decimal | None:
        """The last level that was answered, None before the first: what all answers together cost."""
        return self._level

    def ask(self, query: Number, /) -> Answer_co:
        """The statistic at this level, which is finer than all before it. Equal answers in a row are no fault: the
        noise of a chain may stay as it is.

        Raises ParameterError, with nothing drawn, for a level that is not finer than the last one or beyond the cap;
        Halted once closed."""
        self._home.require()
        asked = self._mechanism._level_asked(query)
        law = self._mechanism._law(asked)
        with self._turn:
            if self._release is not None:
                raise Halted("the gradual release is closed")
            if self._level is not None and self._reached is not None and is_within(law, self._reached):
                expected = f"a level that is finer than the last one, {text(self._level)}"
                raise ParameterError(self._mechanism.measure, query, expected)
            self._last = self._answer(asked)
            self._reached, self._level = law, asked
            return self._last

    def close(self) -> Release[Answer_co | None]:
        """End it; the value is the last answer, None where nothing was asked. A second call returns the same."""
        self._home.require()
        with self._turn:
            if self._release is None:
                parts = replace(self._mechanism.parts(), reached=self._reached or _NOTHING)
                self._release = Release(value=self._last, parts=parts)
            return self._release
