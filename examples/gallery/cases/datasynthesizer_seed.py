"""DataSynthesizer 0.1.13: its noise is the same in every run."""

PACKAGE, VERSIONS = "DataSynthesizer", ("0.1.13",)
PYTHON, WITH = "3.11", ("numpy==1.26.4", "pandas==2.2.3")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 1.0]
TRIALS = 200
CLAIMED = "epsilon 1 for `DataDescriber().describe_dataset_in_independent_attribute_mode(epsilon=1)`"
PAIR = "four numbers in a range that is given, one of them exchanged"
WHY = "`seed=0` is the default, and seeds the generator that the noise is drawn from: everybody knows the noise"
NOW = "0.1.13 is current"
REPORTED = ""


def mechanism(column):
    import io

    from DataSynthesizer.DataDescriber import DataDescriber

    describer = DataDescriber(histogram_bins=2)
    describer.describe_dataset_in_independent_attribute_mode(
        io.StringIO("x\n" + "\n".join(map(str, column))),
        epsilon=1,
        attribute_to_datatype={"x": "Float"},
        attribute_to_is_categorical={"x": False},
        attribute_to_is_candidate_key={"x": False},
        numerical_attribute_ranges={"x": [0, 5]},
    )
    return describer.data_description["attribute_description"]["x"]["distribution_probabilities"]
