"""What certifies the release of values that no near unit decides: of one (`releases`), of many by `gaussian_tests`."""
