"""What a bound of the realised loss says of more people, of a sample, of what is computed from it; and what not.

A house of your own promises: with probability 1 - 1e-6 an answer has lost at most what it says, and never more than 1.
"""

import dpledger as dpl
from dpledger import ex_post
from dpledger.errors import CannotCertify

told = dpl.ex_post.ExPostDP(1, "probabilistic", "1e-6", dpl.ex_post.ExPostOutcome("0.2"))

steps = {
    "as promised; this run lost 0.2": told,
    "whatever is computed from the answer": ex_post.post_processed(told),
    "a household of four": ex_post.group(told, 4),
    "a secret tenth of the people": ex_post.poisson_sampled(told, "0.1", "add_remove"),
    "beside a counter of epsilon 0.5": ex_post.concurrent([told, ex_post.constant(dpl.PureDP("0.5"))]),
}
print(f"{'':38} {'cap':>8} {'delta':>12}  sense            this run")
for words, one in steps.items():
    lost = "the cap" if one.outcome is None else f"{one.outcome.epsilon:.4g}"
    print(f"{words:38} {one.epsilon:8.4g} {one.delta:12.3g}  {one.sense:15}  {lost}")

promised = ex_post.guarantee(told)
print(f"\nbeforehand it guarantees epsilon {promised.epsilon} at delta {promised.delta}, whatever a run has lost")

for words, step in {
    "as a bound that never fails": lambda: ex_post.in_sense(told, "pure"),
    "under another relation": lambda: ex_post.poisson_sampled(told, "0.1", "replace_one"),
    "without a cap": lambda: ex_post.guarantee_by_tail("1e-6", None),
}.items():
    try:
        step()
    except CannotCertify as error:
        print(f"{words}: {error}")
