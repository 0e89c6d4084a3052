"""The gate, the fold and the settling rules under arbitrary histories (Hypothesis state machines).

One machine works on the pure rules (`gate.decide`, `state.step`); the other on a SQLite file that is reopened at will.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

import ledger_golden
from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, Repeated, SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.errors import AlreadySpent, BudgetRefused, ChargeInProgress, KeyReused, PolicyError, VerificationError
from dpledger.ledger.entries.bodies import FORMAT, Aborted, Body, LedgerOpened, Progress, ScopeOpened, Started
from dpledger.ledger.entries.members import LevelCharge, MechanismNote, Step, UnitNote
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import gate
from dpledger.ledger.rules.gate import Admitted, Earlier, RefusedRequest, Replayed, Request
from dpledger.ledger.rules.redeems import REDEEM_BYTES, Redeem
from dpledger.ledger.rules.standing import EMPTY, State, is_exclusive, next_steps
from dpledger.ledger.rules.state import fold, step
from dpledger.ledger.verifying import verification
from dpledger.relations import Relation, Unit
from ledger_forger import forged
from ledger_mechanisms import Told, laplace, stream, training

PURE, EITHER = "pure", "either"
BUDGETS: dict[str, Guarantee] = {PURE: PureDP(2), EITHER: ApproxDP(2, "0.000001")}
MECHANISMS: tuple[Told, ...] = (
    laplace("0.1"),
    laplace("0.7"),
    laplace("1.5"),
    stream("0.6", 2),
    training(40, "40"),
    training(400, "25"),
)
SCOPES = st.sampled_from([PURE, EITHER, "both"])
KEYS = st.sampled_from([f"k{number}" for number in range(6)])
TAILS = st.sampled_from([None, Decimal(0), Decimal("0.00000001")])
REDEEMS = st.binary(min_size=REDEEM_BYTES, max_size=REDEEM_BYTES).map(Redeem)


def opening_bodies() -> list[Body]:
    """Two scopes, and one that is charged to both of them."""
    bodies: list[Body] = [
        LedgerOpened(
            format=FORMAT,
            public_key=ledger_golden.KEY.public.text,
            recovery_key=ledger_golden.RECOVERY.public.text,
            witness="off",
        )
    ]
    parents: dict[str, tuple[str, ...]] = {PURE: (), EITHER: (), "both": (EITHER, PURE)}
    for name, above in parents.items():
        budget = BUDGETS.get(name, BUDGETS[PURE])
        bodies.append(
            ScopeOpened(
                path=(Step(name, 0),),
                unit=UnitNote("patient", 1),
                relation=Relation.ADD_REMOVE,
                budget=budget,
                filter=filters.opened_by(budget),
                keep="none",
                parents=above,
            )
        )
    return bodies


def outcome_of(parts: Composition, draw: int, granted: int) -> Composition:
    """What a run of `parts` may come to."""
    match parts:
        case Repeated(of=of, times=times):
            return Repeated(of, times=times, done=min(times, granted + draw % 3))
        case SparseVectorLaw():
            closed = tuple(1 + draw % 4 for _ in range(draw % (parts.cutoff + 1)))
            values = {name: getattr(parts, name) for name in parts.__dataclass_fields__ if name != "outcome"}
            halted = len(closed) == parts.cutoff
            return SparseVectorLaw(**values, outcome=SparseVectorOutcome(closed, 0 if halted else draw % 5, halted))
        case _:
            return parts


class GateMachine(RuleBasedStateMachine):
    """Everything that may happen to a charge, in any order; each body is folded at once."""

    reserved: Bundle[str] = Bundle("reserved")
    running: Bundle[str] = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Body] = opening_bodies()
        self.state: State = fold(self.bodies)
        self.known: dict[tuple[str, str], Earlier] = {}
        self.asked: dict[tuple[str, str], tuple[Told, Decimal]] = {}
        self.refused: set[tuple[str, str, str]] = set()
        self.redeems: dict[str, Redeem] = {}

    def append(self, body: Body) -> None:
        self.state = step(self.state, body)
        self.bodies.append(body)

    def illegal(self, body: Body) -> None:
        """The fold refuses, and nothing changes."""
        before = self.state
        try:
            step(before, body)
        except VerificationError:
            assert self.state == before
        else:
            raise AssertionError(f"accepted: {body}")

    def path(self, charge: str) -> tuple[Step, ...]:
        return next_steps(self.state, self.state.charge(charge).path)

    @rule(target=running, scope=SCOPES, key=KEYS, redeem=REDEEMS, mechanism=st.sampled_from(MECHANISMS), tail=TAILS)
    def start_at_once(self, scope: str, key: str, redeem: Redeem, mechanism: Told, tail: Decimal | None) -> Any:
        charges = self.decide(scope, key, redeem, mechanism, tail)
        self.redeems.update(dict.fromkeys(charges, redeem))
        return multiple(*charges)

    @rule(target=reserved, scope=SCOPES, key=KEYS, mechanism=st.sampled_from(MECHANISMS), tail=TAILS)
    def reserve(self, scope: str, key: str, mechanism: Told, tail: Decimal | None) -> Any:
        return multiple(*self.decide(scope, key, None, mechanism, tail))

    def decide(self, scope: str, key: str, redeem: Redeem | None, mechanism: Told, tail: Decimal | None) -> list[str]:
        """Ask; the charge, if admitted. A repetition, a reused key or a refusal leaves every sum as it was."""
        tail = tail if scope == EITHER else None  # the other scopes count pure prices alone
        charge = f"{len(self.bodies):032x}"
        steps = mechanism.made_of.times if isinstance(mechanism.made_of, Repeated) else None
        request = Request(
            scope=scope,
            key=key,
            charge=charge,
            mechanism=MechanismNote(mechanism.kind, mechanism.parameters(), "test"),
            relation=Relation.ADD_REMOVE,
            unit=Unit("patient"),
            claim=mechanism.claim(),
            parts=mechanism.parts(),
            failures=(),
            form="training" if steps else "interaction" if mechanism.kind == "sparse_vector" else "release",
            steps=steps,
            redeem=None if redeem is None else redeem.digest,
            tail_delta=tail,
        )
        earlier, first = self.known.get((scope, key)), self.asked.get((scope, key))
        is_same = first is not None and first[0] is mechanism and tail in (None, first[1])
        before = self.state
        if earlier is not None and (not is_same or earlier.status != "committed"):
            refused_by = (AlreadySpent, ChargeInProgress) if is_same else KeyReused
            with pytest.raises(refused_by):
                gate.decide(before, request, earlier)
            return []
        decision = gate.decide(before, request, earlier)
        assert getattr(gate.decide(before, request, earlier), "body", None) == getattr(decision, "body", None)  # pure
        match decision:
            case Admitted(body=body):
                assert earlier is None
                self.append(body)
                self.known[scope, key] = Earlier(charge=charge, request=body.request, status="open")
                self.asked[scope, key] = mechanism, body.tail_delta
                return [charge]
            case RefusedRequest(body=refused):
                if (scope, key, refused.request) not in self.refused:  # as a store keeps them: once
                    self.refused.add((scope, key, refused.request))
                    self.append(refused)
                assert sums_of(self.state) == sums_of(before)
                assert self.state.open == before.open
                return []
            case Replayed(charge=other):
                assert earlier is not None
                assert (earlier.status, earlier.charge) == ("committed", other)
                return []

    @rule(target=running, charge=consumes(reserved), redeem=REDEEMS)
    def start(self, charge: str, redeem: Redeem) -> str:
        self.append(Started(path=self.path(charge), charge=charge, redeem=redeem.digest))
        self.redeems[charge] = redeem
        return charge

    @rule(charge=consumes(reserved))
    def abort(self, charge: str) -> None:
        held = self.state.charge(charge)
        before = sums_of(self.state)
        self.append(Aborted(path=self.path(charge), charge=charge))
        self.ended(charge, "aborted")
        for level in held.levels:
            scope = self.state.scope(level.scope)
            again = filters.with_charge(scope.filter, scope.sums, level.amounts)
            assert dict(again) == dict(before[level.scope])

    @rule(charge=running, more=st.integers(1, 30))
    def grant(self, charge: str, more: int) -> None:
        held = self.state.open.get(charge)
        if held is None or held.form != "training":
            return
        upto, redeem = held.granted + more, self.redeems[charge].digest
        body = Progress(path=self.path(charge), charge=charge, redeem=redeem, upto=upto)
        if upto <= (held.steps or 0):
            self.append(body)
        else:
            self.illegal(body)

    @rule(charge=consumes(running), draw=st.integers(0, 1000), outside=st.booleans())
    def commit(self, charge: str, draw: int, outside: bool) -> None:
        held = self.state.charge(charge)
        before = sums_of(self.state)
        parts, redeem = outcome_of(held.parts, draw, held.granted), self.redeems[charge]
        body = gate.settle(self.state, held, parts, redeem=redeem, outside_guarantee=outside)
        self.append(body)
        self.ended(charge, "committed")
        for name, sums in sums_of(self.state).items():
            for coordinate, (total, unpriced) in sums.items():
                assert total <= before[name][coordinate][0]
                assert unpriced == before[name][coordinate][1]
        if outside:
            assert sums_of(self.state) == before

    def ended(self, charge: str, status: Any) -> None:
        for name, earlier in self.known.items():
            if earlier.charge == charge:
                self.known[name] = Earlier(
                    charge=charge, request=earlier.request, status=status, ended=len(self.bodies) - 1
                )

    @precondition(lambda self: self.state.open)
    @rule(data=st.data(), redeem=REDEEMS)
    def try_what_is_illegal(self, data: st.DataObject, redeem: Redeem) -> None:
        charge = data.draw(st.sampled_from(sorted(self.state.open)))
        held, path = self.state.charge(charge), self.path(charge)
        if held.redeem is not None:
            self.illegal(Aborted(path=path, charge=charge))
            self.illegal(Started(path=path, charge=charge, redeem=redeem.digest))
            committed = gate.settle(self.state, held, held.parts, redeem=self.redeems[charge])
            cheaper = tuple(
                LevelCharge(level.scope, {name: amount / 2 for name, amount in level.amounts.items()})
                for level in held.levels
            )
            if cheaper != held.levels:
                self.illegal(type(committed)(**{**members(committed), "levels": cheaper}))
            if not redeem.opens(held.redeem):
                self.illegal(type(committed)(**{**members(committed), "redeem": redeem.digest}))
                with pytest.raises(PolicyError, match="only that one can settle it"):
                    gate.settle(self.state, held, held.parts, redeem=redeem)
        self.illegal(Aborted(path=path, charge="f" * 31 + "0"))

    @invariant()
    def no_budget_is_passed(self) -> None:
        for name, scope in self.state.scopes.items():
            assert filters.admits(scope.filter, scope.sums), name

    @invariant()
    def what_is_kept_of_the_open_charges_is_what_they_hold(self) -> None:
        """The fold keeps it beside the sums, so that nobody has to look through the charges."""
        for name, scope in self.state.scopes.items():
            charges = [charge for charge in self.state.open.values() if name in charge.path]
            amounts = [level.amounts for charge in charges for level in charge.levels if level.scope == name]
            held = filters.opening(scope.filter)
            for amount in amounts:
                held = filters.with_charge(scope.filter, held, amount)
            assert scope.held == held
            assert scope.interactions == sum(charge.form != "release" for charge in charges)
            assert scope.exclusive == sum(is_exclusive(charge.form, charge.parts) for charge in charges)

    def teardown(self) -> None:
        assert fold(self.bodies) == self.state
        leaves, head = forged(self.bodies, ledger_golden.KEY)
        assert verification.verify(leaves, head, ledger_golden.KEY.public).state == self.state


def members(body: Any) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__dataclass_fields__}


def sums_of(state: State) -> Mapping[str, Mapping[str, tuple[Decimal, int]]]:
    return {name: scope.sums for name, scope in state.scopes.items()}


class FileMachine(RuleBasedStateMachine):
    """People at a ledger file, who close it and open it again whenever they like."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "clinic.ledger"
        self.book = Ledger.create(self.path)
        for name, budget in BUDGETS.items():
            self.book.scope(name, unit="patient", relation="add_remove", budget=budget)
        self.results: dict[tuple[str, str], tuple[Any, int]] = {}
        self.granted = Decimal(0)

    @rule()
    def reopen(self) -> None:
        state = self.book.state
        self.book.close()
        self.book = Ledger.open(self.path)
        assert self.book.state == state

    @rule(
        scope=st.sampled_from([PURE, EITHER]),
        key=KEYS,
        epsilon=st.sampled_from(["0.1", "0.7", "1.5"]),
        value=st.integers(),
    )
    def release(self, scope: str, key: str, epsilon: str, value: int) -> None:
        size = len(self.book)
        try:
            receipt = self.book.scope(scope).release(laplace(epsilon), value, key=key)
        except KeyReused:
            assert (scope, key) in self.results
            assert len(self.book) == size
        except BudgetRefused:
            assert (scope, key) not in self.results
        else:
            if (scope, key) in self.results:
                assert (receipt.value, receipt.entry.index) == self.results[scope, key]
                assert len(self.book) == size
            else:
                assert receipt.value == value
                assert len(self.book) == size + 2
                self.granted += Decimal(epsilon) if scope == PURE else 0
            self.results[scope, key] = (receipt.value, receipt.entry.index)

    @rule(scope=st.sampled_from([PURE, EITHER]), asked=st.lists(st.booleans(), max_size=6))
    def ask(self, scope: str, asked: list[bool]) -> None:
        try:
            session = self.book.scope(scope).open(stream("0.6", 2), None)
        except BudgetRefused:
            return
        below = 0
        with session as answers:
            for query in asked:
                if below == 2:
                    break
                answers.ask(query)
                below += not query
        charged = session.receipt.entry.body.levels[0].amounts["pure"]  # type: ignore[union-attr]
        assert charged <= Decimal("0.6")
        assert charged > 0 or not asked
        self.granted += charged if scope == PURE else 0

    @invariant()
    def the_file_holds_what_was_granted(self) -> None:
        (spent, unpriced) = self.book.state.scopes[PURE].sums["pure"]
        assert (spent, unpriced) == (self.granted, 0)
        assert self.granted <= 2

    def teardown(self) -> None:
        verified = self.book.verify()
        assert verified.state == self.book.state
        assert not verified.state.open
        self.book.close()
        self.folder.cleanup()


GateMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
FileMachine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestGate = GateMachine.TestCase
TestFile = FileMachine.TestCase


def test_the_empty_ledger_starts_with_its_opening_alone() -> None:
    opening, scope, *_ = opening_bodies()
    assert step(EMPTY, opening).opened == opening
    with pytest.raises(VerificationError, match="not ledger_opened"):
        step(EMPTY, scope)
