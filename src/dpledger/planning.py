"""Planning: how much noise, how many runs, how many rows, before anything private is read.

    calibrate_count                               how often a mechanism may run within a budget
    dpsgd_plan -> TrainingPlan                    noise and steps of a training
    ftrl_plan -> FTRLPlan                         the same, with noise that later steps take off again
    recommend, reachable_error, query_size, ...   learners and their sample sizes
    Selected, NegativeBinomialTrials, ...         the best of several runs, as a part of what is composed
    MixtureOfGaussiansLaw, ...                    noise on a sum that a unit moves by chance
    Converted                                     a part that is charged by a weaker guarantee
    stable_plan, soft_plan, label_private_plan    votes of an ensemble, and what is learned from them

`dpledger.calibrate` and `dpledger.plan` are the everyday ones (`docs/budgets.md`, `docs/private_learning.md`).
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
