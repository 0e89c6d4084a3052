"""smartnoise-synth 1.0.8: MWEM takes the range of a column from the data."""

PACKAGE, VERSIONS = "smartnoise-synth", ("1.0.8",)
PYTHON, WITH = "3.11", ("torch==2.7.1", "numpy==2.4.6", "pandas==2.3.3", "smartnoise-sql==1.0.10", "opendp==0.14.2")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [0.5] * 10, [0.5] * 9 + [3.5]
TRIALS = 3_000
CLAIMED = "epsilon 1 for `MWEMSynthesizer(epsilon=1, iterations=2)`, of a column in four bins that are given"
PAIR = "ten rows in the first bin, or one of them in the last"
WHY = (
    "`_histogram_from_data_attributes` has bins from the least to the greatest value that is in the data, "
    "whatever the transformer knows: no other value is ever sampled"
)
NOW = "1.0.8 is current; the report is closed"
REPORTED = "https://github.com/opendp/smartnoise-sdk/issues/473"


def mechanism(rows):
    from snsynth.mwem import MWEMSynthesizer
    from snsynth.transform import BinTransformer, TableTransformer

    bins = TableTransformer([BinTransformer(bins=4, lower=0.0, upper=4.0)])
    synthesizer = MWEMSynthesizer(epsilon=1.0, iterations=2)
    synthesizer.fit([[row] for row in rows], transformer=bins)
    return max(row[0] for row in synthesizer.sample(20))
