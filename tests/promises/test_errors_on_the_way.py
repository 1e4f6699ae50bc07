"""What others raise, refuse or return on a timer's way: it is reported, later timers run, every task is accounted for."""

import pytest
from erring import ADDS, CALLBACKS, EXECUTORS, REPORTERS, STARTS, TASKS

MODULE = "import erring\nerring.{}({!r})\n"


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_executor_that_errs_costs_no_later_timer(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_executor", name)) == (0, "", "")


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("add", ADDS)
def test_a_thread_that_cannot_be_started_is_an_error_at_the_add_and_no_other(run_with_helpers, name, add):
    assert run_with_helpers(MODULE.format("without_thread", (name, add))) == (0, "", "")


@pytest.mark.parametrize("name", REPORTERS)
def test_an_error_in_the_report_of_an_error_stops_nothing(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_reporter", name)) == (0, "", "")


@pytest.mark.parametrize("name", TASKS)
def test_a_subclass_may_call_its_own_things_what_it_likes(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_task", name)) == (0, "", "")


@pytest.mark.parametrize("name", CALLBACKS)
def test_whatever_a_callback_raises_the_timer_goes_on(run_with_helpers, name):
    assert run_with_helpers(MODULE.format("with_callback", name)) == (0, "", "")
