"""PipelineDP 0.2.1: a sum of vectors has noise for another norm than the one it was given."""

PACKAGE, VERSIONS = "pipeline-dp", ("0.2.1", "0.3.1")
PYTHON, WITH = "3.11", ("python-dp==1.1.5", "numpy==1.26.4", "scipy==1.17.1")

CLAIM, RELATION = {"epsilon": "1", "delta": "1e-5"}, "add_remove"
LEFT, RIGHT = [0.0] * 100, [0.0] * 100 + [10.0]
CLAIMED = "(1, 1e-5) for `Metrics.VECTOR_SUM` with `vector_max_norm=10`, of one coordinate, and its partition"
PAIR = "a hundred users with a vector of 0 each, or the same and one with 10"
WHY = (
    "noise is scaled to `max_contributions_per_partition`, here 1, and not to `vector_max_norm`; "
    "and the norm of the sum is clipped, not that of each user's vector"
)
NOW = "0.3.1 clips what each user gives, and scales noise to that norm"
REPORTED = "https://github.com/OpenMined/PipelineDP/issues/551"


def mechanism(rows):
    import numpy as np
    import pipeline_dp as p
    from pipeline_dp.aggregate_params import NormKind

    accountant = p.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-5)
    params = p.AggregateParams(
        metrics=[p.Metrics.VECTOR_SUM],
        noise_kind=p.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        vector_norm_kind=NormKind.Linf,
        vector_max_norm=10.0,
        vector_size=1,
    )
    extractors = p.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda _: "all",
        value_extractor=lambda row: np.array([row[1]]),
    )
    result = p.DPEngine(accountant, p.LocalBackend()).aggregate(list(enumerate(rows)), params, extractors)
    accountant.compute_budgets()
    return [float(metrics.vector_sum[0]) for _, metrics in result]
