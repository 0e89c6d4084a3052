"""Mechanisms for tests of the ledger: what they release is fixed beforehand, what they say of themselves is real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Self

from dpledger.accounting.chains import ChainLaw, Level, finer
from dpledger.accounting.composition import (
    Chain,
    Composition,
    GaussianLaw,
    LaplaceLaw,
    Repeated,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.families.sparse_vector.scales import sparse_vector_law
from dpledger.accounting.guarantees import ZCDP, Failure, Guarantee, PureDP
from dpledger.accounting.pricing.outcomes import steps
from dpledger.errors import Halted
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import Release, fixed
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, plain

TENTH: Guarantee = PureDP("0.1")
TENTH_PARTS: Composition = LaplaceLaw("0.1")


@dataclass(frozen=True)
class Told:
    """What the mechanisms here have in common: they are whatever they are told to be."""

    claimed: Guarantee = TENTH
    made_of: Composition = TENTH_PARTS
    kind: str = "told"
    relation: Relation | None = None
    unit: Unit | None = None
    causes: tuple[Failure, ...] = ()
    public: Mapping[str, Plain] = field(default_factory=dict)

    def under(self, relation: Relation, unit: Unit) -> Self:
        fixed(self.relation, self.unit, relation, unit)
        return self

    def claim(self) -> Guarantee:
        return self.claimed

    def parts(self) -> Composition:
        return self.made_of

    def failures(self) -> tuple[Failure, ...]:
        return self.causes

    def parameters(self) -> Mapping[str, Plain]:
        return self.public or {"parts": plain(self.made_of)}


def laplace(epsilon: str = "0.1") -> Once:
    """One that answers once, at this epsilon."""
    return Once(claimed=PureDP(epsilon), made_of=LaplaceLaw(epsilon), kind="laplace")


@dataclass(frozen=True)
class Once(Told):
    """Answers once. `run`: called with the data and the planned parts; what it returns is released."""

    run: Callable[[Any, Composition], Any] = lambda data, parts: Release(value=data, parts=parts)

    def release(self, data: Any, *, entropy: Entropy) -> Release[Any]:
        released: Release[Any] = self.run(data, self.made_of)
        return released


def stream(epsilon: str = "0.5", cutoff: int = 2) -> Stream:
    """A sparse vector that answers whatever it is asked."""
    law = sparse_vector_law(Decimal(epsilon), Decimal(0), cutoff, "basic")
    return Stream(claimed=PureDP(epsilon), made_of=law, kind="sparse_vector")


@dataclass(frozen=True)
class Stream(Told):
    """An interaction: a query is its own answer; False is charged, and `cutoff` of them halt it."""

    def open(self, data: Any, *, entropy: Entropy) -> StreamRun:
        assert isinstance(self.made_of, SparseVectorLaw)
        return StreamRun(self.made_of)


class StreamRun:
    """The conversation of a `Stream`. A query that can be called is called, and may raise."""

    def __init__(self, law: SparseVectorLaw) -> None:
        self.law = law
        self.closed_epochs: list[int] = []
        self.open_epoch = 0

    def ask(self, query: Any, /) -> bool:
        if len(self.closed_epochs) == self.law.cutoff:
            raise Halted("over")
        answer = bool(query() if callable(query) else query)
        self.open_epoch += 1
        if not answer:
            self.closed_epochs.append(self.open_epoch)
            self.open_epoch = 0
        return answer

    def close(self) -> Release[int]:
        halted = len(self.closed_epochs) == self.law.cutoff
        outcome = SparseVectorOutcome(tuple(self.closed_epochs), self.open_epoch, halted)
        values = {name: getattr(self.law, name) for name in self.law.__dataclass_fields__ if name != "outcome"}
        return Release(
            value=sum(self.closed_epochs) + self.open_epoch, parts=SparseVectorLaw(**values, outcome=outcome)
        )


def training(steps: int = 40, noise_multiplier: str = "40") -> Training:
    """A training run of plain Gaussian steps."""
    step = GaussianLaw(noise_multiplier)
    rho = Decimal(steps) / (2 * Decimal(noise_multiplier) ** 2)
    return Training(claimed=ZCDP(rho), made_of=Repeated(step, times=steps), kind="training", planned_steps=steps)


@dataclass(frozen=True)
class Training(Told):
    """An interaction of planned steps: each ask is one, and returns its number."""

    planned_steps: int = 1

    def steps_to_grant(self) -> int:
        return self.planned_steps

    def open(self, data: Any, *, entropy: Entropy) -> TrainingRun:
        return self.resume(data, done=0, entropy=entropy)

    def resume(self, data: Any, *, done: int, entropy: Entropy) -> TrainingRun:
        return TrainingRun(self.made_of, done)


class TrainingRun:
    """The conversation of a `Training`."""

    def __init__(self, plan: Composition, done: int = 0) -> None:
        counted = steps(plan)
        assert counted is not None
        self.plan = counted
        self.done = done

    def ask(self, query: object, /) -> int:
        self.done += 1
        return self.done

    def close(self) -> Release[int]:
        return Release(value=self.done, parts=self.plan.recorded(self.done))


@dataclass(frozen=True)
class Refining(Told):
    """An interaction about a chain: each query is a level, and its own answer."""

    def level_of(self, query: ChainLaw, /) -> ChainLaw:
        return query

    def open(self, data: Any, *, entropy: Entropy) -> RefiningRun:
        assert isinstance(self.made_of, Chain)
        return RefiningRun(self.made_of)


class RefiningRun:
    """The conversation of a `Refining`."""

    def __init__(self, plan: Chain) -> None:
        self.plan = plan
        self.reached: Level = PureDP(0)

    def ask(self, query: ChainLaw, /) -> ChainLaw:
        self.reached = finer(self.reached, query)
        return query

    def close(self) -> Release[None]:
        return Release(value=None, parts=replace(self.plan, reached=self.reached))
