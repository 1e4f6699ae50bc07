"""Exceptions from outside, as PyThreadState_SetAsyncExc raises them in another thread."""

import ctypes
import linecache
import sys
import threading

from interrupts import LineTracer


class Strike(BaseException):
    """Raised in a thread from outside."""


def strike(ident):
    """Raise Strike in a thread as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Strike))


def take_back_strike(ident):
    """Undo a strike() that has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), None)


class Striker:
    """Raises Strike at the n-th line of some code that the threads run, and once more after on_error.

    Args:
        line: The number of the line, from 1 on.
        folder: A part of the path of the code.
        is_mine: is_mine(thread): the thread is to be struck.
    """

    def __init__(self, line, folder, is_mine):
        self.line = line
        self.folder = folder
        self.is_mine = is_mine
        self.strikes = 0
        self.reported = []

    def enter(self, frame, event, arg):
        """Trace a new frame: the function for sys.settrace."""
        if self.folder not in frame.f_code.co_filename or not self.is_mine(threading.current_thread()):
            return None
        entered = set()
        previous = ""

        def step(frame, event, arg):
            nonlocal previous
            if event == "line":
                source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
                self.line -= LineTracer.can_interrupt(source, previous, entered, frame.f_lineno)
                previous = source
                if self.line == 0:
                    self.line -= 1
                    self.strikes += 1
                    raise Strike  # this also ends the tracing
            return step

        return step

    def on_error(self, source, error):
        """Strike again, once."""
        self.reported.append(source)
        if self.strikes == 1:
            self.line = 1
            sys.settrace(self.enter)
