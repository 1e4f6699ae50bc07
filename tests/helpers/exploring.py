"""How much the searches explore, and whether that is something new.

By itself a run is the same every time, so that a failure in CI is the same failure at home. In the environment

    HWHEEL_MODEL_EXAMPLES=50    has the models and searches try fifty times as much (0.1: a tenth),
    HWHEEL_SOAK_SECONDS=60      has those that go by time go on for so long; from 1 on the others leave nothing out,
    HWHEEL_SEED=random          has all of them try something else than always. The seed is printed, and
                                HWHEEL_SEED=<it> tries the same again.
"""

import os
import random

EXAMPLES = float(os.environ.get("HWHEEL_MODEL_EXAMPLES", "1"))
SOAK_S = float(os.environ["HWHEEL_SOAK_SECONDS"]) if "HWHEEL_SOAK_SECONDS" in os.environ else None
SOAKS = SOAK_S is not None and SOAK_S >= 1

SEED = None


def explore(seed):
    """What HWHEEL_SEED does, before anything has been drawn."""
    global SEED
    SEED = seed
    os.environ["HWHEEL_SEED"] = str(seed)  # for the programs that tests start, too


def seconds(usual):
    """How long a search goes on that goes by time."""
    return usual if SOAK_S is None else SOAK_S


def times(usual):
    """How often something is tried."""
    return max(1, round(usual * EXAMPLES))


def seeded(number):
    """`number`, where a run is the same every time; another one for each seed."""
    return number if SEED is None else random.Random(f"{SEED} {number}").randrange(2**32)


def dice_of(number):
    """A random.Random() for each number, the same in each run with the same seed."""
    return random.Random(seeded(number))


def explored(examples, **more):
    """The settings of a property that is tried on so many examples."""
    from hypothesis import HealthCheck, Phase, settings  # not for the programs that only want dice

    usual = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=times(examples),
        deadline=None,  # the machine may be slow and shared
        derandomize=SEED is None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        database=None,  # a failure prints how to reproduce it
        print_blob=True,
        suppress_health_check=more.pop("suppress_health_check", usual),
        **more,
    )


if "HWHEEL_SEED" in os.environ:
    said = os.environ["HWHEEL_SEED"]
    explore(random.SystemRandom().randrange(2**32) if said == "random" else int(said))
