"""Hypotheses of a representation: few, drawn without the data, and near to every concept of a class."""
