"""How much the randomized tests try, and from which seed.

By default every run tries the same cases, so a failure in CI can be repeated anywhere. Environment variables:

    HWHEEL_MODEL_EXAMPLES=50    Multiply the number of examples by 50 (0.1: a tenth).
    HWHEEL_SOAK_SECONDS=60      Run each timed search for 60 seconds. From 1 on, samples become exhaustive.
    HWHEEL_SEED=random          Try other cases than usual. The seed is printed; HWHEEL_SEED=<seed> repeats them.
"""

import os
import random

EXAMPLES_FACTOR = float(os.environ.get("HWHEEL_MODEL_EXAMPLES", "1"))
SOAK_S = float(os.environ["HWHEEL_SOAK_SECONDS"]) if "HWHEEL_SOAK_SECONDS" in os.environ else None
EXHAUSTIVE = SOAK_S is not None and SOAK_S >= 1

SEED = None


def set_seed(seed):
    """Do what HWHEEL_SEED does. Call this before anything is drawn."""
    global SEED
    SEED = seed
    os.environ["HWHEEL_SEED"] = str(seed)  # also for the programs that tests start


def search_seconds(default):
    """Return how long a timed search runs."""
    return default if SOAK_S is None else SOAK_S


def scaled(default):
    """Return how many times something is tried."""
    return max(1, round(default * EXAMPLES_FACTOR))


def sample(cases, stride):
    """Return every stride-th case, or all of them in an exhaustive run.

    If the cases are a product, choose a stride that is coprime to the sizes of its factors.
    """
    return [*cases] if EXHAUSTIVE else [*cases][::stride]


def at_least(minimum, cases):
    """Return the cases of a generator as a list, and fail if there are fewer than ``minimum``.

    A generator that loses its cases would otherwise let the test pass without testing anything.
    """
    cases = [*cases]
    assert len(cases) >= minimum, f"{len(cases)} cases, expected at least {minimum}"
    return cases


def seed_for(number):
    """Return ``number`` in a default run, else a seed derived from it and from HWHEEL_SEED."""
    return number if SEED is None else random.Random(f"{SEED} {number}").randrange(2**32)


def seeded_random(number):
    """Return a ``random.Random``, which is the same in every run with the same HWHEEL_SEED."""
    return random.Random(seed_for(number))


def search_settings(examples, **more):
    """Return Hypothesis settings for a property that is tried on this many examples."""
    from hypothesis import HealthCheck, Phase, settings  # here, because programs that only want a seed lack it

    checks_off = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=scaled(examples),
        deadline=None,  # the machine may be slow and shared
        derandomize=SEED is None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        database=None,  # a failure prints how to reproduce it
        print_blob=True,
        suppress_health_check=more.pop("suppress_health_check", checks_off),
        **more,
    )


if "HWHEEL_SEED" in os.environ:
    given = os.environ["HWHEEL_SEED"]
    set_seed(random.SystemRandom().randrange(2**32) if given == "random" else int(given))
