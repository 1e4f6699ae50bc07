"""Run Twisted's own tests with the reactor on the wheel.

    python run_trial.py FOLDER TEST ...

Tests that use the reactor of the process get the wheel's, and so do tests that exist for each kind of reactor. Prints
one line of JSON: the number of tests, the number of delayed calls, and the failures.
"""

import json
import sys

import hwheel.twisted

REACTOR = "hwheel.twisted.WheelReactor"


calls = 0


def count_calls():
    """Count the delayed calls, to prove that the wheel was used."""
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
    failed = [(test.id(), str(error)) for test, error in [*result.errors, *result.failures]]
    print(json.dumps({"ran": result.testsRun, "skipped": len(result.skips), "calls": calls, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
