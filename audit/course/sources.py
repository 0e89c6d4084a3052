"""Where the runs of an audit come from: drawn now, drawn and written down, or collected by somebody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpledger.audit.course.blocks import Course, Limits, Read, Seen, width_of
from dpledger.audit.course.journal import Journal
from dpledger.audit.course.recorded import EarlierBlocks, Recording, losses_kept
from dpledger.audit.outcomes import Floats, Outcomes, Raised, encode
from dpledger.audit.sampling import PROBED, Runs, digest
from dpledger.audit.sampling.ways import Batched, Samples, all_raised
from dpledger.audit.strata import Stated
from dpledger.audit.tested.claims import AuditTarget
from dpledger.errors import ParameterError
from dpledger.progress import Advance

__all__ = ["Collected", "DrawnNow", "losses_of", "run_course", "try_first"]

PROBE = 1_000  # runs of each side that show which losses an ex-post claim names, at most; they count for nothing
MOST_WIDTH = 100_000  # numbers of an output
TRIED = 64  # runs of each side that show that a call never works


@dataclass(frozen=True, slots=True)
class DrawnNow:
    """Runs that are drawn now."""

    runs: Runs
    jobs: int
    advance: Advance

    def __call__(self, first: int, pairs: int, read: Read) -> tuple[Seen, Seen]:
        return self.runs.block(first, pairs, read, jobs=self.jobs, advance=self.advance)

    def losses(self, pairs: int) -> tuple[Floats, ...]:
        """The losses that an ex-post claim names on runs of both sides that count for nothing."""
        left, right = self.runs.block(PROBED, pairs, losses_of, jobs=1, advance=lambda _: None)
        return (*left, *right)


@dataclass(frozen=True, slots=True)
class Collected:
    """Runs that somebody collected, `sizes` of them left and right to a unit."""

    sides: tuple[Outcomes, Outcomes]
    sizes: tuple[int, int]

    @property
    def units(self) -> int:
        """How many whole units there are."""
        return min(len(side) // size for side, size in zip(self.sides, self.sizes, strict=True))

    def __call__(self, first: int, pairs: int, read: Read) -> tuple[Seen, Seen]:
        left, right = (
            read(side.where(slice(first * size, (first + pairs) * size)))
            for side, size in zip(self.sides, self.sizes, strict=True)
        )
        return left, right


def losses_of(outcomes: Outcomes) -> tuple[Floats, ...]:
    """The claimed losses of runs; nothing where none are claimed."""
    return () if outcomes.losses is None else (outcomes.losses,)


def try_first(runs: Runs) -> str | None:
    """Run it a few times, for nothing: a digest of what the first pair gives, None where equal seeds do not give alike.
    ParameterError, from what it raised, where all of many runs raise alike: then
    what was audited would be the mistake in the call; and where an output is so many numbers that no search among them
    would end."""
    left, right = runs.probe()
    shown = [*left, *right]
    first = shown[0]
    if len(left) >= TRIED and isinstance(first, Raised) and all_raised(first, shown):
        given = (
            f"{first.name} from all of the first {len(shown)} runs, on both sides: its cause is shown with this error"
        )
        called = f"one that can be called as {runs.plan.sampler.call}"
        raise ParameterError("mechanism", given, called) from first.error
    _check_width(width_of(encode(shown)))
    runs.untyped = _untyped(left, right) if isinstance(runs.plan.sampler, Batched | Samples) else None
    pair = encode([left[0], right[0]])  # how many more were tried depends on time, and what is drawn must not
    runs.plan = replace(runs.plan, width=width_of(pair))
    return None if runs.unseeded else digest(pair).hex()


def _untyped(left: Sequence[object], right: Sequence[object]) -> str | None:
    """That the arrays of both sides were of other numbers, which is a function of all runs in them."""
    ours, theirs = (
        {one.dtype.name for one in side if isinstance(one, np.ndarray | np.generic) and one.dtype.kind in "biufc"}
        for side in (left, right)
    )
    if ours == theirs:
        return None
    names = " and ".join(sorted(ours | theirs))
    return (
        f"arrays of many runs were of other types on the two sides ({names}). What they hold is compared, and their "
        "type is not: if those who read an answer see its type, audit single runs, f(data, rng)"
    )


def _check_width(width: int) -> None:
    """ParameterError where an output is so many numbers that no search among them would end."""
    if width > MOST_WIDTH:
        wanted = (
            f"outputs of at most {MOST_WIDTH:,} numbers: return what tells the two datasets apart, some entries or "
            "sums of them (it keeps every claim that they keep)"
        )
        raise ParameterError("mechanism", f"{width:,} numbers", wanted)


def run_course(
    aim: AuditTarget | Stated, alpha: Fraction, source: DrawnNow, limits: Limits, journal: Journal | None, *, bits: bool
) -> Course:
    """An audit that has run: through the blocks of its journal, if it has one, and on from there."""
    losses: tuple[Floats, ...] = ()
    if isinstance(aim, Stated):
        losses = losses_kept(journal, lambda: source.losses(min(PROBE, limits.trials // 4)))
    runs = source.runs
    course = Course(aim, alpha, data=runs.originals, losses=losses, bits=bits)
    if journal is None:
        course.run(source, limits)
        return course
    for block in EarlierBlocks(journal, runs.starts):
        until = Limits(trials=course.pairs + block.pairs, stop_at_violation=limits.stop_at_violation)
        course.run(block, until)
        source.advance(2 * block.pairs)
        if limits.stop_at_violation and course.engine.refuted is not None:
            break  # the journal is of an audit that went on
    course.run(Recording(journal, source, runs.starts), limits)
    return course
