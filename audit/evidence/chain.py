"""The lower bound: one wealth a claim of a grid that is fixed beforehand, and how far up all of them have fallen.

The largest epsilon such that every claim of the grid up to it is refuted errs only if the first true claim of the grid
is refuted, so the error budget is paid once however many claims there are. A claim below the audited one is refuted by
0.9 of that one's wealth and 0.1 of its own: whoever keeps it keeps the audited one as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpledger.audit.outcomes.structure import Floats

__all__ = ["ClaimChain", "grid_of"]

FIRST, STEP, LAST = 0.01, 1.002, 25.0
OWN = 0.1  # of a claim's wealth below the audited one that is its own
MOST_PROJECTED = 10  # claims that a block projects


def grid_of(claimed: float | None) -> Floats:
    """Claims 0.01 * 1.002^i up to 25, with the audited one among them."""
    count = int(np.log(LAST / FIRST) / np.log(STEP)) + 2
    steps = np.full(count, STEP)
    steps[0] = FIRST
    grid = np.multiply.accumulate(steps)
    return np.unique(grid if claimed is None else np.append(grid, claimed))


@dataclass(slots=True, eq=False)
class ClaimChain:
    """`grid`: rising epsilons at one delta. `claimed`: the place of the audited claim, if it is one of them. `shares`:
    logarithms of the weights of the processes. `wealth`: their logarithms, float64[processes, grid]."""

    grid: Floats
    claimed: int | None
    shares: Floats
    wealth: Floats = field(init=False)
    fallen: int = 0  # claims from the first on that are refuted
    _own: Floats = field(init=False)
    _down: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.wealth = np.zeros((self.shares.size, self.grid.size))
        self._own = np.zeros(self.grid.size)
        self._down = np.zeros(self.grid.size, dtype=bool)

    @property
    def epsilon_lower(self) -> float:
        """The largest claim of the grid up to which all are refuted; 0 if none is."""
        return float(self.grid[self.fallen - 1]) if self.fallen else 0.0

    def projected(self, plausible: float) -> list[int]:
        """Places of the claims whose bets the next block makes, rising, from the first unrefuted to `plausible`."""
        first = self.fallen
        if first >= self.grid.size:
            return []
        last = max(int(np.searchsorted(self.grid, plausible)), first)
        wanted = np.linspace(self.grid[first], self.grid[min(last, self.grid.size - 1)], MOST_PROJECTED)
        return sorted(set(np.minimum(np.searchsorted(self.grid, wanted * (1 - 1e-12)), self.grid.size - 1).tolist()))

    def grow(self, projected: list[int], gains: Floats) -> None:
        """Add a block: float64[processes, projected], the logarithms of what each bet came to. A claim between two
        projected ones takes the bet of the one above, which is valid for it."""
        begin = self.fallen
        for place, gain in zip(projected, gains.T, strict=True):
            self.wealth[:, begin : place + 1] += gain[:, None]
            begin = place + 1
        changed = slice(self.fallen, begin)
        self._own[changed] = np.logaddexp.reduce(self.wealth[:, changed] + self.shares[:, None], axis=0)

    def look(self, claimed_wealth: float, level: float) -> bool:
        """Refute what can be refuted, where the audited claim has that wealth and `level` is log(1/alpha); whether more
        fell than before.

        Claim: at all times together, the chance that any claim up to the first true one of the grid is refuted is at
            most alpha. Source: docs/proofs/audit.md 6."""
        tested = self._own.copy()
        if self.claimed is not None:
            below = slice(self.fallen, self.claimed)
            tested[below] = np.logaddexp(np.log1p(-OWN) + claimed_wealth, np.log(OWN) + tested[below])
            tested[self.claimed] = claimed_wealth
        self._down |= tested >= level
        before = self.fallen
        rest = self._down[before:]
        self.fallen = before + (rest.size if rest.all() else int(np.argmin(rest)))
        return self.fallen > before

    def falls_with(self, claimed_wealth: float, gained: Floats, projected: list[int], level: float) -> bool:
        """Whether the audited claim is passed at a pair inside a block; what fell then has fallen.
        `gained` is what each process and projected claim has come to since the block began."""
        trial = ClaimChain(self.grid, self.claimed, self.shares)
        trial.fallen, trial.wealth = self.fallen, self.wealth.copy()
        trial._own, trial._down = self._own.copy(), self._down.copy()
        trial.grow(projected, gained)
        trial.look(claimed_wealth, level)
        if self.claimed is None or trial.fallen <= self.claimed:
            return False
        self.fallen, self._down = trial.fallen, trial._down
        return True
