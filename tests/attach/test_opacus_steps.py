"""The steps of an optimizer of Opacus, audited while it trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import opacus
import pytest
import torch
from opacus.optimizers import DPOptimizer

import dpledger as dpl
from dpledger.attach.opacus import auditing_steps, charging

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook"),
]


class HalfTheNoise(DPOptimizer):  # type: ignore[misc]
    """Adds half the noise that its multiplier says."""

    noise_multiplier: float

    def add_noise(self) -> None:
        said, self.noise_multiplier = self.noise_multiplier, self.noise_multiplier / 2
        super().add_noise()
        self.noise_multiplier = said


class ClippedByLayer(DPOptimizer):  # type: ignore[misc]
    """Clips each tensor to the norm that all of them together may have."""

    def clip_and_accumulate(self) -> None:
        for one in self.params:
            norms = one.grad_sample.flatten(1).norm(dim=1)
            factors = (self.max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
            clipped = torch.einsum("i,i...", factors, one.grad_sample)
            one.summed_grad = clipped if one.summed_grad is None else one.summed_grad + clipped


def made(kind: Any = None) -> Any:
    torch.manual_seed(3)
    rows = torch.utils.data.TensorDataset(torch.randn(60, 4), torch.randn(60, 1))
    model, engine = torch.nn.Linear(4, 1), opacus.PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=10),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    if kind is not None:
        optimizer.__class__ = kind
    return model, engine, optimizer, loader


def train(model: Any, optimizer: Any, loader: Any, epochs: int) -> None:
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


def canary() -> Any:
    return np.array([0.0, 0.0, 0.0, 40.0, -30.0])


@pytest.mark.parametrize("kind", [HalfTheNoise, ClippedByLayer])
def test_a_faulty_optimizer_is_refuted(kind: Any) -> None:
    model, _, optimizer, loader = made(kind)
    with auditing_steps(optimizer, canary=canary(), seed=1) as audit:
        train(model, optimizer, loader, 60)
    assert audit.result().verdict == "violation"


def test_the_optimizer_of_opacus_is_not_refuted_and_trains_on() -> None:
    model, _, optimizer, loader = made()
    before = [one.detach().clone() for one in model.parameters()]
    with auditing_steps(optimizer, seed=2) as audit:
        train(model, optimizer, loader, 15)
    result = audit.result()
    assert result.verdict == "not_refuted"
    assert result.trials == 90
    assert result.witness is not None
    assert result.witness.left > result.witness.right
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert not {"add_noise", "clip_and_accumulate"} & vars(optimizer).keys()


def test_virtual_steps_are_one_step() -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    model, _, optimizer, loader = made()
    managed = BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer)
    with managed as physical, auditing_steps(optimizer, seed=2) as audit:
        train(model, optimizer, physical, 4)
    assert audit.result().trials == 24
    assert audit.result().verdict == "not_refuted"


def test_what_an_audit_draws_takes_no_step_from_a_charged_run() -> None:
    model, engine, optimizer, loader = made()
    scope = dpl.Ledger.in_memory().scope("r", unit="record", relation="add_remove", budget=dpl.ApproxDP(90, "1e-6"))
    public: dict[str, Any] = {"rate": "0.17", "expected_batch_size": 10, "by": "me", "reason": "test"}
    run = charging(scope, engine, model, optimizer, loader, steps=6, **public)
    with run, auditing_steps(optimizer) as audit:
        train(model, optimizer, loader, 1)
    assert run.taken == 6
    assert audit.result().trials == 6


def test_bad_parameters_are_named() -> None:
    _, _, optimizer, _ = made()
    with pytest.raises(dpl.ParameterError, match="optimizer"):
        auditing_steps(3)
    with pytest.raises(dpl.ParameterError, match="canary"):
        auditing_steps(optimizer, canary=np.zeros(5))
    audit = auditing_steps(optimizer)
    with pytest.raises(dpl.ParameterError, match="steps"):
        audit.result()
    with audit, pytest.raises(dpl.ParameterError, match="one audit at a time"), auditing_steps(optimizer):
        pass
