"""A package, so that none of this name that a library installs (diffprivlib does) stands in for it."""
