"""Distributions of many values: quantiles for a table, and a curve for a picture."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

POINTS = 60


def quantile(values: Any, share: float) -> float:
    """Return the quantile, or 0 without values."""
    ordered = np.sort(np.asarray(values, dtype=float)) if len(values) else np.zeros(1)
    return float(ordered[min(int(len(ordered) * share), len(ordered) - 1)])


def distribution(values: Sequence[float]) -> dict[str, Any]:
    """Return p50, p99, p99.9, max, and the curve: pairs (value, share of values that are larger or equal)."""
    ordered = np.sort(np.asarray(values, dtype=float)) if len(values) else np.zeros(1)
    shares = np.logspace(0, -math.log10(len(ordered)), POINTS)
    at = np.minimum((len(ordered) * (1 - shares)).astype(int), len(ordered) - 1)
    return {
        "count": len(values),
        "p50": quantile(ordered, 0.5),
        "p99": quantile(ordered, 0.99),
        "p99.9": quantile(ordered, 0.999),
        "max": float(ordered[-1]),
        "curve": [list(pair) for pair in zip(ordered[at].tolist(), shares.tolist(), strict=True)],
    }
