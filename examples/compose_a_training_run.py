"""What did three phases of training and a few counts cost together? Both bounds, at several deltas."""

import dpledger as dpl

run = [
    (dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier=1), rate="0.004"), 5_000),
    (dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier="0.8"), rate="0.002"), 2_000),
    (dpl.LaplaceLaw(epsilon="0.05"), 10),
]
profile = dpl.compose(run)
for delta in ("1e-5", "1e-8", "1e-12"):
    bounds = profile.epsilon(delta)
    print(f"delta {delta}: epsilon in [{bounds.lower:.9f}, {bounds.upper:.9f}]")
print(f"advantage of an attacker who guesses membership: at most {profile.advantage().upper:.3f}")
