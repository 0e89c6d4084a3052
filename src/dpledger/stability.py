"""How much a learner's prediction moves when one of its n records is drawn anew: on average, of gradient descent.

It promises utility, never privacy: how far scores stray from their mean (`MeanSquare.radius`), and so how well the
models of an ensemble agree (`dpledger.soft_plan` takes it as `mu`; `docs/prediction.md`, "How stable is my learner?").

    Smooth, Constant, Listed          a loss in its constants, and the steps of the descent
    ..._mean_square   -> MeanSquare   mu^2 from above: bounds the variance, has a radius
    ..._first_moment  -> FirstMoment  the mean move from above: bounds no variance
    mean_learner      -> MeanSquare   of a learner that predicts the mean

`dpledger.estimate_stability` measures a learner of which no theorem is known, on public rows.

>>> from dpledger import stability
>>> loss = stability.Smooth(lipschitz=1, smoothness="0.25")  # logistic loss on rows of norm at most 1
>>> stability.strongly_convex_mean_square(loss, 10**6, convexity="0.1", epochs=3).radius
Decimal('0.0282842429634')
"""

from dpledger.mechanisms.stability.on_average import (
    FirstMoment as FirstMoment,
    MeanSquare as MeanSquare,
    mean_learner as mean_learner,
)
from dpledger.mechanisms.stability.plans.sgd_stability import (
    Constant as Constant,
    Listed as Listed,
    Smooth as Smooth,
    convex_first_moment as convex_first_moment,
    convex_mean_square as convex_mean_square,
    convex_sampled_mean_square as convex_sampled_mean_square,
    nonconvex_first_moment as nonconvex_first_moment,
    strongly_convex_first_moment as strongly_convex_first_moment,
    strongly_convex_mean_square as strongly_convex_mean_square,
    strongly_convex_sampled_mean_square as strongly_convex_sampled_mean_square,
)

__all__ = [
    "Constant",
    "FirstMoment",
    "Listed",
    "MeanSquare",
    "Smooth",
    "convex_first_moment",
    "convex_mean_square",
    "convex_sampled_mean_square",
    "mean_learner",
    "nonconvex_first_moment",
    "strongly_convex_first_moment",
    "strongly_convex_mean_square",
    "strongly_convex_sampled_mean_square",
]
