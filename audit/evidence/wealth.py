"""One audit: an anytime-valid test of a claim by betting on blocks of runs, with bets fixed on past runs.

Every arm (a score and a way to estimate) has a wealth of its own that begins at its reserved weight; the leader bets
each block with the arm that gained most so far. Their sum is an e-value at every pair: the claim is refuted when it
reaches 1/alpha, whenever that is, and the chance of that is at most alpha if the claim holds. Statement and proof:
docs/proofs/audit.md 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpledger.audit.evidence.bets import bets_on, plausible
from dpledger.audit.evidence.chain import Chain, grid_of
from dpledger.audit.evidence.edges import Claim, StrataClaim, pure_or_approx
from dpledger.audit.evidence.power import Detectable, least_event, least_stretch, needed
from dpledger.audit.evidence.reading import Bet, Block, Plan, Reading, strata_places
from dpledger.audit.evidence.state import array_of, packed, packed_track, track_of
from dpledger.audit.evidence.tracks import Estimate, Track, estimates
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.structure import Floats, Outcomes, joined
from dpledger.errors import ParameterError

__all__ = ["Engine", "Share"]

FIRST_BLOCK = 8  # pairs before the first bet
SLOW, FAST, MANY = Fraction(115, 100), Fraction(14, 10), 4_000  # a block ends at so many times its first pair
COUNTED = 100_000  # pairs from which blocks are looked at when they end
WINDOW = 4_096  # outcomes of either side that are kept whole for new scores
DISCOUNT = 0.9  # of past gains, a block, when a leader is chosen
PROMISING = 8  # scores beside the primary ones that speak with all of their arms
FOLLOWED = 16  # arms whose wealth is followed pair by pair; the others count as nothing until a block ends
LED = 4  # arms over which the leader spreads a block at most
LIVELY = 16  # scores beside the primary ones that are counted in blocks that are looked at when they end
KINDS: tuple[bool | str, ...] = ("law", True, False)  # of scores: declared laws, primary ones, all others
LEADER, PRIMARY = Fraction(1, 4), Fraction(1, 2)
BATCHES = {True: Fraction(7, 8), False: Fraction(1, 2)}  # of what is left for scores born later, to each batch


@dataclass(frozen=True, slots=True)
class Share:
    """Where a part of the error budget went: `words` say to what."""

    words: str
    alpha: Fraction


class Engine:
    """An audit of one pair of datasets.

    `claim`: edges, or strata of an ex-post claim. `propose`: the scores that a window of past runs of both sides
    suggests; `learn`: one more, trained on the older half of a window. `point`: the (epsilon, delta) at which a lower
    bound is reported; its epsilon is the audited claim where `claim` says no more than that (`exact`). `paired`: the
    two runs of a pair may depend on each other. `sizes`: how many runs left and right make up the unit of a block.
    `law`: scores that give log p - log q of a declared law, with its noise and less.
    """

    def __init__(
        self,
        claim: Claim,
        alpha: Fraction,
        propose: Callable[[Outcomes, Outcomes], tuple[Score, ...]],
        *,
        point: tuple[float, float] | None = None,
        paired: bool = False,
        sizes: tuple[int, int] = (1, 1),
        law: Sequence[Score] = (),
        learn: Callable[[Outcomes, Outcomes], Score | None] | None = None,
        window: int = WINDOW,
    ) -> None:
        if not 0 < alpha < 1:
            raise ParameterError("alpha", alpha, "a number in (0, 1)")
        if min(sizes) < 1 or (paired and sizes != (1, 1)):
            raise ParameterError("sizes", sizes, "two whole numbers of at least 1, equal for paired runs")
        self.claim, self.alpha, self.propose, self.learn = claim, alpha, propose, learn
        self.paired, self.sizes, self.law, self.window = paired, sizes, tuple(law), window
        self.pairs = 0
        self.refuted: int | None = None
        self.log_wealth = 0.0
        self.best_log_wealth = 0.0
        self.level = -math.log(alpha) * (1 + 1e-12)
        self._tracks: list[Track] = []
        self._wealth: list[Floats] = []
        self._shares: list[Fraction] = []  # of one arm of each track
        self._gains: list[np.ndarray] = []  # float64[2, arms]: at the claim, at the frontier of the chain
        self._left_for: dict[bool | str, Fraction] = {
            "law": PRIMARY / 2 if law else Fraction(0),
            True: PRIMARY,
            False: 1 - PRIMARY - LEADER,
        }
        self._left_for[True] -= self._left_for["law"]
        self._leader = 0.0
        self._kept: tuple[Outcomes, Outcomes] | None = None
        self._born_at = 0
        self._plan: Plan | None = None
        self._bets: list[Bet] = []
        self._begin_chain(point)

    def _begin_chain(self, point: tuple[float, float] | None) -> None:
        self.chain: Chain | None = None
        self._delta, self._point = 0.0, point
        if point is None:
            return
        epsilon, self._delta = point
        same = self.claim == pure_or_approx(*point)
        self._kinds = ["as declared", "4 cells", "8 cells", "rare cells", "every category", "a line", "a parabola",
                       "broken lines", "stiff broken lines"]  # fmt: skip
        shares = [math.log(0.5 / len(self._kinds))] * len(self._kinds) + [math.log(0.5)]
        grid = grid_of(epsilon if same else None)
        self.chain = Chain(grid, int(np.searchsorted(grid, epsilon)) if same else None, np.array(shares))
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

    def plan(self) -> Plan:
        """The next block, with bets fixed on the runs so far."""
        if self._plan is None:
            self._breed()
            counted = self.pairs >= COUNTED and not self.paired
            for track in self._tracks:
                track.recut(counted=counted)
            self._fix_bets()
            size = self.next_pairs
            room = max(self.window - self.pairs, self.window if self._breeds(self.pairs + size) else 0)
            live = [track for track in self._tracks if track.live]
            self._plan = Plan(
                runs=(size * self.sizes[0], size * self.sizes[1]),
                scores=tuple(track.score for track in live),
                grids=tuple(None if track.past is not None else track.grid for track in live),
                strata=self.claim.epsilons if isinstance(self.claim, StrataClaim) else None,
                counted=counted,
                keep=min(size, room) * max(self.sizes),
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
        self._keep(left, right)
        self.pairs += pairs
        self._plan = None

    # ---- births -----------------------------------------------------------------------------------------------------

    def _breeds(self, pairs: int) -> bool:
        """Whether scores are proposed when there are so many pairs."""
        return pairs >= (2 if self._born_at < self.window else 8) * self._born_at and pairs > 0

    def _keep(self, left: Reading, right: Reading) -> None:
        if not left.kept:
            return
        new = (joined(left.kept), joined(right.kept))
        if self._kept is not None and self.pairs < self.window:
            new = (joined((self._kept[0], new[0])), joined((self._kept[1], new[1])))
        self._kept = new

    def _breed(self) -> None:
        if self._kept is None or not self._breeds(self.pairs):
            return
        self._born_at = self.pairs
        known = {track.score for track in self._tracks}
        if not self._tracks:
            self._enter([score for score in self.law if score not in known], self._kept, law=True)
        found = [score for score in dict.fromkeys(self.propose(*self._kept)) if score not in known]
        self._enter([score for score in found if score.primary], self._kept)
        self._enter([score for score in found if not score.primary], self._kept)
        if self.learn is not None:
            halves = [
                (side.where(slice(0, len(side) // 2)), side.where(slice(len(side) // 2, None))) for side in self._kept
            ]
            learned = self.learn(halves[0][0], halves[1][0])
            if learned is not None and learned not in known:
                self._enter([learned], (halves[0][1], halves[1][1]))

    def _enter(self, scores: list[Score], runs: tuple[Outcomes, Outcomes], *, law: bool = False) -> None:
        """Tracks of new scores of one kind, which share a part of what is reserved for it."""
        if not scores:
            return
        kind = "law" if law else scores[0].primary
        share = self._left_for[kind] if law else self._left_for[kind] * BATCHES[scores[0].primary]
        self._left_for[kind] -= share
        left, right = runs
        where, strata = None, 1
        if isinstance(self.claim, StrataClaim):
            assert left.losses is not None and right.losses is not None, "outcomes of an ex-post claim"  # noqa: PT018
            tops = self.claim.epsilons
            where, strata = (strata_places(tops, left.losses), strata_places(tops, right.losses)), len(tops)
        for score in scores:
            numbers = (np.array(score.of(left), dtype=np.float64), np.array(score.of(right), dtype=np.float64))
            track = Track.born(score, numbers, where, strata, law=law)
            self._tracks.append(track)
            self._shares.append(share / len(scores) / len(track.arms))
            self._wealth.append(np.zeros(len(track.arms)))
            self._gains.append(np.zeros((2, len(track.arms))))

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
        best = {place: float(gains.max()) for place, gains in enumerate(self._gains) if self._tracks[place].live}
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
        alive = [i for i, bet in enumerate(bets) if bet.growth > 0 and self._gains[bet.track][row, bet.arm] >= 0]
        if not alive:
            return None
        return max(alive, key=lambda i: (self._gains[bets[i].track][row, bets[i].arm], -i))

    def _led(self) -> dict[int, float]:
        """Over which bets the leader spreads a block: logarithms of the parts, as past gains have it."""
        alive = [i for i, bet in enumerate(self._bets) if bet.growth > 0]
        gains = {i: float(self._gains[self._bets[i].track][0, self._bets[i].arm]) for i in alive}
        best = sorted(alive, key=lambda i: (-gains[i], i))[:LED]
        total = float(np.logaddexp.reduce([gains[i] for i in best])) if best else 0.0
        return {i: gains[i] - total for i in best}

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
        for held in self._gains:
            held *= DISCOUNT
        for bet, gain in zip(self._bets, gains, strict=True):
            self._wealth[bet.track][bet.arm] += gain
            self._gains[bet.track][0, bet.arm] += gain
        if leader:
            self._leader += float(np.logaddexp.reduce([part + gains[i] for i, part in leader.items()]))
        if self._bets:
            self.log_wealth = self._mixed()
            self.best_log_wealth = max(self.best_log_wealth, self.log_wealth)
        if self.chain is not None and self._chain_bets:
            for bet, gain in zip(self._chain_bets[0][1], chained[0], strict=True):
                self._gains[bet.track][1, bet.arm] += gain
            self.chain.grow([place for place, _ in self._chain_bets], self._of_processes(chained[1]))
            self.chain.look(self.log_wealth, self.level)
        if self.refuted is None and self._passed():
            self.refuted = self.pairs + block.pairs

    def _passed(self) -> bool:
        if self.chain is not None and self.chain.claimed is not None:
            return self.chain.fallen > self.chain.claimed
        return self.log_wealth >= self.level

    def _mixed(self) -> float:
        parts = [math.log(sum(self._left_for.values(), Fraction(0)))] if sum(self._left_for.values()) else []
        parts.append(math.log(LEADER) + self._leader)
        for share, wealth in zip(self._shares, self._wealth, strict=True):
            parts.extend((math.log(share) + wealth).tolist())
        return float(np.logaddexp.reduce(parts))

    def _path(self, block: Block, leader: dict[int, float]) -> Floats:
        """A lower bound of the logarithm of the wealth after each pair of a block: of the arms that bet, the largest
        are followed, others count as nothing."""
        betting = [i for i, bet in enumerate(self._bets) if bet.growth > 0]
        weight = {i: math.log(self._shares[self._bets[i].track]) + self._wealth[self._bets[i].track][self._bets[i].arm]
                  for i in betting}  # fmt: skip
        expected = {i: weight[i] + block.pairs * self._bets[i].growth for i in betting}
        followed = sorted(betting, key=lambda i: -expected[i])[:FOLLOWED]
        idle = [math.log(sum(self._left_for.values(), Fraction(0)))] if sum(self._left_for.values()) else []
        moving = {(self._bets[i].track, self._bets[i].arm) for i in betting}
        for track, wealth in enumerate(self._wealth):
            idle.extend(
                math.log(self._shares[track]) + w for arm, w in enumerate(wealth.tolist()) if (track, arm) not in moving
            )
        if not leader:
            idle.append(math.log(LEADER) + self._leader)
        total = np.full(block.pairs, np.logaddexp.reduce(idle) if idle else -np.inf)
        for i in followed:
            total = np.logaddexp(total, weight[i] + block.path(self._bets[i]))
        for i, part in leader.items():
            total = np.logaddexp(total, math.log(LEADER) + self._leader + part + block.path(self._bets[i]))
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

    # ---- what is kept ----------------------------------------------------------------------------------------------

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores of all tracks, in the order of `state`."""
        return tuple(track.score for track in self._tracks)

    @property
    def kept(self) -> tuple[Outcomes, Outcomes] | None:
        """The window of outcomes that scores are next proposed on."""
        return self._kept

    @property
    def state(self) -> dict[str, Any]:
        """Everything but the scores and the window, as plain data; taken between blocks."""
        chain = self.chain
        return {
            "pairs": self.pairs,
            "refuted": self.refuted,
            "log_wealth": self.log_wealth,
            "best_log_wealth": self.best_log_wealth,
            "leader": self._leader,
            "born_at": self._born_at,
            "left_for": [str(self._left_for[kind]) for kind in KINDS],
            "shares": [str(share) for share in self._shares],
            "wealth": [packed(wealth) for wealth in self._wealth],
            "gains": [packed(gains) for gains in self._gains],
            "tracks": [packed_track(track, place) for place, track in enumerate(self._tracks)],
            "chain": None
            if chain is None
            else {"fallen": chain.fallen, **{k: packed(v) for k, v in chain.held.items()}},
        }

    def resume(
        self, state: Mapping[str, Any], scores: tuple[Score, ...], kept: tuple[Outcomes, Outcomes] | None
    ) -> None:
        """Go on from the state of an audit of the same claim, alpha and settings. `kept`: its window; without it no
        scores are born until there is a new one."""
        self.pairs, self.refuted = int(state["pairs"]), state["refuted"]
        self.log_wealth, self.best_log_wealth = float(state["log_wealth"]), float(state["best_log_wealth"])
        self._leader, self._born_at = float(state["leader"]), int(state["born_at"])
        self._left_for = {kind: Fraction(left) for kind, left in zip(KINDS, state["left_for"], strict=True)}
        self._shares = [Fraction(share) for share in state["shares"]]
        self._wealth = [array_of(wealth) for wealth in state["wealth"]]
        self._gains = [array_of(gains) for gains in state["gains"]]
        self._tracks = [track_of(track, scores) for track in state["tracks"]]
        if self.chain is not None:
            held = {name: array_of(state["chain"][name]) for name in self.chain.held}
            self.chain.hold(int(state["chain"]["fallen"]), held)
        self._kept, self._plan = kept, None

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
    def budget(self) -> tuple[Share, ...]:
        """Where alpha went. The shares add up to it; looks cost nothing, as the test holds at all times together."""
        told = [Share("the arm that gained most so far", self.alpha * LEADER)]
        for track, share in zip(self._tracks, self._shares, strict=True):
            told.extend(Share(f"{track.score.public_words}: {arm.name}", self.alpha * share) for arm in track.arms)
        rest = sum(self._left_for.values(), Fraction(0))
        return (*told, Share("kept for scores born later", self.alpha * rest))

    @property
    def leading(self) -> Track | None:
        """The score whose arms have most of the wealth, with its counts."""
        place = self._leading()
        return None if place is None else self._tracks[place]

    @property
    def point_delta(self) -> float:
        """The delta at which events are compared."""
        return self.claim.delta if isinstance(self.claim, StrataClaim) else self._delta

    def _leading(self) -> int | None:
        held = [
            float(np.logaddexp.reduce(wealth)) + math.log(share)
            for wealth, share in zip(self._wealth, self._shares, strict=True)
        ]
        if not held:
            return None
        if max(held) - min(held) < 1e-9 or self.refuted is None:  # nothing won: who gained most where the chain stands
            return max(range(len(held)), key=lambda i: (float(self._gains[i].max()), held[i]))
        return int(np.argmax(held))

    def power(self) -> Detectable:
        """What this number of runs would have refuted with probability 0.9, whatever event was chosen."""
        if not self.pairs:
            return Detectable(None, None, None)
        nats = needed(float(self.alpha)) / self.pairs
        found = estimates(self._tracks, set())
        laws = [one for one in found if self._tracks[one[0]].arms[one[1]].law]
        primary = [one for one in found if self._tracks[one[0]].score.primary and one not in laws] or found
        return Detectable(
            self._stretched(laws[:1], nats), self._stretched(primary, nats), least_event(self.claim, nats)
        )

    def _stretched(self, found: Sequence[Estimate], nats: float) -> float | None:
        """The least true epsilon over some estimates, stretched until they are refuted."""
        epsilons = []
        for place, _, p, q in found:
            track = self._tracks[place]
            strata = np.repeat(np.arange(track.strata), track.cells) if isinstance(self.claim, StrataClaim) else None
            stretched = least_stretch(self.claim, p, q, strata, nats)
            if stretched is not None:
                epsilons.append(plausible(*stretched, self._delta))
        return min(epsilons, default=None)
