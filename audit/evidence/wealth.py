"""One audit: an anytime-valid test of a claim by betting on blocks of runs, with bets fixed on past runs.

Every arm (a score and a way to estimate) has a wealth of its own that begins at its reserved weight; what no arm bets
goes with a leader, which bets each block as the arms that gained most so far. The sum is an e-value at every pair: the
claim is refuted when it reaches 1/alpha, whenever that is, and the chance of that is at most alpha if the claim holds.
Statement and proof: docs/proofs/audit.md 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpledger.audit.evidence.bets import bets_on, plausible
from dpledger.audit.evidence.births import LEADER, WINDOW, Births, Learn, Propose
from dpledger.audit.evidence.chain import ClaimChain, grid_of
from dpledger.audit.evidence.edges import Claim, StrataClaim, pure_or_approx
from dpledger.audit.evidence.power import Detectable, MassEstimate, least_epsilon, least_event, needed
from dpledger.audit.evidence.reading import Bet, Block, NextBlock, Reading
from dpledger.audit.evidence.tracks import Estimate, Track, estimates
from dpledger.audit.outcomes.structure import Floats
from dpledger.errors import ParameterError

__all__ = ["BudgetShare", "Engine"]

FIRST_BLOCK = 8  # pairs before the first bet
SLOW, FAST, MANY = Fraction(115, 100), Fraction(14, 10), 20_000  # a block ends at so many times its first pair
COUNTED = 100_000  # pairs from which blocks are looked at when they end
DISCOUNT = 0.9  # of past gains, a block, when a leader is chosen
PROMISING = 8  # scores beside the primary ones that speak with all of their arms
FOLLOWED = 16  # arms whose wealth is followed pair by pair; the others count as nothing until a block ends
LED = 4  # arms over which the leader spreads a block at most
ASIDE = -1.0  # nats of past gain that are worth as much as not to bet
NEAR = 2.0  # nats by which the wealth of the score that is shown may be less than the largest
OFTEN = 8  # runs of both sides that give each value of a score without a tail
LIVELY = 16  # scores beside the primary ones that are counted in blocks that are looked at when they end


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """Where a part of the error budget went: `words` say to what."""

    words: str
    alpha: Fraction


class Engine:
    """An audit of one pair of datasets.

    `claim`: edges, or strata of an ex-post claim. `propose`: the scores that a window of past runs of both sides
    suggests; `learn`: one more, trained on the older half of a window. `point`: the (epsilon, delta) at which a lower
    bound is reported; its epsilon is the audited claim where `claim` says no more than that (`exact`). `paired`: the
    two runs of a pair may depend on each other. `sizes`: how many runs left and right make up the unit of a block.
    """

    def __init__(
        self,
        claim: Claim,
        alpha: Fraction,
        propose: Propose,
        *,
        point: tuple[float, float] | None = None,
        paired: bool = False,
        sizes: tuple[int, int] = (1, 1),
        learn: Learn | None = None,
        window: int = WINDOW,
    ) -> None:
        if not 0 < alpha < 1:
            raise ParameterError("alpha", alpha, "a number in (0, 1)")
        if min(sizes) < 1 or (paired and sizes != (1, 1)):
            raise ParameterError("sizes", sizes, "two whole numbers of at least 1, equal for paired runs")
        self.claim, self.alpha, self.paired, self.sizes = claim, alpha, paired, sizes
        self.births = Births(claim, propose, learn, window)
        self.pairs = 0
        self.refuted: int | None = None
        self.log_wealth = 0.0
        self.best_log_wealth = 0.0
        self.level = -math.log(alpha) * (1 + 1e-12)
        self._tracks: list[Track] = []
        self._leader = 0.0
        self._plan: NextBlock | None = None
        self._bets: list[Bet] = []
        self._begin_chain(point)

    def _begin_chain(self, point: tuple[float, float] | None) -> None:
        self.chain: ClaimChain | None = None
        self._delta = 0.0
        if point is None:
            return
        epsilon, self._delta = point
        same = self.claim == pure_or_approx(*point)
        self._kinds = ["as declared", "4 cells", "8 cells", "rare cells", "every category", "a line", "a parabola",
                       "broken lines", "stiff broken lines"]  # fmt: skip
        shares = [math.log(0.5 / len(self._kinds))] * len(self._kinds) + [math.log(0.5)]
        grid = grid_of(epsilon if same else None)
        self.chain = ClaimChain(grid, int(np.searchsorted(grid, epsilon)) if same else None, np.array(shares))
        self._chosen: list[int] = []
        self._chain_bets: list[tuple[int, list[Bet]]] = []

    # ---- blocks -----------------------------------------------------------------------------------------------------

    @property
    def next_pairs(self) -> int:
        """Pairs of the next block; of a pair `sizes` runs left and right. A function of the number of pairs alone."""
        if not self.pairs:
            return FIRST_BLOCK
        growth = SLOW if self.pairs < MANY else FAST
        return max(4, math.floor(self.pairs * growth) - self.pairs)

    def plan(self) -> NextBlock:
        """The next block, with bets fixed on the runs so far."""
        if self._plan is None:
            self.births.bear(self._tracks, self.pairs, self._leader)
            counted = self.pairs >= COUNTED and not self.paired
            for track in self._tracks:
                track.recut(counted=counted)
            self._fix_bets()
            size = self.next_pairs
            live = [track for track in self._tracks if track.live]
            self._plan = NextBlock(
                runs=(size * self.sizes[0], size * self.sizes[1]),
                scores=tuple(track.score for track in live),
                grids=tuple(None if track.past is not None else track.grid for track in live),
                strata=self.claim.epsilons if isinstance(self.claim, StrataClaim) else None,
                counted=counted,
                keep=self.births.room(self.pairs, size) * max(self.sizes),
            )
        return self._plan

    def settle(self, left: Reading, right: Reading) -> None:
        """Add the block that was planned, or its first runs: wealth, every look, and what the next bets rest on.

        Claim: if the claim holds, the chance that it is ever refuted is at most alpha. Source: docs/proofs/audit.md 6.
        Assumes: the runs are independent of each other, but for the two of a pair where they are `paired`."""
        plan, (n, m) = self.plan(), self.sizes
        pairs = left.runs // n
        if (left.runs, right.runs) != (pairs * n, pairs * m) or not pairs:
            raise ParameterError("runs", (left.runs, right.runs), f"a multiple of the sizes {self.sizes}")
        live = [place for place, track in enumerate(self._tracks) if track.live]
        block = Block(
            self._tracks,
            self.paired,
            dict(zip(live, zip(left.read, right.read, strict=True), strict=True)),
            pairs,
            left,
            right,
        )
        if self._bets or self._chain_bets:
            self._look(block)
        where = None if left.strata is None or right.strata is None else (left.strata, right.strata)
        for place in live:
            self._tracks[place].add(block.read[place], where, counted=plan.counted)
        self.births.keep(left, right, self.pairs)
        self.pairs += pairs
        self._plan = None

    # ---- bets -------------------------------------------------------------------------------------------------------

    def _fix_bets(self) -> None:
        self._bets, self._chain_bets, self._chosen = [], [], []
        found = estimates(self._tracks, self._promising())
        if not found:
            return
        if self.refuted is None:
            self._bets = self._projected(found, [self.claim])[0]
        if self.chain is not None and self.chain.fallen < self.chain.grid.size:
            next_one = float(self.chain.grid[self.chain.fallen])
            first = self._projected(found, [pure_or_approx(next_one, self._delta)])[0]
            self._chosen = self._followers(first)
            best = self._best(first, 1)
            likely = max(range(len(found)), key=lambda i: first[i].growth) if best is None else best
            places = self.chain.projected(plausible(*found[likely][2:], self._delta + 1 / max(self.pairs, 8)))
            chosen = [found[place] for place in self._chosen]
            rest = [pure_or_approx(float(self.chain.grid[place]), self._delta) for place in places[1:]]
            others = self._projected(chosen, rest) if rest else []
            self._chain_bets = list(zip(places, [first, *others], strict=True))

    def _promising(self) -> set[int]:
        """Scores beside the primary ones that gained most with the arms that always speak."""
        best = {place: float(track.gains.max()) for place, track in enumerate(self._tracks) if track.live}
        others = sorted((place for place in best if not self._tracks[place].score.primary), key=lambda i: -best[i])
        if self.pairs >= COUNTED:
            for place in others[LIVELY:]:
                self._tracks[place].live = False
        return {place for place in others[:PROMISING] if best[place] > 0}

    def _projected(self, found: Sequence[Estimate], claims: Sequence[Claim]) -> list[list[Bet]]:
        """For each claim a bet of each estimate."""
        return bets_on(found, claims, self._tracks, sizes=self.sizes, pairs=self.pairs)

    def _best(self, bets: Sequence[Bet], row: int) -> int | None:
        """Which bet the leader takes: the one whose arm gained most, of those that expect to grow."""
        alive = [i for i, bet in enumerate(bets) if bet.growth > 0 and self._tracks[bet.track].gains[row, bet.arm] >= 0]
        if not alive:
            return None
        return max(alive, key=lambda i: (self._tracks[bets[i].track].gains[row, bets[i].arm], -i))

    def _led(self) -> dict[int | None, float]:
        """Over which bets the leader spreads a block: logarithms of the parts, as past gains have it; None: what it
        does not bet. Of many arms some gain by luck, so one with a small share of the error budget must have gained
        more."""
        alive = [(i, self._tracks[bet.track], bet.arm) for i, bet in enumerate(self._bets) if bet.growth > 0]
        gains = {i: float(track.gains[0, arm]) + math.log(track.share) / 2 for i, track, arm in alive}
        parts: dict[int | None, float] = {i: gains[i] for i in sorted(gains, key=lambda i: (-gains[i], i))[:LED]}
        parts[None] = ASIDE
        total = float(np.logaddexp.reduce(list(parts.values())))
        return {i: part - total for i, part in parts.items()}

    def _followers(self, bets: list[Bet]) -> list[int]:
        """Of each kind of arm the bet of the score that gained most at the frontier, and the leader's."""
        kinds: dict[str, list[int]] = {}
        for i, bet in enumerate(bets):
            kinds.setdefault(self._tracks[bet.track].arms[bet.arm].name, []).append(i)
        self._process_of: dict[int, list[int]] = {}
        for process, name in enumerate(self._kinds):
            mine = kinds.get(name, [])
            if mine:
                best = self._best([bets[i] for i in mine], 1)
                if best is not None:
                    self._process_of.setdefault(mine[best], []).append(process)
        leader = self._best(bets, 1)
        if leader is not None:
            self._process_of.setdefault(leader, []).append(len(self._kinds))
        return sorted(self._process_of)

    # ---- looks ------------------------------------------------------------------------------------------------------

    def _look(self, block: Block) -> None:
        leader = self._led()
        path = None
        if self._bets and not self.plan().counted and self.sizes == (1, 1):
            path = self._path(block, leader)
        gains = [block.gain(bet) for bet in self._bets]
        chained = self._chain_gains(block)
        if path is not None:
            self._look_at_each(block, path)
        for track in self._tracks:
            track.gains *= DISCOUNT
        led = float(np.logaddexp.reduce([part + (0.0 if i is None else gains[i]) for i, part in leader.items()]))
        self._leader += led
        betting = {(bet.track, bet.arm) for bet in self._bets if bet.growth > 0}
        for place, track in enumerate(self._tracks):
            track.followed += [0.0 if (place, arm) in betting else led for arm in range(len(track.arms))]
        for bet, gain in zip(self._bets, gains, strict=True):
            self._tracks[bet.track].wealth[bet.arm] += gain
            self._tracks[bet.track].gains[0, bet.arm] += gain
        if self._bets:
            self.log_wealth = self._mixed()
            self.best_log_wealth = max(self.best_log_wealth, self.log_wealth)
        if self.chain is not None and self._chain_bets:
            for bet, gain in zip(self._chain_bets[0][1], chained[0], strict=True):
                self._tracks[bet.track].gains[1, bet.arm] += gain
            self.chain.grow([place for place, _ in self._chain_bets], self._of_processes(chained[1]))
            self.chain.look(self.log_wealth, self.level)
        if self.refuted is None and self._passed():
            self.refuted = self.pairs + block.pairs

    def _passed(self) -> bool:
        if self.chain is not None and self.chain.claimed is not None:
            return self.chain.fallen > self.chain.claimed
        return self.log_wealth >= self.level

    @property
    def _unbet(self) -> float:
        """The logarithm of what came of the shares that no arm has: they always go with the leader."""
        return math.log(LEADER + self.births.reserved) + self._leader

    def _mixed(self) -> float:
        parts = [self._unbet]
        for track in self._tracks:
            parts.extend(track.held.tolist())
        return float(np.logaddexp.reduce(parts))

    def _path(self, block: Block, leader: dict[int | None, float]) -> Floats:
        """A lower bound of the logarithm of the wealth after each pair of a block: of the arms that bet, the largest
        are followed pair by pair, others count as nothing."""
        betting = {(bet.track, bet.arm): i for i, bet in enumerate(self._bets) if bet.growth > 0}
        unbet, weight = [self._unbet], {}
        for place, track in enumerate(self._tracks):
            for arm, held in enumerate(track.held.tolist()):
                if (place, arm) in betting:
                    weight[betting[place, arm]] = held
                else:
                    unbet.append(held)
        expected = {i: held + block.pairs * self._bets[i].growth for i, held in weight.items()}
        led = [
            np.full(block.pairs, part) if i is None else part + block.path(self._bets[i]) for i, part in leader.items()
        ]
        total: Floats = np.logaddexp.reduce(unbet) + np.logaddexp.reduce(led, axis=0)
        for i in sorted(weight, key=lambda i: (-expected[i], i))[:FOLLOWED]:
            total = np.logaddexp(total, weight[i] + block.path(self._bets[i]))
        return total

    def _look_at_each(self, block: Block, path: Floats) -> None:
        self.best_log_wealth = max(self.best_log_wealth, float(path.max()))
        above = np.flatnonzero(path >= self.level)
        if self.refuted is not None or not above.size:
            return
        if self.chain is None or self.chain.claimed is None:
            self.refuted = self.pairs + int(above[0]) + 1
            return
        places = [place for place, _ in self._chain_bets]
        for pair in above[:: max(1, above.size // 64)]:
            _, gained = self._chain_gains(block, int(pair) + 1)
            if self.chain.falls_with(float(path[pair]), self._of_processes(gained), places, self.level):
                self.refuted = self.pairs + int(pair) + 1
                return

    def _chain_gains(self, block: Block, until: int | None = None) -> tuple[list[float], Floats]:
        """What the bets at the frontier came to, and the chosen ones at each projected claim."""
        if not self._chain_bets:
            return [], np.zeros((0, 0))
        first = [block.gain(bet, until) if until is None or i in self._process_of else 0.0
                 for i, bet in enumerate(self._chain_bets[0][1])]  # fmt: skip
        rest = [[block.gain(bet, until) for bet in bets] for _, bets in self._chain_bets[1:]]
        return first, np.array([[first[i] for i in self._chosen], *rest]).T

    def _of_processes(self, gained: Floats) -> Floats:
        assert self.chain is not None, "a chain"
        result = np.zeros((self.chain.shares.size, len(self._chain_bets)))
        for row, i in enumerate(self._chosen):
            result[self._process_of[i]] = gained[row]
        return result

    # ---- what is told -----------------------------------------------------------------------------------------------

    @property
    def epsilon_lower(self) -> float | None:
        """The largest epsilon, at the delta of the point, that the chain refuted; None where there is no point."""
        return None if self.chain is None else self.chain.epsilon_lower

    @property
    def e_value(self) -> float:
        """The largest wealth so far, at least 1."""
        return math.exp(min(max(self.best_log_wealth, 0.0), 700.0))

    @property
    def p_value(self) -> float:
        """Claim: if the claim holds, the chance of a p-value of at most x is at most x, for every x. Source: Ville."""
        return math.exp(-min(max(self.best_log_wealth, 0.0), 690.0))

    @property
    def budget(self) -> tuple[BudgetShare, ...]:
        """Where alpha went. The shares add up to it; looks cost nothing, as the test holds at all times together."""
        told = [BudgetShare("the arms that gained most so far", self.alpha * LEADER)]
        for track in self._tracks:
            told.extend(
                BudgetShare(f"{track.score.public_words}: {arm.name}", self.alpha * track.share) for arm in track.arms
            )
        return (*told, BudgetShare("kept for scores born later", self.alpha * self.births.reserved))

    @property
    def leading(self) -> Track | None:
        """The score whose arms came to most, whatever was reserved for them, with its counts; of those that came to
        nearly as much, the one that is told in fewest words."""
        place = self._leading()
        return None if place is None else self._tracks[place]

    @property
    def longest(self) -> Track | None:
        """The score that has counted most runs: once there are many, some others are counted no more."""
        return max(self._tracks, key=lambda track: track.runs, default=None)

    @property
    def point_delta(self) -> float:
        """The delta at which events are compared."""
        return self.claim.delta if isinstance(self.claim, StrataClaim) else self._delta

    def _leading(self) -> int | None:
        held = [float(np.logaddexp.reduce(track.wealth)) for track in self._tracks]
        if not held:
            return None
        if max(held) - min(held) < 1e-9 or self.refuted is None:  # nothing won: who gained most where the chain stands
            return max(range(len(held)), key=lambda i: (float(self._tracks[i].gains.max()), held[i]))
        near = [place for place, wealth in enumerate(held) if wealth > max(held) - NEAR]
        return min(near, key=lambda place: len(self._tracks[place].score.words))

    def power(self) -> Detectable:
        """What this number of runs would have refuted with probability 0.9, whatever event was chosen."""
        if not self.pairs:
            return Detectable(None, None)
        nats = needed(float(self.alpha)) / self.pairs
        found = estimates(self._tracks, set())
        primary = [one for one in found if self._tracks[one[0]].score.primary] or found
        runs = self.pairs * min(self.sizes)
        shown = [self._shown(one) for one in primary]
        has_tail = not self._has_no_tail(primary)
        stretched = least_epsilon(self.claim, shown, self._delta, nats, runs=runs, has_tail=has_tail)
        return Detectable(stretched, least_event(self.claim, nats))

    def _shown(self, estimate: Estimate) -> MassEstimate:
        place, arm, p, q = estimate
        track = self._tracks[place]
        strata = np.repeat(np.arange(track.strata), track.cells) if isinstance(self.claim, StrataClaim) else None
        return MassEstimate(p, q, strata, is_whole=not track.arms[arm].cells)

    def _has_no_tail(self, found: Sequence[Estimate]) -> bool:
        """Whether several runs gave each value of their scores: where values are rare, rarer ones follow."""
        seen = self.births.kept
        scores = {self._tracks[place].score for place, *_ in found}
        if seen is None or not scores:
            return False
        values = (np.concatenate([score.of(side) for side in seen]) for score in scores)
        return all(np.unique(one, return_counts=True)[1].min() >= OFTEN for one in values)
