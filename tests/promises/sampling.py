"""How much is searched: a sample by default; everything when the environment says HWHEEL_SOAK_SECONDS."""

from exploring import SOAKS


def some(cases, stride):
    """Each stride-th case; the stride should have no divisor in common with what the cases are a product of."""
    return [*cases] if SOAKS else [*cases][::stride]
