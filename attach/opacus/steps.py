"""Audit the steps of a training with Opacus while it runs: at each step, what its optimizer would release with one
canary more in the batch, and what it would release without.

    with auditing_steps(optimizer) as audit:
        train(model, optimizer, loader)
    print(audit.result())

The canary is a gradient. At each step the optimizer's own clipping and noise run twice more, on the gradients of its
last physical batch with the canary's beside them and without it; then the step goes on as if nothing had happened. What
is seen is the optimizer: its clipping, its noise. The sampler and the accountant are not.

Both gradients are drawn beside the run and charged to nobody. So audit on made-up or public rows, or keep what the
audit says to those who may see the rows. A run that is charged (`attach.opacus.charging`) is entered before the audit.

>>> import warnings, opacus, torch
>>> warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook")
>>> rows = torch.utils.data.TensorDataset(torch.ones(40, 2), torch.ones(40, 1))
>>> model, engine = torch.nn.Linear(2, 1), opacus.PrivacyEngine()
>>> model, optimizer, loader = engine.make_private(
...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
...     data_loader=torch.utils.data.DataLoader(rows, batch_size=10), noise_multiplier=2.0, max_grad_norm=1.0,
... )
>>> with auditing_steps(optimizer, claim=GaussianLaw(8), seed=1) as audit:  # a fourth of the noise that is claimed
...     for _ in range(100):
...         for x, y in loader:
...             optimizer.zero_grad()
...             torch.nn.functional.mse_loss(model(x), y).backward()
...             optimizer.step()
>>> audit.result().verdict
'violation'
"""

from __future__ import annotations

import secrets
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, GaussianLaw
from dpledger.accounting.guarantees import Guarantee
from dpledger.attach.extras import extra
from dpledger.attach.opacus.objects import noise_of
from dpledger.attach.opacus.run import OpacusRun
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.training.step_audit import StepRecord, step_record
from dpledger.audit.training.step_subjects import NOT_FINITE, HeldAlong, TakenStep
from dpledger.decimals import Number, round_down, whole
from dpledger.errors import ParameterError

with extra("opacus"):
    import opacus
    import torch
    from opacus.optimizers import DistributedDPOptimizer, DPOptimizer

__all__ = ["StepsAudited", "auditing_steps"]

LENGTH = 100.0  # clip norms: of the gradient of a canary that nobody gave
_METHODS = ("clip_and_accumulate", "add_noise")


def auditing_steps(
    optimizer: DPOptimizer,
    *,
    canary: npt.ArrayLike | None = None,
    claim: Guarantee | Composition | None = None,
    confidence: Number = "0.95",
    delta: Number | None = None,
    seed: int | None = None,
) -> StepsAudited:
    """Audit the steps of `optimizer`, the one of `make_private`, while the block is open: train inside.

    `canary`: its gradient, as long as all parameters together, in their order; None: a direction at random, 100 times
    as long as the clip norm. `claim`: what a step claims of a batch with and without one row, a guarantee or a law;
    None: Gaussian noise at the optimizer's multiplier. `confidence`, `delta`: as `audit_mechanism` has them. `seed`: of
    the direction. Noise is drawn from the optimizer's generator.

    Claim, Source, Assumes: as `audit_steps`. ParameterError for another optimizer, and one of several processes."""
    if not isinstance(optimizer, DPOptimizer) or isinstance(optimizer, DistributedDPOptimizer):
        raise ParameterError("optimizer", type(optimizer).__name__, "the optimizer of make_private, in one process")
    size = sum(one.numel() for one in optimizer.params)
    drawn = secrets.randbits(53) if seed is None else whole(seed, field="seed", most=2**53 - 1)
    vector = np.random.default_rng(drawn).normal(size=size) if canary is None else np.asarray(canary, dtype=np.float64)
    length = float(np.linalg.norm(vector))
    if vector.shape != (size,) or not 0 < length < np.inf:
        raise ParameterError("canary", f"shape {vector.shape}, length {length}", f"{size} numbers, not all of them 0")
    if canary is None:
        vector *= LENGTH * float(optimizer.max_grad_norm) / length
    record = step_record(
        f"opacus:{type(optimizer).__name__}",
        {"noise_multiplier": str(optimizer.noise_multiplier), "max_grad_norm": str(optimizer.max_grad_norm)},
        GaussianLaw(round_down(noise_of(optimizer))) if claim is None else claim,
        confidence=confidence,
        delta=delta,
        seed=drawn,
        library=f"opacus {opacus.__version__}",
    )
    return StepsAudited(optimizer, vector, record)


class StepsAudited:
    """An audit of the steps of an optimizer, made by `auditing_steps`: a context to train in, then its `result`."""

    def __init__(self, optimizer: Any, canary: npt.NDArray[np.float64], record: StepRecord) -> None:
        self._optimizer, self._record = optimizer, record
        self._direction = canary / np.linalg.norm(canary)
        pieces = torch.as_tensor(canary).split([one.numel() for one in optimizer.params])
        self._canary = [piece.to(one).view_as(one)[None] for piece, one in zip(pieces, optimizer.params, strict=True)]
        self._last: list[tuple[Any, Any]] = []
        self._before: dict[str, Any] = {}
        self._step: dict[str, Any] = {}
        self._own: dict[str, Any] = {}

    def __reduce__(self) -> NoReturn:
        raise TypeError("an audit of an optimizer does not pickle")

    def result(self) -> AuditResult:
        """What the steps so far say. ParameterError before the first one."""
        return self._record.result()

    def __enter__(self) -> Self:
        optimizer = self._optimizer
        if any(isinstance(getattr(getattr(optimizer, name), "__self__", None), StepsAudited) for name in _METHODS):
            raise ParameterError("optimizer", "one whose steps are audited", "one audit at a time")
        self._before = {name: vars(optimizer)[name] for name in _METHODS if name in vars(optimizer)}
        self._step = {name: getattr(optimizer, name) for name in _METHODS}
        self._own = {name: self._uncharged(name) for name in _METHODS}
        optimizer.clip_and_accumulate, optimizer.add_noise = self._clip, self._add_noise
        return self

    def __exit__(self, *_: object) -> None:
        for name in _METHODS:
            delattr(self._optimizer, name)
        vars(self._optimizer).update(self._before)

    def _uncharged(self, name: str) -> Any:
        """A method as the optimizer has it, below the run that it is charged in: that grants a step for each noise."""
        method = getattr(self._optimizer, name)
        if isinstance(getattr(method, "__self__", None), OpacusRun):
            return getattr(type(self._optimizer), name).__get__(self._optimizer)
        return method

    def _clip(self) -> None:
        sums = [None if one.summed_grad is None else one.summed_grad.clone() for one in self._optimizer.params]
        samples = [one.detach().clone() for one in self._optimizer.grad_samples]
        self._last = list(zip(sums, samples, strict=True))
        self._step["clip_and_accumulate"]()

    def _add_noise(self) -> None:
        params = self._optimizer.params
        kept = [(one.grad, one.grad_sample, one.summed_grad) for one in params]
        held = self._along(_flat([total for *_, total in kept]))
        drawn = [self._gradient(with_canary=side) for side in (True, False)]
        for one, (gradient, sample, total) in zip(params, kept, strict=True):
            one.grad, one.grad_sample, one.summed_grad = gradient, sample, total
        why_left, why_right = (None if np.isfinite(one).all() else NOT_FINITE for one in drawn)
        self._record.add(TakenStep(held.of(drawn[0]), held.of(drawn[1]), (why_left, why_right)))
        self._step["add_noise"]()

    def _along(self, total: npt.NDArray[np.float64]) -> HeldAlong:
        deviation = float(self._optimizer.noise_multiplier) * float(self._optimizer.max_grad_norm)
        return HeldAlong(self._direction, float(total @ self._direction), deviation)

    def _gradient(self, *, with_canary: bool) -> npt.NDArray[np.float64]:
        """The noisy sum that the optimizer makes of its last batch."""
        for one, (total, samples), canary in zip(self._optimizer.params, self._last, self._canary, strict=True):
            one.grad_sample = torch.cat([samples, canary.to(samples)]) if with_canary else samples.clone()
            one.summed_grad = None if total is None else total.clone()
        self._own["clip_and_accumulate"]()
        self._own["add_noise"]()
        return _flat([one.grad for one in self._optimizer.params])


def _flat(tensors: list[Any]) -> npt.NDArray[np.float64]:
    joined: npt.NDArray[np.float64] = torch.cat([one.detach().reshape(-1) for one in tensors]).cpu().double().numpy()
    return joined
