"""Runs Twisted's own tests with the reactor on the wheel.

    python run_trial.py FOLDER TEST ...

Tests that use the reactor of the process use it, and tests that are made for each kind of reactor are made for it.
Prints one line of JSON: how many tests ran, how many calls they made, and what did not pass, and why.
"""

import json
import sys

import hwheel.twisted

REACTOR = "hwheel.twisted.WheelReactor"


calls = 0


def count_calls():
    """That the wheel was at work at all."""
    call_later = hwheel.twisted.WheelReactor.callLater

    def counted(self, *args, **kwargs):
        global calls
        calls += 1
        return call_later(self, *args, **kwargs)

    hwheel.twisted.WheelReactor.callLater = counted


def main(folder, names):
    count_calls()
    hwheel.twisted.install()
    from twisted.internet.test.reactormixins import ReactorBuilder
    from twisted.trial.reporter import TestResult
    from twisted.trial.runner import TestLoader, TrialRunner

    ReactorBuilder._reactors = [REACTOR]
    results = []

    class Reporter(TestResult):
        def __init__(self, *args, **kwargs):
            super().__init__()
            self.shouldStop = False
            results.append(self)

        def done(self):
            pass

    suite = TestLoader().loadByNames(names, recurse=True)
    TrialRunner(Reporter, workingDirectory=folder).run(suite)
    (result,) = results
    wrong = [(test.id(), str(why)) for test, why in [*result.errors, *result.failures]]
    print(json.dumps({"ran": result.testsRun, "skipped": len(result.skips), "calls": calls, "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
