"""A KeyboardInterrupt at each line of some code in turn."""

import linecache
import sys


class Interrupted(KeyboardInterrupt):
    """The one that is raised here."""


def interrupt_at_line(number, function, files):
    """Calls function(), and raises Interrupted in this thread before its `number`th line of one of the files (ends of
    their paths). Returns (whether it came to that line, function()'s result or None)."""
    left = [number]

    def trace_call(frame, event, _):
        if not frame.f_code.co_filename.endswith(files):
            return None
        entered = set()
        before = [""]

        def trace(frame, event, _):
            if event == "line":
                # A tracer is told of a `with` again when its block is left, before it is: no signal is looked at there.
                # Nor is it between a `del` of an item of a dict and what follows, nor at a `try:`.
                source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
                is_with = source.startswith("with ")
                follows_del = before[0].startswith("del ")
                before[0] = source
                if follows_del or source.startswith("try:"):
                    return trace
                if is_with and frame.f_lineno in entered:
                    entered.remove(frame.f_lineno)
                    return trace
                if is_with:
                    entered.add(frame.f_lineno)
                left[0] -= 1
                if left[0] == 0:
                    raise Interrupted
            return trace

        return trace

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        result = function()
    except Interrupted:
        result = None
    finally:
        sys.settrace(before)
    return left[0] <= 0, result


def each_line(scenario, files):
    """Runs scenario() once for each line: a generator function, which yields what is to be interrupted, is sent what
    that returned, and then checks what became of it. Returns how many lines there were."""
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
            error.add_note(f"interrupted at line {number} of it")
            raise
        assert number < 2000, "it never comes to its end"
    return number
