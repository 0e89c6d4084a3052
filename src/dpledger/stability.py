"""How much a learner's prediction moves when one of its n records is drawn anew: on average, of gradient descent.

It promises utility, never privacy: how far scores stray from their mean (`MeanSquare.radius`), and so how well the
models of an ensemble agree (`dpledger.planning.soft_plan` takes it as `mu`; `docs/prediction.md`, "How stable is my
learner?").

    Smooth, Constant, Listed          a loss in its constants, and the steps of the descent
    ..._mean_square   -> MeanSquare   mu^2 from above: bounds the variance, has a radius
    ..._first_moment  -> FirstMoment  the mean move from above: bounds no variance
    mean_learner      -> MeanSquare   of a learner that predicts the mean

`dpledger.stability.estimate_stability` measures a learner of which no theorem is known, on public rows.

>>> from dpledger import stability
>>> loss = stability.Smooth(lipschitz=1, smoothness="0.25")  # logistic loss on rows of norm at most 1
>>> stability.strongly_convex_mean_square(loss, 10**6, convexity="0.1", epochs=3).radius
Decimal('0.0282842429634')
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
