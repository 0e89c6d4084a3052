"""pure-ldp 1.1.2: unary encoding loses more than its epsilon."""

PACKAGE, VERSIONS = "pure-ldp", ("1.1.2", "1.2.0")
PYTHON, WITH = "3.9", ("numpy==1.26.4", "scipy==1.13.1", "setuptools==69.5.1")

CLAIM, RELATION = {"epsilon": "0.5"}, "label_flip"
LEFT, RIGHT = 1, 2
CLAIMED = "epsilon 0.5 for one answer of a client"
PAIR = "a client whose value is 1, or 2"
WHY = (
    "`UEClient._perturb` draws every bit as a 0, then sets the true one with probability p: "
    "it is 1 with probability p + (1 - p) q, not p"
)
REPORTED = "https://github.com/Samuel-Maddock/pure-LDP/issues/11"


def mechanism(value):
    from pure_ldp.frequency_oracles.unary_encoding import UEClient

    return UEClient(0.5, 2, index_mapper=lambda x: x - 1).privatise(value)
