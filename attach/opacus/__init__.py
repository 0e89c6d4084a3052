"""A few lines around training with Opacus: what its sampler and its optimizer do is charged, and recorded as attested.

    public = {"rate": "0.1", "expected_batch_size": 100}
    plan = plan_training(scope, model, loader, steps=100, **public, key="model")
    model, optimizer, loader = engine.make_private(module=..., noise_multiplier=float(plan.noise_multiplier), ...)
    asked = {"steps": plan.steps, "tail_delta": plan.tail_delta}
    said = {"by": ..., "reason": ..., "key": "model", "resume": True}
    with charging(scope, engine, model, optimizer, loader, **asked, **public, **said) as run:
        train(model, optimizer, loader)
    print(run.epsilons("1e-6"))

Needs Opacus and torch: `pip install 'dpledger[opacus]'`.

The planned run is held before the first step. Each step passes the optimizer's `add_noise`, where its steps are granted
in blocks, durably, before its noise is drawn; skipped steps (`BatchMemoryManager`) draw none and cost none. What does
not fit the plan is refused there, when nothing of that step is out: less noise for the norm that gradients were clipped
to, gradients of several passes in one sum, more of them than rows, a higher rate, more steps, another optimizer state
that is loaded, an update of gradients without noise, gradients of half precision, a buffer or another tensor of the
model that changed beside its weights. An accountant that was set back ends the run at its full charge. Hooks of others
detach nothing: Opacus's own slot for one is not used. After the block the optimizer stays guarded, until another run is
charged: it draws no noise that nobody pays for.

The rate is the chance with which its sampler takes a row: 24 random bits below a number, a little above that number.
Opacus takes that number, and the one that sums are divided by, from the number of rows, which neighbours share under
zero_out alone (its issues 571 and 819): elsewhere both are declared, and set for the run (`opacus.public`).
That the batches are those of the loader, and one for each step, nothing here sees; what else is taken on trust stands
in the record as `assumes`.

Batches and noise come from states of the generators that the operating system gives, whatever a script seeded. After
an update no gradient of a row is left beside the weights.

With `key=` and `resume=` a run outlives its process: it goes on from the checkpoint of Opacus and the token in it
(`OpacusRun.token`).

>>> import warnings, opacus, torch
>>> warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook")
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> rows = torch.utils.data.TensorDataset(torch.ones(40, 2), torch.ones(40, 1))
>>> model, engine = torch.nn.Linear(2, 1), opacus.PrivacyEngine(accountant="rdp")
>>> model, optimizer, loader = engine.make_private(
...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
...     data_loader=torch.utils.data.DataLoader(rows, batch_size=10), noise_multiplier=4.0, max_grad_norm=1.0,
... )
>>> who, public = {"by": "A. Smith", "reason": "the model of the study"}, {"rate": "0.25", "expected_batch_size": 10}
>>> with charging(scope, engine, model, optimizer, loader, steps=4, **public, **who) as run:
...     for x, y in loader:
...         optimizer.zero_grad()
...         torch.nn.functional.mse_loss(model(x), y).backward()
...         optimizer.step()
>>> run
<OpacusRun: 4 of 4 steps granted>
>>> run.receipt.entry.body.parts.done, run.epsilons("1e-6").opacus > run.epsilons("1e-6").certified.upper
(4, True)
"""

from dpledger.attach.opacus.charging import charging
from dpledger.attach.opacus.planning import plan_training
from dpledger.attach.opacus.probes import probe
from dpledger.attach.opacus.run import Epsilons, OpacusRun
from dpledger.attach.opacus.steps import auditing_steps

__all__ = ["Epsilons", "OpacusRun", "auditing_steps", "charging", "plan_training", "probe"]
