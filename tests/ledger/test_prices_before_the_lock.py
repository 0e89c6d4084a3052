"""No price is computed between the read of a ledger and the append: nobody overtakes what takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting import certified
from dpledger.accounting.pricing import costs
from dpledger.errors import CannotCertify, ScopeError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import gate
from dpledger.ledger.rules.requested import Request
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.signed import keys
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import NOTHING, Addition, AppendOutcome, Question, Tail

STEP = dpl.PoissonSampled(dpl.GaussianLaw(2), rate="0.01")
PLAN = dpl.Repeated(STEP, times=3)
TRAINING = dpl.DPSGD(rate="0.01", steps=3, noise_multiplier=2, clip_norm=1, dimension=2, expected_batch_size=1)
SAID: dict[str, Any] = {"unit": "record", "relation": "add_remove", "budget": dpl.ApproxDP(3, "1e-6")}


class Watched(MemoryStore):
    """A store that says whether a price now would be one between its read and the append that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_locked = False

    def tail(self, start: int | None, asked: Question = NOTHING) -> Tail:
        found = super().tail(start, asked)
        self.is_locked = asked.key is not None
        return found

    def append(self, addition: Addition) -> AppendOutcome:
        self.is_locked = False
        return super().append(addition)


def charged(scope: dpl.Scope, **said: Any) -> dpl.results.Receipt[None]:
    return scope.charge(PLAN, relation="add_remove", by="A. Smith", reason="weekly means", **said)


def trained(scope: dpl.Scope) -> object:
    with scope.open(TRAINING, np.zeros((4, 2))) as run:
        return run


@pytest.mark.parametrize(
    "ask",
    [
        charged,
        trained,
        lambda scope: charged(scope, tail_delta="1e-8"),
        lambda scope: charged(scope, tail_delta=0),
        lambda scope: scope.charging(PLAN, relation="add_remove", by="A. Smith", reason="weekly means").__enter__(),
        lambda scope: scope.reserve(dpl.Gaussian(sensitivity=1, sigma=20)),
        lambda scope: scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 0),
    ],
    ids=["charge", "open", "by its profile", "from its parts", "charging", "reserve", "release"],
)
def test_every_price_is_known_before(ask: Callable[[dpl.Scope], object], monkeypatch: pytest.MonkeyPatch) -> None:
    store = Watched()
    ledger_id = keys.new_ledger_id("watched")
    signer, recovery = keys.SigningKey.generate(ledger_id), keys.SigningKey.generate(ledger_id)
    scope = Ledger.begin(store, signer, recovery.public).scope("rows", **SAID)
    asked: list[bool] = []

    def watched(price: Callable[..., Any]) -> Callable[..., Any]:
        def told(*args: Any, **kwargs: Any) -> Any:
            asked.append(store.is_locked)
            return price(*args, **kwargs)

        return told

    for place, name in ((certified, "charge"), (costs, "charge"), (certified, "kept_profile")):
        monkeypatch.setattr(place, name, watched(getattr(place, name)))
    ask(scope)
    assert asked
    assert not any(asked)


def test_what_somebody_else_spent_meanwhile_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scope chooses its tail_delta from what is left of delta when the charge is entered, not when it is priced."""
    with Ledger.create(tmp_path / "book.db") as book, Ledger.open(tmp_path / "book.db") as others:
        scope = book.scope("rows", **SAID)
        priced, chosen = gate.priced, list[Decimal]()

        def overtaken(state: State, request: Request) -> gate.Prices:
            found = priced(state, request)
            if request.parts == PLAN:
                chosen.append(found.tail_delta)
                if len(chosen) == 1:
                    half = dpl.ApproxDP("0.1", "3e-7")
                    others.scope("rows").charge(
                        half, relation="add_remove", by="A. Smith", reason="a request of another process"
                    )
            return found

        monkeypatch.setattr(gate, "priced", overtaken)
        charged(scope)
        assert chosen == [Decimal("3.125e-8"), Decimal("7.8125e-9")]
        assert [one.tail_delta for one in scope.releases()] == [0, chosen[-1]]
        book.verify()


def test_a_key_that_was_used_is_answered_though_nothing_prices_the_parts_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not priced is told in its turn: after what the key, the scope and its interactions say."""
    book = dpl.Ledger.in_memory()
    scope = book.scope("rows", **SAID)
    first = charged(scope, key="weekly")

    def refuses(*_: object, **__: object) -> object:
        raise CannotCertify("no theorem")

    monkeypatch.setattr(certified, "charge", refuses)
    again = charged(scope, key="weekly")
    assert again.replayed
    assert again.entry == first.entry
    with pytest.raises(CannotCertify, match="no theorem"):
        charged(scope, key="monthly")
    scope.end("done")
    with pytest.raises(ScopeError, match="is closed"):
        charged(scope, key="monthly")
