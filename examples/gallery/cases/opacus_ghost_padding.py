"""Opacus 1.6.0: ghost clipping measures another gradient than the one that it clips."""

PACKAGE, VERSIONS = "opacus", ("1.6.0",)
PYTHON, WITH = "3.11", ("torch==2.7.1",)

RELATION = "add_remove"
LEFT, RIGHT = 1, 2
TRIALS = 1_500
CLAIMED = "the (epsilon, 1e-5) of one step on all rows that `get_epsilon` reports: noise 2, `grad_sample_mode='ghost'`"
PAIR = "an image of zeros, with or without a second image"
WHY = (
    "the norms of a convolution are computed with zeros around the image, whatever its `padding_mode`: with "
    "'reflect' the gradient of this image has norm 4 after it was clipped to 1"
)
NOW = "1.6.0 is current; without ghost clipping, what is summed is what was measured"
REPORTED = ""


def step(rows):
    import logging

    import torch
    from opacus import PrivacyEngine

    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    images = torch.stack([torch.zeros(1, 4, 4), 100 * torch.ones(1, 4, 4)])[:rows]
    model = torch.nn.Conv2d(1, 1, 3, padding=3, padding_mode="reflect", bias=False)
    torch.nn.init.ones_(model.weight)
    engine = PrivacyEngine()
    model, optimizer, criterion, _ = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=torch.nn.MSELoss(reduction="sum"),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images), batch_size=rows),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        loss_reduction="sum",
        grad_sample_mode="ghost",
    )
    answers = model(images).flatten(1).sum(1)
    criterion(answers, torch.zeros(rows)).backward()
    optimizer.step()
    return engine, next(model.parameters()).grad


def claim():
    engine, _ = step(1)
    return {"epsilon": str(engine.get_epsilon(1e-5)), "delta": "1e-5"}


def mechanism(rows):
    _, gradient = step(rows)
    return float(gradient.sum())
