"""A small convolutional network on handwritten digits, trained with Opacus: three lines around it make it an entry.

The digits are bundled with scikit-learn (1,797 pictures of 8 x 8). One part plays the private data; what the model is
worth is measured on the rest, which plays the public, held-out set.
"""

import warnings

import opacus
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dpledger as dpl
from dpledger.attach.opacus import charging

warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook is firing|Optimal order is the")
EPOCHS = 10

torch.manual_seed(0)
torch.set_num_threads(1)  # the network is small
digits = load_digits()
pictures = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16  # 0 to 16 by its description
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels))
private, public = order[:1440], order[1440:]

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 2 * 2, 10),
)  # fmt: skip
engine = opacus.PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5),
    data_loader=DataLoader(TensorDataset(pictures[private], labels[private]), batch_size=120),
    noise_multiplier=2.0,
    max_grad_norm=1.0,
)

with dpl.Ledger.in_memory() as book:
    scope = book.scope("writers", unit="record", relation="add_remove", budget=dpl.ApproxDP(8, "1e-5"))
    rate, expected = 1 / 12, 120  # chosen without looking at the rows: 12 batches a pass
    steps = EPOCHS * 12
    with charging(
        scope,
        engine,
        model,
        optimizer,
        loader,
        steps=steps,
        rate=rate,
        expected_batch_size=expected,
        by="A. Smith",
        reason="the network that reads forms",
        key="network",
        resume=True,
    ) as run:
        for _ in range(EPOCHS):
            for batch, truth in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(batch), truth).backward()
                optimizer.step()

    with torch.no_grad():
        right = (model(pictures[public]).argmax(1) == labels[public]).float().mean().item()
    print(f"right on the public part: {right:.1%}; steps: {run.granted}; entry {run.receipt.entry.index}, attested")
    both = run.epsilons("1e-5")
    print(f"epsilon at delta 1e-5: {both.certified} certified; {both.opacus:.4f} by the {both.accountant} accountant")
    print("of the budget of 8, by the scope:", scope.spent(delta="1e-5"))
    book.verify()
