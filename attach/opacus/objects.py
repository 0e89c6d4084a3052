"""What Opacus is about to do, read off its own objects: how rows are sampled, how gradients are clipped, what its
accountant has counted, what its noise will be drawn from. One thing is changed: a pass begins with nothing left over.

>>> rate_of(UniformWithReplacementSampler(num_samples=60, sample_rate=1 / 6))
Decimal('0.166666686535')
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Generator, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpledger.attach.extras import extra
from dpledger.decimals import round_up
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation

with extra("opacus"):
    import torch
    from opacus.optimizers import (
        AdaClipDPOptimizer,
        DistributedDPOptimizer,
        DPOptimizer,
        DPOptimizerFastGradientClipping,
        DPPerLayerOptimizer,
    )
    from opacus.utils.batch_memory_manager import BatchSplittingSampler
    from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler

__all__ = [
    "FINE",
    "WholeBatches",
    "clipped_to",
    "clipping_of",
    "coarse_of",
    "counted",
    "forget_rows",
    "forget_seeds",
    "freshen",
    "noise_of",
    "null_odd_rows",
    "rate_at",
    "rate_of",
    "require_clipped",
    "require_relation",
    "require_unweighted",
    "reseed",
    "sampler_of",
    "share_rows",
    "watch",
]

_RELATIONS = (Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE)
_WORDS, _WORDS_FROM = 624, 24  # of 64 bits in a state of torch's Mersenne Twister, of which 32 are used; at which byte
_BITS = 24  # of a uniform float32 of torch, which is a multiple of 2^-24
_HANDS_OVER = "dpledger_hands_over"  # of a kind of loader
_FLOATS = (torch.float32, torch.float64)
FINE = "float32 or float64: sums of coarser floats round by more than they were clipped to"
_CLIPPED = "clipping by hooks in one process: make_private(clipping='flat' or 'per_layer', grad_sample_mode='hooks')"
_DISTRIBUTED = (
    "one of several processes: the one that adds the noise cannot see how the others clip, and one that draws an "
    "empty batch leaves it out, so which batches meet in a step depends on who was drawn"
)
_REFUSED = {
    DistributedDPOptimizer: _DISTRIBUTED,
    AdaClipDPOptimizer: "adaptive clipping, which divides by the size of the batch without adding noise to it",
    DPOptimizerFastGradientClipping: "ghost clipping, which hides how many passes a sum is of",
}


def require_relation(relation: Relation) -> None:
    """RelationError under label_flip."""
    if relation not in _RELATIONS:
        raise RelationError(f"a run is not charged under {relation.value}: use add_remove, zero_out or replace_one")


def require_clipped(optimizer: Any) -> None:
    """ParameterError for an optimizer whose steps are not seen as they are charged."""
    for kind, why in _REFUSED.items():
        if isinstance(optimizer, kind):
            raise ParameterError("optimizer", why, _CLIPPED)
    if type(optimizer) not in (DPOptimizer, DPPerLayerOptimizer):
        raise ParameterError("optimizer", type(optimizer).__name__, f"the DPOptimizer of make_private: {_CLIPPED}")
    if coarse := coarse_of(optimizer.params):
        raise ParameterError("optimizer", f"parameters of {coarse}", FINE)


def coarse_of(tensors: Iterable[torch.Tensor]) -> str:
    """The types among those of `tensors` that are too coarse to sum, as words; nothing where there is none."""
    return ", ".join(sorted({str(one.dtype) for one in tensors if one.dtype not in _FLOATS}))


def clipping_of(optimizer: Any) -> str:
    """How its gradients are clipped, in the word of `make_private`."""
    return "per_layer" if isinstance(optimizer, DPPerLayerOptimizer) else "flat"


def clipped_to(optimizer: Any) -> float:
    """The largest l2 norm of a clipped gradient, or above: of one that is clipped in each layer the root of the sum of
    the squares of their norms.

    Claim: at least that norm, in real numbers. Source: the layers are orthogonal."""
    if not isinstance(optimizer, DPPerLayerOptimizer):
        return abs(float(optimizer.max_grad_norm))
    return _above(math.hypot(*map(float, optimizer.max_grad_norms)))


def null_odd_rows(optimizer: Any) -> None:
    """Rows of which a gradient is not finite count as zero, as in `DPSGD`: a sum would show them. Of one pass."""
    held = [one for one in optimizer.params if getattr(one, "grad_sample", None) is not None]
    samples = [one.grad_sample[0] if isinstance(one.grad_sample, list) else one.grad_sample for one in held]
    if not samples:  # Opacus says what it lacks
        return
    finite = torch.stack([one.isfinite().unsqueeze(-1).flatten(1).all(1) for one in samples]).all(0)
    if bool(finite.all()):
        return
    for one, sample in zip(held, samples, strict=True):  # in fresh memory: rows of some samples share theirs
        found = torch.where(finite.view(-1, *[1] * (sample.dim() - 1)), sample, torch.zeros_like(sample))
        one.grad_sample = [found] if isinstance(one.grad_sample, list) else found


def noise_of(optimizer: Any) -> float:
    """The deviation of its noise over the norm that it clips to, or below."""
    if not isinstance(optimizer, DPPerLayerOptimizer):
        return float(optimizer.noise_multiplier)
    deviation = float(optimizer.noise_multiplier) * float(optimizer.max_grad_norm)
    return deviation / _above(_above(clipped_to(optimizer)))


def _above(number: float) -> float:
    """Above what `number` was rounded from, by an operation that is right to a unit in the last place."""
    return math.nextafter(math.nextafter(number, math.inf), math.inf)


def sampler_of(loader: Any) -> Any:
    """What draws the batches of `loader`: ParameterError unless they are Poisson samples of one process."""
    drawn_by = getattr(loader, "batch_sampler", None)
    if isinstance(drawn_by, BatchSplittingSampler):
        drawn_by = drawn_by.sampler
    if isinstance(drawn_by, DistributedUniformWithReplacementSampler):
        raise ParameterError("loader", _DISTRIBUTED, "the loader of make_private in one process")
    require_unweighted(loader)
    if type(drawn_by) not in (UniformWithReplacementSampler, WholeBatches):
        expected = (
            "the loader of make_private(poisson_sampling=True): shuffled batches do not hide people as Poisson "
            "samples do, and one row more moves others to other batches, so no price is proven for them here"
        )
        raise ParameterError("loader", type(drawn_by).__name__, expected)
    return drawn_by


def share_rows(one: Any, other: Any) -> bool:
    """Whether one of two datasets is the other, part of it, or has it among others, where that can be seen."""
    return _holds(one, other) or _holds(other, one)


def _holds(dataset: Any, part: Any) -> bool:
    if dataset is part:
        return True
    among = dataset.values() if isinstance(dataset, dict) else getattr(dataset, "datasets", ())
    inner = [getattr(dataset, "dataset", None), *(among if isinstance(among, Iterable) else ())]
    return any(one is not None and _holds(one, part) for one in inner)


def require_unweighted(loader: Any) -> None:
    """ParameterError for a loader that draws rows with weights."""
    if isinstance(getattr(loader, "sampler", None), torch.utils.data.WeightedRandomSampler):
        expected = (
            "a loader without weights: a row's chance would depend on its weight, and weights of classes on the rows "
            "of everybody; make_private would drop them and draw all rows alike, at a rate of the sampler's length"
        )
        raise ParameterError("loader", "one of WeightedRandomSampler", expected)


class WholeBatches(UniformWithReplacementSampler):  # type: ignore[misc]
    """The Poisson sampler of Opacus, each pass of which begins with an empty sum.

    Physical batches (`BatchMemoryManager`) are added up until the optimizer is told, over a queue, that a logical batch
    is whole. A loop that is left in the middle leaves its sum and its place in the queue to the next pass, whose rows
    would come on top: some of them twice, under the noise for once. What was left is dropped: nobody has seen it.

    `drawn_at`: the largest rate of a pass that began here; None of none. `unused`: how many rows each batch of the last
    one has that the loop was given, and of which no step was taken. `hands_over`: whether the loader of the next pass
    says when it gives one away (`watch`); of another loader a batch counts as given when it is drawn."""

    drawn_at: Decimal | None
    unused: list[int]
    hands_over: bool
    _ahead: list[int]
    _optimizer: Any

    @classmethod
    def watch(cls, sampler: Any, optimizer: Any) -> None:
        """Make `sampler` one of these, where it stands: loaders hold it already. Passes that began before do not count,
        unless they were watched at this rate."""
        if type(sampler) is not cls or sampler.drawn_at != rate_of(sampler):
            sampler.drawn_at, sampler.unused, sampler.hands_over = None, [], False
        sampler.__class__, sampler._optimizer = cls, optimizer

    def hand_over(self) -> None:
        """The loop has the next batch, unless another pass began since it was drawn."""
        self.unused += self._ahead[:1]
        del self._ahead[:1]

    def __iter__(self) -> Generator[list[int], None, None]:
        reseed(self._optimizer, self)
        self._optimizer._step_skip_queue.clear()
        self._optimizer._is_last_step_skipped = False
        forget_rows(self._optimizer)
        self.unused, self._ahead = [], []
        is_handed_over, self.hands_over = self.hands_over, False
        for batch in super().__iter__():
            rate = rate_of(self)
            self.drawn_at = rate if self.drawn_at is None else max(self.drawn_at, rate)
            (self._ahead if is_handed_over else self.unused).append(len(batch))
            yield batch
            reseed(self._optimizer, self)  # the loop may have seeded


def watch(loader: Any, optimizer: Any) -> None:
    """Follow from here on which batches of `loader`, as `sampler_of` takes it, were drawn, given away and used."""
    sampler = sampler_of(loader)
    WholeBatches.watch(sampler, optimizer)
    if loader.batch_sampler is sampler and not hasattr(loader, _HANDS_OVER):
        loader.__class__ = _one_by_one(type(loader))


def _one_by_one(kind: Any) -> Any:
    """The same kind of loader, which says when the loop is given a batch: its workers draw some ahead, and with these a
    second step on one batch looks like a step on the next."""

    def batches(loader: Any) -> Generator[Any, None, None]:
        loader.batch_sampler.hands_over = True
        for batch in kind.__iter__(loader):
            loader.batch_sampler.hand_over()
            yield batch

    return type(kind.__name__, (kind,), {"__iter__": batches, _HANDS_OVER: True})


def forget_rows(optimizer: Any) -> None:
    """No gradient of a row is left, nor a sum of them without noise, of frozen layers too: `torch.save(model)` writes
    what hangs on its parameters."""
    for group in optimizer.param_groups:
        for one in group["params"]:
            one.grad_sample = one.summed_grad = None


def rate_of(sampler: Any) -> Decimal:
    """The probability with which a row is drawn, or above: that a uniform multiple of 2^-24 is below the sample rate,
    which the comparison may have rounded to a float32."""
    return rate_at(float(sampler.sample_rate))


def rate_at(asked: float) -> Decimal:
    """The same of a sampler that will be made with this sample rate."""
    if torch.get_default_dtype() not in _FLOATS:
        raise ParameterError("torch.get_default_dtype()", str(torch.get_default_dtype()), "float32 or float64")
    if not 0 < asked <= 1:
        raise ParameterError("loader", f"a sample rate of {asked}", "one in (0, 1]")
    least = max(asked, float(np.float32(asked)))
    return min(Decimal(1), round_up(Fraction(math.ceil(Fraction(least) * 2**_BITS), 2**_BITS)))


def counted(engine: Any) -> int:
    """How many steps its accountant has counted."""
    return sum(int(steps) for *_, steps in engine.accountant.history)


def reseed(optimizer: Any, sampler: Any) -> None:
    """Put the generators of noise and batches in fresh states: those that they were seeded with may be known, or may
    have given another process its noise and its batches."""
    forget_seed()
    for generator in (optimizer.generator, sampler.generator):
        if generator is not None and not optimizer.secure_mode:
            freshen(generator)


def forget_seed() -> None:
    """Put the generators of torch that everybody shares in fresh states."""
    torch.seed()
    freshen(torch.default_generator)


def freshen(generator: torch.Generator) -> torch.Generator:
    """`generator`, in a state from the operating system: of the CPU's, a Mersenne Twister, all words, since it takes 32
    bits of a seed, and of 2^16 steps two would then likely have the same noise."""
    generator.seed()
    if generator.device.type == "cpu":
        state = generator.get_state().numpy()
        words = state[_WORDS_FROM : _WORDS_FROM + 8 * _WORDS].view(np.uint64)
        words[:] = np.frombuffer(secrets.token_bytes(4 * _WORDS), dtype=np.uint32)
        generator.set_state(torch.from_numpy(state))
    return generator


def forget_seeds() -> None:
    """Put the generators that everybody shares, of torch, numpy and Python, in fresh states, from the operating system.

    A mask of dropout, and what a collator draws, goes by a row's place in its batch. Of a seed that is known, a row
    more would give those behind it other masks, and so other gradients; of one that is not, masks are as random."""
    random.seed()
    np.random.seed()
    forget_seed()
