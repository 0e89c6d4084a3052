"""The demo, step by step: what an engineer, a privacy officer and an auditor would each do, in one sitting.

Nothing here is tuned to pass: the noise is fresh at every run, and the filter decides with no tolerance what it admits.
"""

from __future__ import annotations

import functools
import shutil
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dpledger as dpl
from dpledger import decimals
from dpledger.cli import demo_data
from dpledger.cli.speaking import Voice, bounds_in_words, number
from dpledger.errors import BudgetRefused, ParameterError, VerificationError
from dpledger.ledger.signed.keyfiles import read_public_key
from dpledger.ledger.verifying import bundle

if TYPE_CHECKING:
    from dpledger.audit.results.verdict import AuditResult
    from dpledger.ledger.accounts.recomposition import Admission

__all__ = ["Walk"]

BUDGET = dpl.ApproxDP(epsilon=3, delta="0.000001")
RADIUS, TEXTURE = 0, 1  # columns of the raw features
WORST = range(20, 30)  # columns of the worst value of each measurement
LEARNING_RATE = 2.0
RATE, STEPS, NOISE, BATCH = "0.15", 99, 4, 60  # of the training run; 60: the expected batch, a declared number
MANY = 310  # patients: the threshold of the stream of queries
TRIALS = 200_000  # runs on each side of an audit
CONFIDENCE = "0.999"  # of an audit: of a thousand demos one may accuse the count, which is right


class Walk:
    """One run of the demo, writing into `out` and speaking through `voice`."""

    def __init__(self, out: Path, voice: Voice) -> None:
        try:
            out.mkdir(parents=True, exist_ok=True)
            is_empty = not any(out.iterdir())
        except FileExistsError:
            is_empty = False
        except OSError as error:
            raise ParameterError("out", str(out), f"a folder that can be written ({error.strerror})") from None
        if not is_empty:
            raise ParameterError("out", str(out), "a folder that is empty or not there yet")
        self.private, self.public = demo_data.load()
        self.out = out
        self.voice = voice
        self.result: dict[str, Any] = {}
        self._started = time.monotonic()

    def run(self) -> dict[str, Any]:
        """All nine steps; what they measured, for programs."""
        with dpl.Ledger.create(self.out / "clinic.ledger", name="clinic") as book:
            self.book = book
            self._open()
            self._statistics()
            self._train()
            self._stream()
            self._refused()
            self._accounts()
            self._audits()
            self._report()
            self._bundle()
        self.result["seconds"] = round(time.monotonic() - self._started, 1)
        return self.result

    def _title(self, text: str) -> None:
        self.voice.say(f"\n{text}")

    # ---- 1 ----------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._title("1. A ledger, its keys, and a scope with a budget")
        self.scope = self.book.scope(
            "patients-2026",
            unit="patient",
            relation="add_remove",
            budget=BUDGET,
            dataset="scikit-learn breast cancer, the private part",
        )
        declarations = self.out / "declarations.yaml"
        declarations.write_bytes(files("dpledger.cli").joinpath("demo_declarations.yaml").read_bytes())
        declared = self.book.declare_file(declarations)
        self.voice.say(f"   ledger {self.book.id}")
        self.voice.say(
            f"   {len(self.private.raw)} patients; budget epsilon 3, delta 1e-6 per patient, add or remove one"
        )
        self.voice.say(f"   {len(declared)} items declared, from {declarations}")
        self.result["ledger"] = self.book.id
        self._gain()

    def _gain(self) -> None:
        """What the budget admits of a well-known training run."""
        now = self.scope.afford(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"))
        self.voice.say(
            f"   it admits {now.one_by_one:,} DP-SGD steps (noise 1, rate 0.01) one by one, {now.planned:,} as one plan"
        )
        self.result["steps_admitted"] = {
            "one_by_one": now.one_by_one,
            "as_one_plan": now.planned,
        }

    # ---- 2 ----------------------------------------------------------------------------------------------------------

    def _statistics(self) -> None:
        self._title("2. Private statistics")
        count = dpl.Count(epsilon="0.1", of="true", counted="malignant cases")
        malignant = self.scope.release(count, self.private.malignant > 0.5, key="count-malignant").value
        width = count.interval("0.95")
        self.voice.say(f"   malignant cases: {malignant}, within {width} (95 %)")

        mean = dpl.ClippedMean(epsilon="0.2", lower=5, upper=30)
        radius = self.scope.release(mean, self.private.raw[:, RADIUS], key="mean-radius").value
        low, high = radius.interval("0.95")
        self.voice.say(f"   mean radius, clipped to [5, 30]: {float(radius):.2f}, in [{low:.2f}, {high:.2f}] (95 %)")

        histogram = dpl.Histogram(epsilon="0.2", edges=(5, 15, 20, 25, 40))
        texture = self.scope.release(histogram, self.private.raw[:, TEXTURE], key="texture").value
        within = histogram.interval("0.95")
        cells = ", ".join(f"{label} {cell}" for label, cell in texture.items())
        self.voice.say(f"   texture: {cells}; each within {within} (95 %)")
        self.result["statistics"] = {"malignant": malignant, "mean_radius": float(radius), "texture": dict(texture)}

    # ---- 3 ----------------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        self._title("3. Logistic regression by DP-SGD, the whole run reserved before the first step")
        rows, labels = self.private.features, self.private.malignant
        weights, average = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])

        def gradients(batch: tuple[demo_data.Floats, demo_data.Floats]) -> demo_data.Floats:
            return demo_data.gradients(weights, *batch)

        with dpl.private_sgd(
            self.scope,
            (rows, labels),
            gradients,
            rate=RATE,
            steps=STEPS,
            noise_multiplier=NOISE,
            clip_norm=1,
            dimension=rows.shape[1],
            expected_batch_size=BATCH,
            key="train",
        ) as run:
            for mean_gradient in run:
                weights -= LEARNING_RATE * mean_gradient
                average += weights
        private = demo_data.accuracy(average, self.public)
        plain = demo_data.accuracy(self._plain_weights(), self.public)
        profile = dpl.compose(self._last_admission().parts).epsilon(BUDGET.delta)
        self.voice.say(f"   accuracy on {len(self.public.raw)} held-out, public patients: {private:.3f} with privacy,")
        self.voice.say(f"   {plain:.3f} without")
        self.voice.say(
            f"   the run alone, composed: epsilon in {bounds_in_words(profile.lower, profile.upper)} at delta 1e-6"
        )
        self.result["training"] = {
            "accuracy": round(private, 4),
            "accuracy_without_privacy": round(plain, 4),
            "epsilon": {"lower": profile.lower, "upper": profile.upper},
        }

    def _plain_weights(self) -> demo_data.Floats:
        """What training without privacy would give; for the comparison alone, and never released outside a demo."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(max_iter=5000, fit_intercept=False)
        weights: demo_data.Floats = model.fit(self.private.features, self.private.malignant).coef_[0]
        return weights

    # ---- 4 ----------------------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        self._title("4. A stream of threshold queries; only answers above the threshold are paid for")
        queries = dpl.SparseVector(
            epsilon="0.6",
            cutoff=3,
            threshold=MANY,
            charged="above",
            max_queries=len(WORST),
            sensitivity=1,
            justification="each query counts patients: one moves it by at most 1",
        )
        above = []
        with self.scope.open(queries, self.private.features, key="stream") as answers:
            for column in WORST:
                answer = answers.ask(functools.partial(_in_upper_half, column))
                if answer.value == "above":
                    above.append(column)
        admission = self._last_admission()
        asked, kept = (amounts[admission.account] for amounts in (admission.reserved, admission.charged))
        self.voice.say(
            f"   asked for {len(WORST)} measurements: are {MANY} patients in the upper half? yes for {len(above)}"
        )
        self.voice.say(
            f"   reserved {decimals.text(asked)}, charged {decimals.text(kept)}: "
            f"{decimals.text(decimals.subtract(asked, kept))} came back at close, by rule `{admission.rule}`"
        )
        self.result["refund"] = {"reserved": decimals.text(asked), "charged": decimals.text(kept)}

    # ---- 5 ----------------------------------------------------------------------------------------------------------

    def _refused(self) -> None:
        self._title("5. One release too many")
        second = dpl.DPSGD(
            rate=RATE, steps=STEPS, noise_multiplier=NOISE, clip_norm=1, dimension=31, expected_batch_size=BATCH
        )
        before = self.book.state.scopes[self.scope.name].sums
        try:
            self.scope.open(second, (self.private.features, self.private.malignant), key="train-again")
        except BudgetRefused as refused:
            self.voice.say(f"   BudgetRefused: {str(refused).partition('.')[0]}")
            rows = [
                [account, refused.asked[account], refused.spent[account], refused.left[account]]
                for account in refused.asked
            ]
            self.voice.table("", ["account", "asked", "spent", "left"], rows)
            self.result["refused"] = {"asked": refused.asked, "spent": refused.spent, "left": refused.left}
        after = self.book.state.scopes[self.scope.name].sums
        self.voice.say(f"   spent before and after the refusal: {'the same' if before == after else 'different'}")
        step = dpl.PoissonSampled(dpl.GaussianLaw(NOISE), rate=RATE)
        self.voice.say(f"   of its {STEPS} steps, the budget would still admit: {self.scope.afford(step)}")

    # ---- 6 ----------------------------------------------------------------------------------------------------------

    def _accounts(self) -> None:
        self._title("6. What was admitted, and which account admitted it")
        account = self.scope.account()
        rows = [self._row(admission) for admission in account.admissions]
        heads = ["entry", "mechanism", "admitted by", "reserved", "charged", "rule", "alone, epsilon at delta 1e-6"]
        self.voice.table("", heads, rows)
        spent, upper = account.spent, account.reading(account.delta)
        at = decimals.text(account.delta)
        self.voice.say(f"   spent at delta {at}: epsilon in {bounds_in_words(spent.lower, upper)}")
        self.voice.say("   upper: from the filter, whose theorem allows adaptive choices;")
        self.voice.say("   lower: from the costliest planned part, composed by the engine")
        left = "; ".join(f"{name} {value}" for name, value in account.left_by_account.items())
        self.voice.say(f"   left by account: {left}")
        self.result["spent"] = {"lower": number(spent.lower), "upper": number(upper)}

    def _row(self, admission: Admission) -> list[str]:
        alone = dpl.compose(admission.parts).epsilon(BUDGET.delta)
        return [
            str(admission.index),
            admission.mechanism.kind,
            _ACCOUNTS[admission.account.rstrip("_0123456789")],
            decimals.text(admission.reserved[admission.account]),
            decimals.text(admission.charged[admission.account]),
            admission.rule or "",
            f"[{alone.lower:.4f}, {alone.upper:.4f}]",
        ]

    def _last_admission(self) -> Admission:
        return self.scope.account().admissions[-1]

    # ---- 7 ----------------------------------------------------------------------------------------------------------

    def _audits(self) -> None:
        self._title(f"7. Audits: {TRIALS} runs on each side of two neighbouring datasets")
        from dpledger.audit import audit_mechanism
        from dpledger.audit.zoo import ZOO

        own = audit_mechanism(
            dpl.Count(epsilon="0.1", of="true", counted="malignant cases"),
            [True] * 10,
            [True] * 11,
            trials=TRIALS,
            confidence=CONFIDENCE,
        )
        fault = ZOO["laplace_half_noise"]
        faulty = audit_mechanism(
            fault.mechanism,
            fault.left,
            fault.right,
            claim=fault.claim,
            batched=fault.batched,
            trials=TRIALS,
            confidence=CONFIDENCE,
        )
        self.result["audits"] = {}
        for name, result in (("the count of step 2", own), ("a planted fault: half the noise", faulty)):
            self._audited(name, result)
            self.book.record(result)
        faulty.plot(self.out / "audit.png")

    def _audited(self, name: str, result: AuditResult) -> None:
        self.voice.say(f"   {name}:")
        for line in str(result).splitlines():
            self.voice.say(f"     {line}")
        self.result["audits"][name] = {
            "verdict": result.verdict,
            "epsilon_lower": decimals.text(result.epsilon_lower),
        }

    # ---- 8 ----------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        self._title("8. The report")
        self.report = report = dpl.report(self.book)
        for suffix in ("html", "json", "md"):
            report.save(self.out / f"report.{suffix}")
        self.voice.say(f"   {self.out / 'report.html'}    open it in a browser; it needs no network")
        self.voice.say(f"   {self.out / 'report.json'}    the same, for programs")
        self.voice.say(f"   {self.out / 'report.md'}      the same, as text")
        self.result["report"] = str(self.out / "report.html")

    # ---- 9 ----------------------------------------------------------------------------------------------------------

    def _bundle(self) -> None:
        self._title("9. A bundle of the same entries, verified offline with the public key alone")
        folder = self.book.export(self.out / "bundle")
        key = read_public_key(self.out / "clinic.ledger.pub")
        verified = bundle.verify(folder, key)
        self.voice.say(f"   {verified.head.size} entries verified; root {verified.head.root.hex()[:16]}…")
        self.voice.say("   the report is on the same entries, and names the same root")
        tampered = self.out / "tampered"
        shutil.copytree(folder, tampered)
        entries = tampered / bundle.ENTRIES
        data = bytearray(entries.read_bytes())
        place = data.index(b"\n", len(data) // 2) - 300  # inside the signature part of an entry in the middle
        data[place] ^= 1
        entries.write_bytes(data)
        try:
            bundle.verify(tampered, key)
        except VerificationError as error:
            self.voice.say(f"   one bit flipped in a copy: {error}")
            self.result["tampered"] = {"index": error.index, "reason": error.reason}
        recorded = self.book.record(self.report)
        self.voice.say(f"   entry {recorded.index}, which comes after both, records the report by its SHA-256")
        self.voice.say("\nNext:")
        ledger = self.out / "clinic.ledger"
        self.voice.say(f"   dpledger show {ledger}")
        self.voice.say(f"   dpledger spent {ledger} --scope patients-2026")
        self.voice.say(f"   dpledger verify {self.out / 'bundle'} --key {ledger}.pub")


def _in_upper_half(column: int, features: demo_data.Floats) -> int:
    """How many patients lie in the upper half of the range of a feature: one patient moves it by at most 1."""
    return int(np.sum(features[:, column] > 0))


_ACCOUNTS = {
    "pure": "sum of epsilons",
    "mixed_pure": "mixed, by epsilon",
    "mixed_rdp": "mixed, by Renyi",
}
