# SPDX-License-Identifier: Apache-2.0
"""Starts the programs of tests/programs/ on Thalweg's or TensorFlow's servers. Every task is a real process.

The client is the TensorFlow of the interpreter that runs this file.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest

from ports import free_ports

THALWEG = os.path.join(os.environ["THALWEG_BIN"], "thalweg")
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")

# A shell that runs the tests in the background lets them, and so the programs that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Process:
    """A program under `thalweg python` (or plain TensorFlow) with captured output."""

    def __init__(self, program, *args, thalweg=True, flags=(), env={}):
        command = [THALWEG, "python", "--python", sys.executable, *flags] if thalweg else [sys.executable]
        self._process = subprocess.Popen(
            command + [os.path.join(PROGRAMS, program)] + [str(a) for a in args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", **env),
            start_new_session=True)
        self._lines = []
        self._changed = threading.Condition()
        self.script_ended_at = self.ended_at = None  # time.time() of the script's end, and of its server's too
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.decode("utf-8", "replace"))
                self._changed.notify_all()
        self.ended_at = time.time()  # the last process that could write has ended

    def _watch(self):
        self._process.wait()
        self.script_ended_at = time.time()

    @property
    def output(self):
        with self._changed:
            return "".join(self._lines)

    def is_running(self):
        return self._process.poll() is None

    def wait_for(self, text, timeout=120):
        """Waits until the output contains `text`. Returns False on timeout or if the process has ended."""
        end = time.time() + timeout
        with self._changed:
            while not any(text in line for line in self._lines):
                if time.time() > end or self._process.poll() is not None:
                    return False
                self._changed.wait(1)
        return True

    def wait(self, timeout=180):
        code = self._process.wait(timeout)
        self._reader.join()
        self._watcher.join()
        return code

    def stop(self, how=signal.SIGTERM):
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(30)
        self._reader.join()
        self._watcher.join()
        self._process.stdout.close()

    def send_signal(self, number):
        self._process.send_signal(number)

    def interrupt(self):
        """Sends SIGINT to the script and everything that it has started, like Ctrl-C in a terminal."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self):
        """Kills the process and everything that it has started, which would keep its output open."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.stop(signal.SIGKILL)


class JobTest(unittest.TestCase):
    """Base class for tests of jobs; ends the processes that a test has started."""

    def setUp(self):
        self._processes = []

    def tearDown(self):
        for process in self._processes:
            process.kill()

    def start(self, program, *args, **kwargs):
        self._processes.append(Process(program, *args, **kwargs))
        return self._processes[-1]

    def assert_ends(self, process, text, code=0):
        try:
            ended_with = process.wait()
        except subprocess.TimeoutExpired:
            self.fail("does not end:\n" + process.output)
        self.assertEqual(ended_with, code, process.output)
        self.assertIn(text, process.output)

    def cluster(self, ps, workers):
        ports = ["localhost:%d" % port for port in free_ports(ps + workers)]
        return ["--ps_hosts=" + ",".join(ports[:ps]), "--worker_hosts=" + ",".join(ports[ps:])]

    def start_job(self, program, hosts, job, tasks, *args, **kwargs):
        return [self.start(program, *hosts, "--job_name=" + job, "--task_index=%d" % i, *args, **kwargs)
                for i in range(tasks)]
