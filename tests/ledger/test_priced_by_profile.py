"""Requests that are priced by their certified profile: what a scope decides where nobody says, what stands in the
entry, what settles, and forgeries that a verifier finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import dpledger as dpl
import ledger_golden
from dpledger.accounting.filters import BasicFilter, ZCDPFilter
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, PrivacyFailure, PureDP
from dpledger.decimals import round_up
from dpledger.errors import BudgetRefused, CannotCertify, KeyReused, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Body, Committed, Reserved
from dpledger.ledger.entries.members import LevelCharge, Priced
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import verification
from dpledger.mechanisms.protocol import Release
from ledger_forger import forged
from ledger_mechanisms import Once, Training, TrainingRun, laplace, stream, training

pytestmark = pytest.mark.sliced

BUDGET = ApproxDP(1, "0.000001")
HALF = Decimal("0.0000005")
SIXTEENTH = HALF / 16
STEP = dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.001")


def run(steps: int = 100, step: Any = STEP, epsilon: int = 1) -> Training:
    """Steps of rare, large losses: no Renyi order prices them one by one."""
    plan = dpl.Repeated(step, times=steps)
    return Training(
        claimed=ApproxDP(epsilon, "0.0000001"), made_of=plan, kind="training", planned_steps=steps, causes=CAUSES
    )


CAUSES = (PrivacyFailure("0.0000001", "composition"),)


def plan(times: int = 4) -> Once:
    """Several releases that answer once."""
    return Once(claimed=ZCDP(Decimal(times) / 5000), made_of=dpl.Repeated(dpl.GaussianLaw(50), times=times))


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as ledger:
        yield ledger


def scope_of(book: Ledger, budget: Any = BUDGET, name: str = "people", **options: Any) -> Scope:
    return book.scope(name, unit="patient", relation="add_remove", budget=budget, **options)


def bodies(book: Ledger, kind: type[Body]) -> list[Any]:
    return [entry.body for entry in book.entries() if isinstance(entry.body, kind)]


# ---- who decides ----------------------------------------------------------------------------------------------------


def test_planned_training_is_priced_as_the_plan_that_it_is(book: Ledger) -> None:
    """Step by step it is refused; as one plan it takes a small share."""
    scope = scope_of(book)
    with pytest.raises(BudgetRefused):
        scope.open(run(), None, tail_delta=0)
    scope.open(run(), None)
    (reserved,) = bodies(book, Reserved)
    (level,) = reserved.levels
    assert reserved.priced == Priced(SIXTEENTH)
    assert level.amounts["delta"] == SIXTEENTH
    assert Decimal("0.1") < level.amounts["pure"] < Decimal("0.2")
    assert level.amounts["mixed_rdp_0"] < Decimal("0.01")


def test_a_share_of_what_is_left_is_never_used_up(book: Ledger) -> None:
    """A sixteenth of what is left, rounded down to a power of two: the hundredth run finds delta too."""
    scope = scope_of(book, ApproxDP(3, "0.000001"))
    for _ in range(40):
        scope.reserve(plan())
        left = HALF - scope._scope.sums["delta"][0]
        assert left > 0
    tails = [reserved.tail_delta for reserved in bodies(book, Reserved)]
    assert tails == sorted(tails, reverse=True)
    assert set(tails) == {SIXTEENTH, SIXTEENTH / 2, SIXTEENTH / 4, SIXTEENTH / 8}


@pytest.mark.parametrize(
    "mechanism",
    [laplace("0.1"), Once(claimed=ZCDP("0.005"), made_of=dpl.GaussianLaw(10)), training(1)],
    ids=["laplace", "gaussian", "training"],
)
def test_one_release_and_pure_prices_are_priced_from_the_parts(book: Ledger, mechanism: Any) -> None:
    scope = scope_of(book)
    if isinstance(mechanism, Training):
        scope.open(mechanism, None)
    else:
        scope.reserve(mechanism)
    (reserved,) = bodies(book, Reserved)
    assert reserved.priced is None


def sampled(noise: int, rate: str) -> Once:
    """One step on a Poisson sample, which answers once."""
    step = dpl.PoissonSampled(dpl.GaussianLaw(noise), rate=rate)
    return Once(claimed=ApproxDP(1, "0.000001"), made_of=step, causes=(PrivacyFailure("0.000001", "composition"),))


def test_a_single_release_of_rare_losses_is_priced_by_its_profile(book: Ledger) -> None:
    """By its parts not one of these is admitted; so asked, hundreds are."""
    scope = scope_of(book)
    scope.reserve(laplace("0.001"))  # the filter is fixed
    release = sampled(1, "0.001")
    assert not scope.quote(release, tail_delta=0).admitted
    for _ in range(3):
        scope.release(release, 7)
    assert [one.tail_delta for one in bodies(book, Reserved)[1:]] == [SIXTEENTH, SIXTEENTH / 2, SIXTEENTH / 2]
    assert scope.afford(release.parts(), most=400).one_by_one == 400
    book.verify()


def test_a_single_release_that_the_scope_has_no_other_price_for_is_priced_by_its_profile(book: Ledger) -> None:
    scope = scope_of(book, BasicFilter(1, "0.000001"))
    scope.release(Once(claimed=ZCDP("0.005"), made_of=dpl.GaussianLaw(10)), 7)
    (reserved,) = bodies(book, Reserved)
    assert reserved.tail_delta == Decimal("0.0000000625")
    book.verify()


def test_a_single_release_that_is_refused_is_told_with_which_tail_delta_it_fits(book: Ledger) -> None:
    scope = scope_of(book)
    scope.reserve(laplace("0.001"))
    release = Once(claimed=ZCDP("0.03125"), made_of=dpl.GaussianLaw(4))
    with pytest.raises(BudgetRefused) as raised:
        scope.release(release, 7)
    assert raised.value.tail_delta is None, "in no way"
    smaller = Once(claimed=ZCDP("0.0237"), made_of=dpl.GaussianLaw("4.6"))
    quote = scope.quote(smaller)
    assert not quote.admitted
    assert quote.cheaper is not None
    with pytest.raises(BudgetRefused) as raised:
        scope.release(smaller, 7)
    assert raised.value.tail_delta == quote.cheaper.tail_delta
    scope.release(smaller, 7, tail_delta=raised.value.tail_delta)
    book.verify()


def test_whoever_asks_may_say_so(book: Ledger) -> None:
    scope = scope_of(book)
    scope.reserve(laplace("0.1"), tail_delta="1e-8")
    scope.release(plan(), 7, tail_delta=0)
    decision = scope.quote(plan(), tail_delta="1e-9")
    first, second = bodies(book, Reserved)
    assert first.priced == Priced("0.00000001")
    assert second.priced is None
    assert decision.admitted
    assert decision.way.tail_delta == Decimal("1e-9")


@pytest.mark.parametrize("bad", ["1", "-0.1", "a bit", True, 2])
def test_a_tail_delta_is_a_probability_below_one(book: Ledger, bad: Any) -> None:
    scope = scope_of(book)
    with pytest.raises(ParameterError, match="tail_delta"):
        scope.release(plan(), 7, tail_delta=bad)
    assert not bodies(book, Reserved)


def test_a_basic_budget_takes_training(book: Ledger) -> None:
    """c at tail_delta, and tail_delta: all that it counts."""
    scope = scope_of(book, BasicFilter(1, "0.000001"))
    with pytest.raises(CannotCertify, match="tail_delta"):
        scope.open(run(), None, tail_delta=0)
    scope.open(run(), None)
    exact = dpl.compose(run().parts()).epsilon("0.0000000625")
    (reserved,) = bodies(book, Reserved)
    pure = reserved.levels[0].amounts["pure"]
    assert reserved.tail_delta == Decimal("0.0000000625")
    assert exact.lower < float(pure) < exact.upper * (1 + 1e-7)


def test_a_budget_of_rho_takes_training(book: Ledger) -> None:
    """A line above its divergences, and tail_delta: 500 steps of this noise without a sample would cost 250."""
    scope = scope_of(book, ZCDP("0.1", "0.00001"))
    step = dpl.PoissonSampled(dpl.GaussianLaw("0.8"), rate="0.005")
    with pytest.raises(BudgetRefused):
        scope.open(run(500, step, 3), None, tail_delta=0)
    with scope.open(run(500, step, 3), None, tail_delta="0.000001") as steps:
        steps.ask(None)
    (reserved,), (committed,) = bodies(book, Reserved), bodies(book, Committed)
    assert set(reserved.levels[0].amounts) == {"rho", "delta"}
    assert Decimal("0.058") < reserved.levels[0].amounts["rho"] < Decimal("0.061")
    assert (committed.rule, committed.levels) == ("cap", reserved.levels)
    with pytest.raises(BudgetRefused):
        scope.open(run(500, step, 3), None, tail_delta="0.000001")
    book.verify()
    plan_ = scope.plan_training(rate="0.005", steps=500, expected_batch_size=2, dimension=3, digits=2)
    assert plan_.fits
    assert plan_.tail_delta


def test_a_budget_of_rho_takes_a_share_of_delta_where_that_spares_rho(book: Ledger) -> None:
    scope = scope_of(book, ZCDP("0.5", "0.00001"))
    scope.open(run(500, dpl.PoissonSampled(dpl.GaussianLaw("0.8"), rate="0.005"), 3), None)
    scope.release(plan(), 7)
    sampled, plain = bodies(book, Reserved)
    assert sampled.tail_delta == Decimal("0.000000625")
    assert plain.priced is None, "Gaussians have an exact price"
    assert plain.levels[0].amounts == {"rho": Decimal("0.0008"), "delta": Decimal(0)}
    book.verify()


def test_an_advanced_budget_takes_training(book: Ledger) -> None:
    scope = scope_of(book, dpl.filters.advanced(3, "0.000001", "0.000001"))
    scope.open(run(500, dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.005")), None)
    (reserved,) = bodies(book, Reserved)
    assert reserved.tail_delta == Decimal("0.0000000625")
    book.verify()


def test_the_levels_of_a_path_are_each_charged_in_their_own_currency(book: Ledger) -> None:
    scope_of(book, ZCDP("0.2", "0.00001"), "register")
    scope = scope_of(book, ApproxDP(3, "0.000001"), parents=["register"])
    scope.open(run(500, dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.005")), None)
    (reserved,) = bodies(book, Reserved)
    own, above = reserved.levels
    assert (own.scope, above.scope) == ("people", "register")
    assert own.amounts["delta"] == above.amounts["delta"] == reserved.tail_delta
    assert Decimal(0) < above.amounts["rho"] < Decimal("0.1")
    book.verify()


def test_a_rho_below_the_line_is_refused(book: Ledger) -> None:
    """A forger who charges a millionth less of rho than a verifier finds."""
    ledger = ledger_golden.begin()
    scope = scope_of(ledger, ZCDP("0.5", "0.00001"))
    with scope.open(run(500, dpl.PoissonSampled(dpl.GaussianLaw("0.8"), rate="0.005"), 3), None):
        pass
    history = [entry.body for entry in ledger.entries()]
    place = next(at for at, body in enumerate(history) if isinstance(body, Reserved))
    body = history[place]
    assert isinstance(body, Reserved)
    amounts = dict(body.levels[0].amounts)
    for less, holds in ((Decimal("1"), True), (Decimal("0.999999"), False)):
        levels = (LevelCharge("people", {**amounts, "rho": round_up(amounts["rho"] * less)}),)
        leaves, head = forged([*history[:place], replace(body, levels=levels)], ledger_golden.KEY)
        if holds:
            verification.verify(leaves, head, ledger_golden.KEY.public)
            continue
        with pytest.raises(VerificationError, match="charged less"):
            verification.verify(leaves, head, ledger_golden.KEY.public)


def test_a_filter_without_a_place_for_it_says_so(book: Ledger) -> None:
    scope = scope_of(book, ZCDPFilter("0.5"))
    with pytest.raises(ParameterError, match="has a zcdp filter"):
        scope.release(plan(), 7, tail_delta="1e-8")
    scope.release(plan(), 7)
    assert bodies(book, Reserved)[0].priced is None


# ---- once under a key -----------------------------------------------------------------------------------------------


def test_a_repetition_is_the_first_run_whatever_is_left_since(book: Ledger) -> None:
    """Asked again, the scope would decide on another tail_delta: the stored reservation decides."""
    scope = scope_of(book, ApproxDP(3, "0.000001"))
    first = scope.release(plan(), 7, key="k")
    for _ in range(3):
        scope.release(plan(), 8)
    tails = [reserved.tail_delta for reserved in bodies(book, Reserved)]
    assert tails[0] != tails[-1]
    again = scope.release(plan(), 9, key="k")
    assert again == first
    assert again.replayed
    assert scope.release(plan(), 9, key="k", tail_delta=tails[0]) == first
    for other in ("0", tails[0] / 2):
        with pytest.raises(KeyReused):
            scope.release(plan(), 9, key="k", tail_delta=other)
    with pytest.raises(KeyReused):
        scope.release(plan(5), 9, key="k")


# ---- what comes back ------------------------------------------------------------------------------------------------


def test_nothing_comes_back_of_steps_that_were_left_out(book: Ledger) -> None:
    scope = scope_of(book)
    with scope.open(run(), None) as steps:
        steps.ask(None)
    (reserved,), (committed,) = bodies(book, Reserved), bodies(book, Committed)
    assert committed.parts.done == 5
    assert (committed.rule, committed.levels) == ("cap", reserved.levels)


def test_a_run_without_a_step_costs_nothing(book: Ledger) -> None:
    scope = scope_of(book)
    with scope.open(run(), None):
        pass
    (committed,) = bodies(book, Committed)
    assert committed.rule == "steps"
    assert set(committed.levels[0].amounts.values()) == {Decimal(0)}
    assert all(total == 0 for total, _ in scope._scope.sums.values())


def test_a_run_that_says_it_took_no_step_pays_for_those_granted(book: Ledger) -> None:
    class Silent(TrainingRun):
        def close(self) -> Release[int]:
            return Release(value=0, parts=self.plan.recorded(0))

    class Liar(Training):
        def open(self, data: Any, *, entropy: Any) -> TrainingRun:
            return Silent(self.made_of)

    honest = run()
    scope = scope_of(book)
    with scope.open(Liar(**vars(honest)), None) as steps:
        steps.ask(None)
    (committed,) = bodies(book, Committed)
    assert committed.rule == "cap"


def test_no_outcome_and_no_word_of_a_mechanism_brings_anything_back(book: Ledger) -> None:
    """A realised loss, and a release that says that it ran nothing: where no steps are granted, none count."""
    scope = scope_of(book)
    with scope.open(stream("0.5", 2), None, tail_delta="1e-8") as answers:
        answers.ask(True)
    whole = dpl.Repeated(dpl.GaussianLaw(50), times=4)
    scope.release(replace(plan(), run=lambda data, _: Release(value=data, parts=replace(whole, done=0))), 7)
    ends, starts = bodies(book, Committed), bodies(book, Reserved)
    assert [end.rule for end in ends] == ["cap", "cap"]
    assert [end.levels for end in ends] == [start.levels for start in starts]
    assert all(start.tail_delta for start in starts)


def test_the_account_names_the_delta_and_its_cause(book: Ledger) -> None:
    scope = scope_of(book)
    scope.open(run(), None).close()
    scope.release(laplace("0.1"), 1)
    priced, plain = scope.account().admissions
    assert priced.tail_delta == SIXTEENTH
    assert priced.privacy_failures == (PrivacyFailure(SIXTEENTH, "composition"),)
    assert not plain.tail_delta
    assert not plain.privacy_failures
    assert scope.account().composition is None


# ---- levels ---------------------------------------------------------------------------------------------------------


def test_each_level_prices_in_its_own_filter(book: Ledger) -> None:
    """The level with the least left decides; one that counts zCDP is charged by the parts."""
    scope_of(book, ApproxDP(3, "0.0000001"), "hospital")
    scope_of(book, ZCDP(1), "register")
    ward = scope_of(book, name="ward", parents=["hospital", "register"])
    ward.reserve(plan())
    (reserved,) = bodies(book, Reserved)
    levels = {level.scope: level.amounts for level in reserved.levels}
    assert reserved.tail_delta == Decimal("0.00000005") / 16
    assert levels["hospital"]["delta"] == levels["ward"]["delta"] == reserved.tail_delta
    assert levels["hospital"]["pure"] == levels["ward"]["pure"]
    assert levels["register"] == {"rho": Decimal("0.0008"), "delta": Decimal(0)}


def test_a_level_that_has_no_price_refuses(book: Ledger) -> None:
    scope_of(book, PureDP(3), "hospital")
    ward = scope_of(book, name="ward", parents=["hospital"])
    with pytest.raises((CannotCertify, BudgetRefused)):
        ward.open(run(), None)


# ---- forgeries ------------------------------------------------------------------------------------------------------


def recorded() -> list[Body]:
    """A run priced by its profile, of which one step ran, and one in a basic scope."""
    with Ledger.begin(
        MemoryStore(),
        ledger_golden.KEY,
        ledger_golden.RECOVERY.public,
        clock=ledger_golden.ticking(),
    ) as book:
        with scope_of(book).open(run(), None) as steps:
            steps.ask(None)
        scope_of(book, BasicFilter(1, "0.000001"), "basic").open(run(), None)
        return [entry.body for entry in book.entries()]


BODIES = recorded()
FIRST, SECOND = (index for index, body in enumerate(BODIES) if isinstance(body, Reserved))
END = next(index for index, body in enumerate(BODIES) if isinstance(body, Committed))


def verified(changed: list[Body]) -> verification.Verified:
    leaves, head = forged(changed, ledger_golden.KEY)
    return verification.verify(leaves, head, ledger_golden.KEY.public)


def with_amounts(index: int, change: Callable[[Decimal], Decimal], *coordinates: str) -> list[Body]:
    """One entry with some amounts of its level changed."""
    body: Any = BODIES[index]
    (level,) = body.levels
    amounts = {name: change(amount) if name in coordinates else amount for name, amount in level.amounts.items()}
    return [*BODIES[:index], replace(body, levels=(LevelCharge(level.scope, amounts),)), *BODIES[index + 1 :]]


def with_members(index: int, **members: Any) -> list[Body]:
    body: Any = BODIES[index]
    return [*BODIES[:index], replace(body, **members), *BODIES[index + 1 :]]


def test_what_the_gate_wrote_verifies() -> None:
    assert verified(BODIES).state.scopes["people"].sums["delta"] == (SIXTEENTH, 0)


@pytest.mark.parametrize("index", [FIRST, SECOND])
@pytest.mark.parametrize("coordinate", ["pure", "mixed_rdp_0", "mixed_rdp_1", "delta"])
def test_a_lower_price_is_found_and_a_higher_one_is_not_minded(index: int, coordinate: str) -> None:
    body: Any = BODIES[index]
    if coordinate not in body.levels[0].amounts:
        return  # the basic scope counts no Renyi price
    with pytest.raises(VerificationError, match="charged less than its parts cost"):
        verified(with_amounts(index, lambda amount: amount * (1 - Decimal("3e-7")), coordinate))
    verified(with_amounts(SECOND, lambda amount: amount * (1 + Decimal("2e-8")), coordinate))


def test_two_machines_may_differ_in_the_last_digits_and_not_in_delta() -> None:
    almost = Decimal(1) - Decimal("4e-9")
    verified(with_amounts(SECOND, lambda amount: amount * almost, "pure"))
    with pytest.raises(VerificationError, match="charged less"):
        verified(with_amounts(SECOND, lambda amount: amount * almost, "delta"))


@pytest.mark.parametrize("factor", ["0.5", "2"])
def test_another_tail_delta_is_another_request(factor: str) -> None:
    """A smaller one does not cover the price, and neither is in the digest."""
    tail_delta: Decimal = BODIES[SECOND].tail_delta * Decimal(factor)  # type: ignore[union-attr]
    with pytest.raises(VerificationError, match=r"charged less|not the digest"):
        verified(with_members(SECOND, priced=Priced(tail_delta)))


def test_a_price_from_the_profile_is_none_of_the_parts() -> None:
    with pytest.raises(VerificationError, match="charged less than its parts cost"):
        verified(with_members(FIRST, priced=None))


def test_a_filter_that_takes_none_is_found() -> None:
    with Ledger.begin(MemoryStore(), ledger_golden.KEY, ledger_golden.RECOVERY.public) as book:
        scope_of(book, ZCDP(1)).reserve(plan())
        honest: list[Any] = [entry.body for entry in book.entries()]
    verified(honest)
    with pytest.raises(VerificationError, match="has a zcdp filter"):
        verified([*honest[:-1], replace(honest[-1], priced=Priced("0.00000001"))])


@pytest.mark.parametrize("budget", [ZCDP(1), GDP(3)], ids=["zcdp", "gdp"])
def test_a_level_that_takes_none_is_charged_all_that_the_parts_cost(budget: Any) -> None:
    """Its price is exact, and has no margin for two machines to differ in, whatever the level below is charged."""
    with Ledger.begin(MemoryStore(), ledger_golden.KEY, ledger_golden.RECOVERY.public) as book:
        scope_of(book, budget, "register")
        scope_of(book, name="ward", parents=["register"]).reserve(plan())
        honest: list[Any] = [entry.body for entry in book.entries()]
    verified(honest)
    register, ward = honest[-1].levels
    almost = {name: amount * (1 - Decimal("4e-9")) for name, amount in register.amounts.items()}
    forged_levels = (LevelCharge("register", almost), ward)
    with pytest.raises(VerificationError, match="register: charged less than its parts cost"):
        verified([*honest[:-1], replace(honest[-1], levels=forged_levels)])


@pytest.mark.parametrize("rule", ["cap", "steps"])
@pytest.mark.parametrize("factor", ["0", "0.05"])
def test_a_refund_is_found(rule: str, factor: str) -> None:
    cheaper: list[Any] = list(with_amounts(END, lambda amount: amount * Decimal(factor), "mixed_rdp_0"))
    cheaper[END] = replace(cheaper[END], rule=rule)
    with pytest.raises(VerificationError, match="refunded beyond the rule"):
        verified(cheaper)


def test_a_record_of_no_step_where_one_was_granted_is_found() -> None:
    """The refund of a run that never ran, for one that did."""
    end: Any = BODIES[END]
    nothing: list[Any] = with_amounts(END, lambda amount: amount * 0, *end.levels[0].amounts)
    nothing[END] = replace(nothing[END], parts=replace(end.parts, done=0), rule="steps")
    with pytest.raises(VerificationError, match="fewer steps done than were granted"):
        verified(nothing)
