"""Settings shared by all tests: hypothesis runs the same examples every time, without a time limit per example."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")
