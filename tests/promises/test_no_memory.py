"""Where memory ends: a MemoryError at the call that changes nothing, or a success; with memory again all goes on."""

import pytest

pytest.importorskip("_testcapi", reason="this CPython came without its switch for allocations that fail")

import starved_containers  # noqa: F401     (they bring their scenes)
import starved_faces  # noqa: F401
import starved_loops  # noqa: F401
import starved_timers  # noqa: F401
from starving import SCENES

PARTS = 8
PLAY = "import starved_containers, starved_faces, starved_loops, starved_timers, starving\nstarving.play_all({!r})"


@pytest.mark.parametrize("part", range(PARTS))
def test_whichever_allocation_fails_nothing_is_lost(run_with_helpers, part):
    names = [*SCENES][part::PARTS]
    assert run_with_helpers(PLAY.format(names)) == (0, "".join(f"{name}\n" for name in names), "")
