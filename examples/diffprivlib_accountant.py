"""A scope as the accountant of diffprivlib: one budget for functions, for folds, and for workers of joblib.

pip install 'dpledger[diffprivlib]'
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from diffprivlib import models, tools
from diffprivlib.utils import BudgetError
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_score

import dpledger as dpl

warnings.filterwarnings("ignore", message="scipy.optimize: The `disp`")  # diffprivlib's own
rng = np.random.default_rng(0)
ages, seen = rng.integers(20, 90, size=400), rng.random((400, 2))  # made up: one row a patient
ill = (seen[:, 0] > 0.5).astype(int)

with tempfile.TemporaryDirectory() as folder:
    book = dpl.Ledger.create(Path(folder) / "clinic.ledger")  # in a file: workers open it
    scope = book.scope("patients", unit="patient", relation="replace_one", budget=dpl.ApproxDP(3, "1e-6"))
    accountant = scope.as_diffprivlib(relation="replace_one", by="A. Smith", reason="the study of 2026")

    print(tools.mean(ages, epsilon=0.25, bounds=(0, 100), accountant=accountant))
    model = models.LogisticRegression(epsilon=0.25, data_norm=2.0, accountant=accountant)
    print(cross_val_score(model, seen, ill, cv=3).round(2))  # three fits: three charges
    halves = Parallel(n_jobs=2)(
        delayed(tools.mean)(half, epsilon=0.25, bounds=(0, 100), accountant=accountant)
        for half in (ages[:200], ages[200:])
    )
    print(halves, accountant.total(), len(accountant))
    try:
        tools.mean(ages, epsilon=3.0, bounds=(0, 100), accountant=accountant)
    except BudgetError as refused:
        print(refused)
    book.close()
