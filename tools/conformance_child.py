# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of one TensorFlow test file in this process, for tools/conformance.

The argument is a JSON object: the file, the tests to run (null: all), the tests to skip, the report to append to, and
the time limit of one test in seconds. Each test appends a line when it begins and when it ends, so that the caller knows
which test was running when the process died. If a test exceeds the limit, the process exits with code 3.
"""

import importlib.util
import json
import os
import sys
import threading
import unittest

TIMED_OUT = 3


class Report(unittest.TestResult):
    """Appends the beginning and the result of every test to a file."""

    def __init__(self, path, timeout, steps):
        super().__init__()
        self._out = open(path, "a", encoding="utf-8")
        self._timeout = timeout
        self._steps = steps
        self._failure = None

    def _write(self, test, status, error="", steps=0):
        self._out.write(json.dumps({"id": name_of(test), "status": status, "error": error, "steps": steps}) + "\n")
        self._out.flush()

    def startTest(self, test):
        super().startTest(test)
        self._failure = None
        self._steps.clear()
        self._timer = threading.Timer(self._timeout, os._exit, [TIMED_OUT])
        self._timer.daemon = True
        self._timer.start()
        self._write(test, "running")

    def stopTest(self, test):
        self._timer.cancel()
        status, error = self._failure or ("pass", "")
        self._write(test, status, error, len(self._steps))
        super().stopTest(test)

    def _failed(self, status, err):
        lines = str(err[1]).strip().splitlines()
        self._failure = status, f"{err[0].__name__}: {lines[0][:300] if lines else ''}"

    def addError(self, test, err):
        super().addError(test, err)
        self._failed("error", err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed("fail", err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed("fail", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._failure = "skip", reason


def name_of(test):
    return ".".join(test.id().split(".")[-2:])


def count_steps():
    """Returns a list to which every session step appends an element."""
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    sys.path.append(os.path.dirname(tf.__file__.split("/_api/")[0]) + "/tensorflow")  # some files import tsl
    from tensorflow.python.client import session
    steps = []
    run = session.BaseSession._do_call

    def do_call(self, fn, *args):
        steps.append(1)
        return run(self, fn, *args)

    session.BaseSession._do_call = do_call
    return steps


def all_tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from all_tests(test)
        else:
            yield test


def main():
    request = json.loads(sys.argv[1])
    sys.argv[1:] = []
    steps = count_steps()
    from absl import flags
    flags.FLAGS(sys.argv[:1])
    spec = importlib.util.spec_from_file_location("tested_file", request["file"])
    module = importlib.util.module_from_spec(spec)
    sys.modules["tested_file"] = module
    spec.loader.exec_module(module)
    skip = set(request["skip"])
    only = None if request["only"] is None else set(request["only"])
    chosen = [test for test in all_tests(unittest.defaultTestLoader.loadTestsFromModule(module))
              if name_of(test) not in skip and (only is None or name_of(test) in only)]
    unittest.TestSuite(chosen).run(Report(request["report"], request["timeout"], steps))


if __name__ == "__main__":
    main()
