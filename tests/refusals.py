"""What a refusal is: an error of a type that names the argument. Its wording may change."""

import pytest


def refuses(argument, error=ValueError):
    """Expect an error whose sentence says what an argument must be."""
    return pytest.raises(error, match=rf"\b{argument}\b.* must ")
