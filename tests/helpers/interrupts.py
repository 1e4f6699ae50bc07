"""A KeyboardInterrupt at each line of some code in turn."""

import linecache
import sys

MAX_LINES = 2000


class LineInterrupt(KeyboardInterrupt):
    """The interrupt that this module raises."""


class LineTracer:
    """A trace function that raises LineInterrupt before the n-th line at which CPython could handle a signal."""

    def __init__(self, number, files):
        self.left = number
        self.files = files

    def trace_call(self, frame, event, _):
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        entered = set()  # lines of `with` statements whose block is running
        previous = ""

        def trace_line(frame, event, _):
            nonlocal previous
            if event == "line":
                source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
                if self.can_interrupt(source, previous, entered, frame.f_lineno):
                    self.left -= 1
                    if self.left == 0:
                        raise LineInterrupt
                previous = source
            return trace_line

        return trace_line

    @staticmethod
    def can_interrupt(source, previous, entered, line):
        # CPython handles no signal between a `del` of an item and the next line, nor at a `try:`. A tracer also sees
        # the line of a `with` when its block ends, where no signal is handled either.
        if previous.startswith("del ") or source.startswith("try:"):
            return False
        if source.startswith("with "):
            if line in entered:
                entered.remove(line)
                return False
            entered.add(line)
        return True


def interrupt_at_line(number, function, files):
    """Call function() and interrupt it before its n-th line of these files (a tuple of path suffixes).

    Returns:
        Whether that line was reached, and the result of function() or None.
    """
    tracer = LineTracer(number, files)
    before = sys.gettrace()
    sys.settrace(tracer.trace_call)
    try:
        result = function()
    except LineInterrupt:
        result = None
    finally:
        sys.settrace(before)
    return tracer.left <= 0, result


def interrupt_each_line(scenario, files):
    """Run scenario() once for each line, and interrupt it there. Return the number of lines.

    A scenario is a generator function. It yields the function to interrupt, receives its result, and then checks the
    consequences.
    """
    number = 0
    reached = True
    while reached:
        number += 1
        steps = scenario()
        reached, result = interrupt_at_line(number, next(steps), files)
        try:
            steps.send(result)
        except StopIteration:
            pass
        except BaseException as error:
            error.add_note(f"interrupted at line {number} of the scenario")
            raise
        assert number < MAX_LINES, "the scenario does not end"
    return number
