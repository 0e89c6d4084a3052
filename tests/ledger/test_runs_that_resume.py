"""Runs whose process died: they go on under the charge that stands, or are settled; no step runs twice, wherever a
crash falls and whoever else is alive."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.composition import GaussianLaw, Repeated
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.decimals import text
from dpledger.errors import (
    AlreadySpent,
    ChargeInProgress,
    ContractViolation,
    Halted,
    InfeasiblePlan,
    KeyReused,
    ParameterError,
    PolicyError,
    ScopeError,
    StepsLost,
    StoreBehind,
    StoreFailure,
    TakenOver,
)
from dpledger.ledger.charging import takeovers
from dpledger.ledger.charging.sessions import Session
from dpledger.ledger.entries.bodies import Committed, Progress, Started
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.protocol import Addition
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.training.training_plans import TrainingPlan
from forking import PATIENCE, ignores_fork_warnings, in_child
from interrupting import LEDGER, Lines
from ledger_mechanisms import Training, TrainingRun, stream, training
from resuming_workers import SCOPE, begun
from threads import together

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:the model has run 0 steps"),  # resumed without a token, on purpose
]

KEY: dict[str, Any] = {"key": "model"}
ELSEWHERE: dict[str, Any] = {"by": "A. Smith", "reason": "a model", "relation": "add_remove", "steps": 40, **KEY}
SUPPORT = Path(__file__).parent.parent / "support"


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as made:
        yield made


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("s", unit="patient", relation="add_remove", budget=ZCDP(1))


def opened(scope: Scope, resume: Any = True, **more: Any) -> Session[Any, Any, Any]:
    return scope.open(training(40), None, **KEY, resume=resume, **more)


def bodies(book: Ledger, kind: type) -> list[Any]:
    return [entry.body for entry in book.entries() if isinstance(entry.body, kind)]


# ---- in one process -------------------------------------------------------------------------------------------------


def test_a_run_goes_on_after_the_steps_that_were_granted(book: Ledger, scope: Scope) -> None:
    first = opened(scope)
    steps = [first.ask(None) for _ in range(7)]
    with opened(scope) as second:
        steps += [second.ask(None) for _ in second.steps()]
    assert steps == list(range(1, 41))
    (committed,) = bodies(book, Committed)
    assert (committed.parts.done, committed.rule) == (40, "cap")
    assert len(scope.releases()) == 1
    book.verify()


def test_the_process_before_is_refused_at_its_next_grant_and_settles_nothing(book: Ledger, scope: Scope) -> None:
    first = opened(scope)
    first.ask(None)
    second = opened(scope)
    size = len(book)
    for call in (lambda: first.ask(None), lambda: first.ask(None), first.close):
        with pytest.raises(TakenOver, match="another process"):
            call()
    first.__exit__(None, None, None)
    assert len(book) == size
    assert second.ask(None) == 2
    second.close()
    book.verify()


def test_what_is_raised_in_the_block_leaves_the_run_open(book: Ledger, scope: Scope) -> None:
    def breaks() -> None:
        with opened(scope) as run:
            run.ask(None)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        breaks()
    assert bodies(book, Committed) == []
    with opened(scope) as run:
        assert run.ask(None) == 2
    assert bodies(book, Committed)[0].parts.done == 2
    with pytest.raises(AlreadySpent):
        opened(scope)


def test_ctrl_c_in_the_middle_of_a_step_leaves_it_open_too(book: Ledger, scope: Scope) -> None:
    @dataclass(frozen=True)
    class Stopped(Training):
        def resume(self, data: Any, *, done: int, entropy: Entropy) -> TrainingRun:
            run = super().resume(data, done=done, entropy=entropy)
            run.ask = _raises(KeyboardInterrupt)  # type: ignore[method-assign]
            return run

    of = training(40)
    stopped = Stopped(claimed=of.claimed, made_of=of.made_of, kind=of.kind, planned_steps=40)
    run = scope.open(stopped, None, **KEY, resume=True)
    with pytest.raises(KeyboardInterrupt) as found, run:
        run.ask(None)
    with pytest.raises(Halted, match="stays open"):
        run.ask(None)
    assert "resume it" in found.value.__notes__[0]
    assert opened(scope).ask(None) == 2  # the step that was stopped counts as run


def _raises(error: type[BaseException]) -> Callable[[object], Any]:
    def ask(_: object, /) -> Any:
        raise error

    return ask


def test_a_broken_contract_ends_it_at_its_full_charge(book: Ledger, scope: Scope) -> None:
    rows = np.zeros((1, 1))
    plan: dict[str, Any] = {"rate": 1, "steps": 3, "noise_multiplier": 4, "clip_norm": 1, "dimension": 1}
    plan["expected_batch_size"] = 1

    def wrong(batch: Any) -> Any:
        return batch if len(batch) == 0 else np.zeros((1, 2))

    with pytest.raises(ContractViolation), dpl.private_sgd(scope, rows, wrong, **plan, **KEY, resume=True) as run:
        list(run)
    assert bodies(book, Committed)[0].outside_guarantee


def test_a_token_says_where_a_model_stands(scope: Scope, recwarn: pytest.WarningsRecorder) -> None:
    first = opened(scope)
    tokens = [first.token()]
    for _ in range(3):
        first.ask(None)
        tokens.append(json.loads(json.dumps(first.token())))
    assert [token["step"] for token in tokens] == [0, 1, 2, 3]
    second = opened(scope, tokens[-1])
    assert recwarn.list == []
    second.ask(None)
    assert second.token() == {**tokens[-1], "generation": 1, "step": 4}


def test_an_older_model_goes_on_after_the_granted_steps_and_is_told_what_it_lost(scope: Scope) -> None:
    first = opened(scope)
    first.ask(None)
    older = first.token()
    for _ in range(4):
        first.ask(None)
    with pytest.warns(StepsLost, match="has run 1 step of .* 5 of 40 are granted and charged: 4 are lost"):
        second = opened(scope, older)
    assert second.ask(None) == 6


def test_without_a_token_the_model_counts_as_fresh(scope: Scope, recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    opened(scope)
    opened(scope).ask(None)  # nothing was granted before: nothing is lost
    assert recwarn.list == []
    with pytest.warns(StepsLost, match="has run 0 steps .* 1 of 40 are granted .* if there is a checkpoint, stop"):
        assert opened(scope).ask(None) == 2
    charging(scope, key="elsewhere").__enter__().grant(3)
    with pytest.warns(StepsLost, match="has run 0 steps .* 3 of 40"):
        charging(scope, key="elsewhere").__enter__()


def test_a_token_of_another_run_or_a_later_one_is_refused(book: Ledger, scope: Scope) -> None:
    with pytest.raises(ParameterError, match="no run was ever begun"):
        opened(scope, {"run": "0" * 32, "generation": 0, "step": 0})
    token: Any = opened(scope).token()
    size = len(book)
    for change, error in (
        ({"run": "0" * 32}, ParameterError),
        ({"step": 1}, StoreBehind),
        ({"generation": 1}, StoreBehind),
        ({"step": -1}, ParameterError),
        ({"step": "1"}, ParameterError),
        ({"more": 1}, ParameterError),
    ):
        with pytest.raises(error):
            opened(scope, {**token, **change})
    assert len(book) == size
    odds: list[Any] = [None, 1, "yes", [], {}]
    for odd in odds:
        with pytest.raises(ParameterError, match="resume"):
            opened(scope, odd)


def test_the_plan_of_a_run_that_is_open_is_the_one_that_it_was_admitted_with(book: Ledger) -> None:
    """A script that dies, run again with nothing changed: the scope has nothing left for a second run."""
    scope = book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(2, "1e-6"))
    sizes: dict[str, Any] = {"rate": "0.1", "steps": 20, "expected_batch_size": 5, "dimension": 2}

    def script(*, fails: bool) -> TrainingPlan:
        plan = scope.plan_training(**sizes, **KEY)
        asked: Any = {**sizes, "noise_multiplier": plan.noise_multiplier, "tail_delta": plan.tail_delta}
        with dpl.private_sgd(
            scope, np.ones((50, 2)), lambda batch: -batch, **asked, clip_norm=1, **KEY, resume=True
        ) as run:
            for _ in run:
                if fails:
                    raise OSError("the machine goes down")
        return plan

    with pytest.raises(OSError, match="goes down"):
        script(fails=True)
    with pytest.raises(InfeasiblePlan, match="is open already"):
        scope.plan_training(**sizes)
    plan = script(fails=False)
    (one,) = scope.releases()
    assert (one.status, one.granted, one.tail_delta) == ("committed", 20, plan.tail_delta)
    assert isinstance(one.parts, Repeated)
    assert replace(one.parts, done=None) == plan.parts()
    assert (plan.prices, plan.others, plan.fits) == ({one.account: text(one.reserved[one.account])}, {}, True)
    with pytest.raises(InfeasiblePlan):
        scope.plan_training(**sizes, key="another")
    other = book.scope("other", unit="visit", relation="add_remove", budget=ApproxDP(2, "1e-6"))
    other.release(dpl.Count(epsilon="0.1", of="rows"), [1], key="count")
    with pytest.raises(ParameterError, match="key: expected one under which nothing was charged yet"):
        other.plan_training(**sizes, key="count")
    assert other.plan_training(**sizes, **KEY).others  # of this scope nothing is charged under the key


def test_what_cannot_be_resumed_says_so(book: Ledger, scope: Scope) -> None:
    pure = book.scope("p", unit="visit", relation="add_remove", budget=PureDP(3))
    with pytest.raises(ParameterError, match="key"):
        scope.open(training(40), None, resume=True)
    with pytest.raises(ParameterError, match="with granted steps"):
        pure.open(stream(), None, **KEY, resume=True)
    with pytest.raises(ParameterError, match="with granted steps"):
        pure.charging(PureDP(1), **{**ELSEWHERE, "steps": None}, resume=True)
    opened(scope)
    with pytest.raises(KeyReused):
        scope.open(training(39), None, **KEY, resume=True)
    with pytest.raises(ChargeInProgress, match="resume=True takes it over"):
        opened(scope, False)
    pure.open(stream(), None, key="asks")
    with pytest.raises(ScopeError, match="with granted steps"):
        pure.settle("asks")
    with pytest.raises(ScopeError, match="no run is open"):
        scope.settle("other")


def test_a_lost_reply_takes_the_run_over_all_the_same(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(scope)
    book, real = scope._ledger, scope._ledger._store.append

    def lost(addition: Addition) -> Any:
        real(addition)
        raise StoreFailure("the reply was lost")

    redeem = scope._redeem()
    request = scope._request(training(40), "model", None)[1]
    monkeypatch.setattr(book._store, "append", lost)
    taken = takeovers.taken_over(book, request, redeem, True)
    assert taken is not None
    assert taken.redeem == redeem.digest


# ---- runs elsewhere -------------------------------------------------------------------------------------------------


def charging(scope: Scope, resume: Any = True, **more: Any) -> Any:
    return scope.charging(Repeated(GaussianLaw(40), times=40), **{**ELSEWHERE, **more}, resume=resume)


def test_a_run_elsewhere_goes_on(book: Ledger, scope: Scope) -> None:
    first = charging(scope).__enter__()
    assert (first.grant(5), first.granted_before) == (5, 0)
    saved = first.token(3)
    with pytest.warns(StepsLost, match="2 are lost"):
        second = charging(scope, saved).__enter__()
    assert (second.granted, second.granted_before, second.left) == (5, 5, 35)
    with pytest.raises(TakenOver):
        first.grant()
    assert second.grant(10) == 15
    assert second.token() == {**saved, "generation": 1, "step": 15}
    second.close()
    assert bodies(book, Committed)[0].parts.done == 15
    book.verify()


def test_one_that_was_held_and_never_started_is_taken_over_by_its_start(book: Ledger, scope: Scope) -> None:
    first = charging(scope).__enter__()
    second = charging(scope).__enter__()
    assert len(bodies(book, Started)) == 1
    for call in (first.start, first.grant, first.nothing_ran, first.close):
        with pytest.raises(TakenOver):
            call()
    assert second.grant(40) == 40
    assert second.close().entry.body.parts.done == 40
    book.verify()


def test_an_exception_leaves_it_open_and_the_end_of_the_block_does_not(book: Ledger, scope: Scope) -> None:
    def breaks() -> None:
        with charging(scope) as run:
            run.grant(3)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        breaks()
    with charging(scope) as run:
        assert run.granted == 3
    assert bodies(book, Committed)[0].parts.done == 3


# ---- settled --------------------------------------------------------------------------------------------------------


def settled(scope: Scope) -> Any:
    receipt = scope.settle("model")
    assert not receipt.has_value
    return receipt.entry.body


BUDGETS: dict[str, Guarantee] = {"rho": ZCDP(1), "mu": GDP(2), "mixture": ApproxDP(9, "1e-5")}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_run_is_settled_at_the_steps_that_were_granted(book: Ledger, name: str) -> None:
    scope = book.scope(name, unit="patient", relation="add_remove", budget=BUDGETS[name])
    more: dict[str, Any] = {"tail_delta": 0} if name == "mixture" else {}
    run = opened(scope, **more)
    for _ in range(10):
        run.ask(None)
    held = dict(scope.account().sums)
    body = settled(scope)
    assert (body.parts.done, body.rule) == (10, "steps")
    for coordinate, (total, _) in scope.account().sums.items():
        before = held[coordinate][0]
        if coordinate != "delta" and before and total:
            assert total == pytest.approx(before / 4, rel=Decimal("1e-6"))
    with pytest.raises(TakenOver):
        run.ask(None)
    with pytest.raises(TakenOver):
        run.close()
    with pytest.raises(AlreadySpent):
        opened(scope, **more)
    book.verify()


def test_a_run_that_was_given_no_key_is_found_by_the_one_that_the_record_shows(book: Ledger, scope: Scope) -> None:
    for goes_on in (True, False):
        scope.open(training(40), None).ask(None)
        (*_, lost) = scope.releases()
        if goes_on:
            with scope.open(training(40), None, key=lost.key, resume=True) as run:
                assert run.ask(None) == 3  # of a block of two, one was lost
        else:
            scope.settle(lost.key)
    assert [one.status for one in scope.releases()] == ["committed", "committed"]
    book.verify()


def test_a_price_of_the_whole_plan_stays_whole_once_a_step_was_granted(book: Ledger) -> None:
    scope = book.scope("c", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-5"))
    run = opened(scope, tail_delta="1e-6")
    run.ask(None)
    size = len(book)
    with pytest.raises(PolicyError, match=r"nothing .* comes back: it is priced as a whole plan .* Resume it"):
        scope.settle("model")
    assert len(book) == size
    with opened(scope, tail_delta="1e-6"):
        pass
    assert bodies(book, Committed)[0].rule == "cap"


def test_where_no_step_was_granted_all_of_it_comes_back_even_then(book: Ledger) -> None:
    scope = book.scope("c", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-5"))
    opened(scope, tail_delta="1e-6")
    assert settled(scope).parts.done == 0
    assert scope.spent().upper == 0
    book.verify()


def test_of_a_run_elsewhere_without_a_grant_nothing_comes_back(scope: Scope) -> None:
    run = charging(scope).__enter__()
    with pytest.raises(PolicyError, match="nobody here saw whether one ran"):
        scope.settle("model")
    run.grant(4)
    assert settled(scope).parts.done == 4


def test_a_run_whose_steps_are_all_granted_is_settled_at_its_cap(scope: Scope) -> None:
    charging(scope).__enter__().grant(40)
    assert settled(scope).rule == "cap"


# ---- takers at once -------------------------------------------------------------------------------------------------


def test_of_two_takers_that_saw_the_same_one_is_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as book, Ledger.open(path) as left, Ledger.open(path) as right:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=ZCDP(1))
        opened(scope).ask(None)
        looked, real = iter([True]), takeovers._open_under

        def looks(state: Any, name: str, key: str) -> Any:
            found = real(state, name, key)
            if next(looked, False):
                opened(right.scope("s")).ask(None)  # in between
            return found

        monkeypatch.setattr(takeovers, "_open_under", looks)
        with pytest.raises(TakenOver, match="took over the run first"):
            opened(left.scope("s"))
        book.verify()


def test_of_threads_that_take_over_at_once_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=ZCDP(1))
        opened(scope).ask(None)
    steps: list[int] = []

    def goes_on() -> str:
        with Ledger.open(path) as own:
            try:
                with opened(own.scope("s")) as run:
                    steps.extend(run.ask(None) for _ in run.steps())
                    return "done"
            except (TakenOver, AlreadySpent) as error:
                return type(error).__name__

    said = together(*[goes_on] * 6)
    assert said.count("done") <= 1
    if "done" not in said:  # the last one that took it over was refused by nobody: it is a later one's to finish
        assert goes_on() == "done"
    assert len(steps) == len(set(steps)) <= 39
    with Ledger.open(path) as book:
        assert bodies(book, Committed)[0].parts.done == 40
        book.verify()


# ---- processes ------------------------------------------------------------------------------------------------------


def process(folder: Path, stop: str, at: int, **more: Any) -> subprocess.Popen[str]:
    where = os.pathsep.join([str(SUPPORT), *sys.path])
    words = [sys.executable, str(SUPPORT / "resuming_workers.py"), str(folder), stop, str(at), json.dumps(more)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": where})


def said(running: subprocess.Popen[str]) -> str:
    return running.communicate(timeout=6 * PATIENCE)[0].strip()


def drawn(folder: Path) -> list[int]:
    """The steps of the plan that gave a gradient, in any process."""
    return sorted(int(line.split()[1]) for line in (folder / "drawn").read_text().splitlines())


def test_killed_after_100_of_5000_steps_it_goes_on_and_costs_what_the_plan_costs(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    killed = process(folder, "killed", 100)
    assert said(killed) == ""
    assert killed.returncode == -signal.SIGKILL
    with Ledger.open(folder / "clinic.ledger") as book:
        before = book.scope("rows", **SCOPE).spent().upper
    assert said(process(folder, "killed", 30)) == ""  # of its fifty granted steps twenty are lost
    assert said(process(folder, "", 0)) == "done"
    with Ledger.open(folder / "clinic.ledger") as book:
        scope = book.scope("rows", **SCOPE)
        assert scope.spent().upper == before
        (one,) = scope.releases()
        assert (one.status, one.granted) == ("committed", 5000)
        assert [body.upto for body in bodies(book, Progress) if body.replaces is not None] == [100, 150]
        book.verify()
    assert drawn(folder) == [*range(1, 131), *range(151, 5001)]


def test_killed_and_settled_it_costs_the_steps_that_were_granted(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    assert said(process(folder, "killed", 100, tail_delta=0)) == ""
    with Ledger.open(folder / "clinic.ledger") as book:
        scope = book.scope("rows", **SCOPE)
        before = scope.spent().upper
        assert settled(scope).parts.done == 100
        after = scope.spent().upper
        book.verify()
    alone = Ledger.in_memory().scope("rows", **SCOPE)
    step = dpl.PoissonSampled(dpl.GaussianLaw(2), rate="0.01")
    alone.charge([(step, 100)], by="A. Smith", reason="as many by themselves", relation="add_remove", tail_delta=0)
    assert after == pytest.approx(alone.spent().upper, rel=1e-6)
    assert after < before


def test_with_both_processes_alive_the_older_one_is_refused_before_it_draws(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    first = process(folder, "waits", 120, steps=1000)  # blocks of ten: all 120 are granted, and no more
    deadline = time.monotonic() + PATIENCE
    while not list(folder.glob("waits.*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    second = process(folder, "", 0, steps=1000)
    assert said(second) == "done"
    (folder / "go").touch()
    assert said(first) == "TakenOver"
    assert drawn(folder) == list(range(1, 1001))
    with Ledger.open(folder / "clinic.ledger") as book:
        book.verify()


def test_of_processes_that_resume_at_once_no_step_is_drawn_twice(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    assert said(process(folder, "killed", 5, steps=600)) == ""
    told = [said(one) for one in [process(folder, "", 0, steps=600) for _ in range(3)]]
    assert set(told) <= {"done", "TakenOver", "AlreadySpent"}
    if "done" not in told:
        assert said(process(folder, "", 0, steps=600)) == "done"
    steps = drawn(folder)
    assert len(steps) == len(set(steps)) <= 600
    with Ledger.open(folder / "clinic.ledger") as book:
        book.verify()


# ---- a machine of interrupts ----------------------------------------------------------------------------------------


def test_wherever_ctrl_c_falls_at_most_the_plan_is_drawn(book: Ledger, scope: Scope) -> None:
    """Of a run that is resumed again and again, each time interrupted some lines later, while all the ones before are
    alive."""
    plan, steps, alive = training(2000, "400"), [], []

    def goes_on() -> None:
        run = scope.open(plan, None, **KEY, resume=True)
        alive.append(run)
        with run:
            steps.append(run.ask(None))
            steps.append(run.ask(None))
            raise KeyboardInterrupt  # so that it stays open

    told, target = True, 0
    while told:
        lines = Lines(target)
        with contextlib.suppress(KeyboardInterrupt):
            lines.run(goes_on)
        told, target = lines.has_raised, target + 23
        for older in alive[:-1]:
            with pytest.raises((TakenOver, Halted)):
                older._attempt.grant(older._granted + 1)
        del alive[:-1]
        (held,) = book.refresh().open.values() if book.state.open else (None,)
        assert steps == sorted(set(steps))
        assert held is None or not steps or steps[-1] <= held.granted
    assert target > 10 * 23
    with scope.open(plan, None, **KEY, resume=True) as last:
        assert last.ask(None) > steps[-1]
    book.verify()


# ---- a machine of crashes -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noted(Training):
    """Each step that draws leaves a line in `file`."""

    file: str = ""

    def resume(self, data: Any, *, done: int, entropy: Entropy) -> TrainingRun:
        run = super().resume(data, done=done, entropy=entropy)
        ask, file = run.ask, self.file

        def noted(query: object, /) -> int:
            step = ask(query)
            with Path(file).open("a") as lines:
                lines.write(f"0 {step}\n")
            return step

        run.ask = noted  # type: ignore[method-assign]
        return run


STEPS = 3


class Dies:
    """Kills its process before the `target`-th line of `ledger/`, as a power cut would."""

    def __init__(self, target: int) -> None:
        self.left = target

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(LEDGER) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.left -= event == "line"
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._line


def goes_on(folder: Path, target: int | None = None) -> None:
    """Take the run over, or begin it, and take its steps; die before the `target`-th line."""
    of = training(STEPS, "4")
    mechanism = Noted(
        claimed=of.claimed, made_of=of.made_of, kind="training", planned_steps=STEPS, file=str(folder / "drawn")
    )
    with Ledger.open(folder / "clinic.ledger") as book:
        scope = book.scope("rows", **SCOPE)
        if target is not None:
            sys.settrace(Dies(target).trace)
        try:
            with scope.open(mechanism, None, **KEY, resume=True) as run:
                for _ in run.steps():
                    run.ask(None)
        finally:
            sys.settrace(None)


@ignores_fork_warnings
@pytest.mark.parametrize("start", range(0, 5200, 520))
def test_wherever_processes_die_at_most_the_plan_is_drawn(tmp_path: Path, start: int) -> None:
    """Each process dies some lines later than the one before it, until one is done."""
    folder = begun(tmp_path)
    (folder / "drawn").touch()
    for target in range(start, start + 520, 104):
        in_child(lambda target=target: goes_on(folder, target))  # type: ignore[misc]
        steps = drawn(folder)
        assert steps == sorted(set(steps)), f"a step was drawn twice, before line {target}"
        with Ledger.open(folder / "clinic.ledger") as book:
            granted = sum(one.granted for one in book.scope("rows", **SCOPE).releases())
            assert len(steps) <= granted <= STEPS
            assert all(step <= granted for step in steps)
    said_last = in_child(lambda: goes_on(folder))
    assert said_last == "done" or said_last.startswith("AlreadySpent")
    with Ledger.open(folder / "clinic.ledger") as book:
        (one,) = book.scope("rows", **SCOPE).releases()
        assert (one.status, one.granted) == ("committed", STEPS)
        book.verify()
    assert len(drawn(folder)) <= STEPS
