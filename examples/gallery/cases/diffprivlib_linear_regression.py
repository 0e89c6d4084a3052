"""diffprivlib 0.6.6: linear regression scales noise by the lower bound twice."""

PACKAGE, VERSIONS = "diffprivlib", ("0.6.6",)
PYTHON, WITH = "3.11", ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [[0.1], [0.1]], [[0.1], [1.0]]
TRIALS = 500
CLAIMED = "epsilon 1 for `LinearRegression(bounds_X=(0, 1)).fit`"
PAIR = "two rows within the bounds, one of them exchanged"
WHY = (
    "`_construct_regression_obj` takes `bounds_X[0][i]` for both bounds: with a lower bound of 0 "
    "the sum of squares has no noise at all"
)
NOW = "0.6.6 is current"
REPORTED = "https://github.com/IBM/differential-privacy-library/issues/105"


def mechanism(rows):
    from diffprivlib.models import LinearRegression

    model = LinearRegression(epsilon=1, bounds_X=(0, 1), bounds_y=(0, 1), fit_intercept=False)
    return model.fit(rows, [0.0, 0.0]).coef_
