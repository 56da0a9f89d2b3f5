"""Grids of experiments: design, engine (local or on a Dask cluster), store."""
