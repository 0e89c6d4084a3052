"""A small language model of Hugging Face learns to tell made-up letters of patients, privately; its process dies, and
another one goes on under the charge that stands.

    python train_huggingface.py

The model is made here and nothing is downloaded. It is evaluated on letters that play the public ones.
"""

import random
import tempfile
import warnings
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments
from transformers.utils.logging import disable_progress_bar

import dpledger as dpl
from dpledger.attach.huggingface import PrivateTrainer
from dpledger.errors import StepsLost

warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook is firing|Optimal order is the")
warnings.filterwarnings("default", category=StepsLost)
disable_progress_bar()
torch.set_num_threads(1)  # the model is small
STEPS, WORDS = 60, 40


def letters(many: int, seed: int) -> list[dict]:
    """Words are numbers; a letter is of the second kind where half of its words, and not few of them, are below 20."""
    draw = random.Random(seed)
    made = []
    for _ in range(many):
        kind = draw.randrange(2)
        words = [
            draw.randrange(2, 20) if draw.random() < 0.2 + 0.6 * kind else draw.randrange(20, WORDS) for _ in range(8)
        ]
        made.append({"input_ids": words, "label": kind})
    return made


class Dies(TrainerCallback):
    """A node that goes down after 35 steps."""

    def on_step_end(self, _args, state, _control, **_):
        if state.global_step == 35:
            raise OSError("the node goes down")


def trainer(scope: dpl.Scope, folder: Path, callbacks=()) -> PrivateTrainer:
    model = BertForSequenceClassification(
        BertConfig(vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    )
    arguments = TrainingArguments(
        str(folder / "model"),
        per_device_train_batch_size=20,  # rows at once
        gradient_accumulation_steps=5,  # 100 rows a step, on average: by this the noisy sum is divided
        max_steps=STEPS,
        max_grad_norm=1.0,  # what the gradient of a row is clipped to
        learning_rate=0.02,
        save_steps=10,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )
    return PrivateTrainer(
        model,
        arguments,
        train_dataset=letters(1200, seed=1),
        eval_dataset=letters(300, seed=2),
        scope=scope,
        rate=1 / 12,  # chosen without looking at the rows
        by="A. Smith",
        reason="the model that sorts letters",
        key="letters-2026",
        compute_metrics=lambda told: {"right": float((told.predictions.argmax(1) == told.label_ids).mean())},
        callbacks=callbacks,
    )


with tempfile.TemporaryDirectory() as folder, dpl.Ledger.create(Path(folder) / "clinic.ledger") as book:
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(4, "1e-5"))
    first = trainer(scope, Path(folder), callbacks=[Dies()])
    print(first.plan().words())
    try:
        first.train(resume_from_checkpoint=True)
    except OSError as error:
        print(error)
    second = trainer(scope, Path(folder))
    second.train(resume_from_checkpoint=True)
    print(f"{second.run.taken} steps in this process, {second.run.done} of the plan")
    print(f"right on public letters: {second.evaluate()['eval_right']:.0%}")
    print("epsilon of the run:", second.run.epsilons("1e-5").certified)
    print("of the budget of 4, by the scope:", scope.spent(delta="1e-5"))
    book.verify()
