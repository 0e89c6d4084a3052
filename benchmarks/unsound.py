"""Known wrong answers of other accountants, measured again: `python benchmarks/unsound.py` (two minutes).

One line for each: what the library answers, our certified interval of epsilon, by how much the answer is on the wrong
side of it, and delta at the answer, confirmed in ball arithmetic. docs/peers.md says what they are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from accountants.peers import OPACUS_PRV, PRV, REFUSALS, Interval, loss_distribution, ours
from accountants.work import Work, dp_sgd

from dpledger.accounting.profile import compose


@dataclass(frozen=True)
class Case:
    """`end`: which of the library's bounds is wrong. `package`: its name at the registry."""

    package: str
    setting: str
    sigma: float
    rate: float
    steps: int
    delta: float
    end: Literal["upper", "lower"] = "upper"

    def work(self) -> Work:
        return dp_sgd("", self.sigma, self.rate, self.steps, self.delta)


COARSE, FINE = "pessimistic, grid 1e-4", "pessimistic, grid 1e-5"
CASES = (
    Case("dp-accounting", COARSE, 2, 0.05, 5000, 1e-12),
    Case("dp-accounting", COARSE, 2, 0.05, 500, 1e-12),
    Case("dp-accounting", COARSE, 1, 0.0767, 846, 1e-11),
    Case("dp-accounting", COARSE, 1.94, 0.13, 888, 1e-11),
    Case("dp-accounting", COARSE, 1.28, 0.0178, 913, 1e-10),
    Case("dp-accounting", FINE, 2, 0.05, 5000, 1e-8),
    Case("dp-accounting", FINE, 2, 0.05, 5000, 1e-10),
    Case("dp-accounting", FINE, 2, 0.05, 5000, 1e-11),
    Case("dp-accounting", FINE, 2, 0.05, 5000, 1e-12),
    Case("opacus", "PRVAccountant", 2, 0.05, 5000, 1e-12),
    Case("opacus", "PRVAccountant", 1, 0.01, 1000, 1e-12),
    Case("opacus", "PRVAccountant", 3.07, 0.0203, 4854, 1e-12),
    Case("opacus", "PRVAccountant", 3.96, 0.00369, 3376, 1e-13),
    Case("opacus", "PRVAccountant", 1.07, 0.00119, 3231, 1e-13),
    Case("prv-accountant", "error 0.1", 1.64, 0.121, 2812, 1e-5, "lower"),
    Case("prv-accountant", "error 0.1", 3.1, 0.176, 4831, 1e-10, "lower"),
)
GRIDS = {COARSE: 1e-4, FINE: 1e-5}
NONE: Interval = (0.0, 0.0)


def answer(case: Case) -> float:
    """The library's bound."""
    asked: dict[str, Callable[[], float]] = {
        "dp-accounting": lambda: loss_distribution(case.work(), GRIDS[case.setting], pessimistic=True),
        "opacus": lambda: OPACUS_PRV.answer(case.work(), NONE)[1],
        "prv-accountant": lambda: PRV.answer(case.work(), NONE)[0 if case.end == "lower" else 1],
    }
    return asked[case.package]()


def line(case: Case) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = answer(case)
    except ImportError as error:
        return f"NOT INSTALLED ({error.name})"
    except REFUSALS as error:
        return f"refuses: {' '.join(str(error).split())[:80]}"
    lower, upper = ours(case.work())
    wrong = lower - found if case.end == "upper" else found - upper
    verdict = f"{'too small' if case.end == 'upper' else 'too large'} by {wrong:.2e}" if wrong > 0 else "sound"
    delta = compose(case.work().tree(), verify="arb").delta(found)
    return (
        f"{case.end} {found:.9f}, epsilon in [{lower:.9f}, {upper:.9f}]: {verdict}; "
        f"delta there {delta.lower:.9e} to {delta.upper:.9e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Known wrong answers of other accountants, measured again.")
    parser.add_argument("--quick", action="store_true", help="without the fine grid")
    quick: bool = parser.parse_args().quick
    for case in CASES:
        if quick and case.setting == FINE:
            continue
        try:
            version = importlib.metadata.version(case.package)
        except importlib.metadata.PackageNotFoundError:
            version = "?"
        where = f"sigma {case.sigma}, rate {case.rate}, {case.steps} steps, delta {case.delta}"
        print(f"{case.package} {version}, {case.setting}: {where}\n    {line(case)}", flush=True)


if __name__ == "__main__":
    main()
