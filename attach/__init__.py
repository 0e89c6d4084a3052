"""The accounting layer for other people's loops and libraries: one small file for each, none with state of its own."""
