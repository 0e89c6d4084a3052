"""DataSynthesizer 0.1.13: the rate of missing values has no noise."""

PACKAGE, VERSIONS = "DataSynthesizer", ("0.1.13",)
PYTHON, WITH = "3.11", ("numpy==1.26.4", "pandas==2.2.3")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = ["1.0", "2.0", "3.0", "4.0"], ["1.0", "2.0", "3.0", "NA"]
TRIALS = 200
CLAIMED = "epsilon 1 for the description of one column, seeded afresh"
PAIR = "four numbers in a range that is given, one of them missing"
WHY = "`to_json` writes `missing_rate` as it is; noise is added to the histogram alone"
NOW = "0.1.13 is current"
REPORTED = ""


def mechanism(column):
    import io
    import random

    from DataSynthesizer.DataDescriber import DataDescriber

    describer = DataDescriber(histogram_bins=2)
    describer.describe_dataset_in_independent_attribute_mode(
        io.StringIO("x\n" + "\n".join(column)),
        epsilon=1,
        attribute_to_datatype={"x": "Float"},
        attribute_to_is_categorical={"x": False},
        attribute_to_is_candidate_key={"x": False},
        numerical_attribute_ranges={"x": [0, 5]},
        seed=random.SystemRandom().randrange(2**31),
    )
    described = describer.data_description["attribute_description"]["x"]
    return [described["missing_rate"], described["distribution_probabilities"]]
