"""How many threads BLAS has."""

from threadpoolctl import threadpool_info


def blas_threads():
    """Return the largest number of threads that a library for matrices uses now."""
    return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
