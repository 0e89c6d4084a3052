"""diffprivlib 0.6.6: k-means shows which clusters are empty."""

PACKAGE, VERSIONS = "diffprivlib", ("0.6.6",)
PYTHON, WITH = "3.11", ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [[0.0]] * 4, [[0.0]] * 3 + [[1.0]]
TRIALS = 3_000
CLAIMED = "epsilon 1 for `KMeans(n_clusters=2, bounds=(0, 1)).fit`"
PAIR = "four rows at 0, or one of them at 1"
WHY = (
    "`_update_centers` skips a cluster that has no row: its centre stays where it began, without noise, "
    "and one row decides whether it does"
)
NOW = "0.6.6 is current"
REPORTED = ""


def mechanism(rows):
    from diffprivlib.models import KMeans

    return sorted(KMeans(n_clusters=2, epsilon=1, bounds=(0, 1)).fit(rows).cluster_centers_.ravel())
