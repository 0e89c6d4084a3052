"""Opacus 1.6.0: the number that gradients are divided by depends on the number of rows."""

PACKAGE, VERSIONS = "opacus", ("1.6.0",)
PYTHON, WITH = "3.11", ("torch==2.7.1",)

RELATION = "add_remove"
LEFT, RIGHT = 3, 4
TRIALS = 1_000
CLAIMED = "the (epsilon, 1e-5) of one step that `get_epsilon` reports: batches of 2, noise 2"
PAIR = "three rows, or four"
WHY = (
    "`expected_batch_size` is the floor of rows / batches, 1 with three rows and 2 with four: "
    "the noise on the mean gradient has twice the scale, which 1,000 weights give away"
)
NOW = "1.6.0 is current"
REPORTED = "https://github.com/meta-pytorch/opacus/issues/571"


def trained(rows):
    import torch
    from opacus import PrivacyEngine

    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(torch.zeros(rows, 1000), torch.zeros(rows))
    model = torch.nn.Linear(1000, 1, bias=False)
    engine = PrivacyEngine()
    private = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=2),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )
    return engine, *private


def claim():
    engine, *_ = trained(4)
    engine.accountant.step(noise_multiplier=2.0, sample_rate=0.5)
    return {"epsilon": str(engine.get_epsilon(1e-5)), "delta": "1e-5"}


def mechanism(rows):
    import torch

    _, model, optimizer, loader = trained(rows)
    features, _ = next(iter(loader))
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(features).squeeze(1), torch.zeros(len(features))).backward()
    optimizer.step()
    return float(next(model.parameters()).grad.norm())
