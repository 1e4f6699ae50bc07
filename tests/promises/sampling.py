"""How much is searched: a sample by default; everything when the environment says HWHEEL_SOAK_SECONDS."""

import os

EVERYTHING = "HWHEEL_SOAK_SECONDS" in os.environ


def some(cases, stride):
    """Each stride-th case; the stride should have no divisor in common with what the cases are a product of."""
    return [*cases] if EVERYTHING else [*cases][::stride]
