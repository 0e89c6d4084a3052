"""Private learners with proved error: classes of concepts, samples, learners, and what audits their accuracy.

    PointClass, ThresholdClass, ParityClass, FiniteClass   what is to be learned; StumpClass and Binning on tables
    PACContract, PPACContract, AgnosticContract            how well, and with which probability
    LabeledSample, UserSample                              from what: one record a person, or several
    check_contract, hard_populations                       whether a learner keeps its contract
    private_ftrl, DPFTRL, banded_factor                    training by gradients, with noise that is taken off again
    probe_sgd, probe_loop                                  static probes of a training set-up, on made-up rows

`dpledger.plan` says which learner fits, and how many rows it needs; `dpledger.planning` the sizes one by one
(`docs/private_learning.md`).
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
