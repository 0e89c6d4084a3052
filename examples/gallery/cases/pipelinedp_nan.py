"""PipelineDP 0.3.1: a NaN passes the bounds of a sum."""

PACKAGE, VERSIONS = "pipeline-dp", ("0.3.1",)
PYTHON, WITH = "3.11", ("python-dp==1.1.5", "numpy==2.4.6", "scipy==1.17.1", "dill==0.4.1")

CLAIM, RELATION = {"epsilon": "1"}, "add_remove"
LEFT, RIGHT = [0.5, 0.5], [0.5, 0.5, None]
TRIALS = 120
CLAIMED = "epsilon 1 for `Metrics.SUM` with `min_value=0, max_value=1` on a public partition"
PAIR = "two users with a number each, or the same and a third one with a NaN"
WHY = "`SumCombiner` bounds values by `np.clip`, which leaves a NaN as it is, and noise on a NaN is a NaN"
NOW = "0.3.1 is current; its means and variances do the same"
REPORTED = ""


def mechanism(rows):
    import pipeline_dp as p

    accountant = p.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
    params = p.AggregateParams(
        metrics=[p.Metrics.SUM],
        noise_kind=p.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=1,
    )
    extractors = p.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda _: "all",
        value_extractor=lambda row: row[1],
    )
    data = [(user, float("nan") if value is None else value) for user, value in enumerate(rows)]
    result = p.DPEngine(accountant, p.LocalBackend()).aggregate(data, params, extractors, public_partitions=["all"])
    accountant.compute_budgets()
    return next(iter(result))[1].sum
