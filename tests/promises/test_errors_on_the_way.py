"""What others raise, refuse or return on a timer's way: it is reported, later timers run, no task is lost."""

import pytest

from erring import CALLBACKS, EXECUTORS, REPORTERS, STARTS, TASKS
from sampling import sample

MODULE = "import erring\nerring.{}({!r})\n"


@pytest.mark.parametrize("name", sample(EXECUTORS, 3))
def test_an_executor_that_errs_costs_no_later_timer(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_executor", name)) == (0, "", "")


@pytest.mark.parametrize("name", sample(STARTS, 5))
def test_a_thread_that_cannot_be_started_is_an_error_at_the_add_and_no_other(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("without_thread", name)) == (0, "", "")


@pytest.mark.parametrize("name", sample(REPORTERS, 5))
def test_an_error_in_the_report_of_an_error_stops_nothing(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_reporter", name)) == (0, "", "")


@pytest.mark.parametrize("name", sample(TASKS, 5))
def test_a_subclass_may_call_its_own_things_what_it_likes(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_task", name)) == (0, "", "")


@pytest.mark.parametrize("name", sample(CALLBACKS, 5))
def test_whatever_a_callback_raises_the_timer_goes_on(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_callback", name)) == (0, "", "")
