"""What `benchmarks/engine.py` is made of: the work, the libraries, the clock, the pictures.

Every library gets one thread: said here, before numpy is loaded.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
