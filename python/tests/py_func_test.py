# SPDX-License-Identifier: Apache-2.0
"""Functions in Python that graphs call (tf.py_func and its kin), under `thalweg python`."""

import re
import signal
import subprocess
import unittest

import numpy as np
import tensorflow as tf
from ports import free_ports
from program_testlib import JobTest, THALWEG

v1 = tf.compat.v1


class PyFuncTest(JobTest):

    def results(self, **how):
        process = self.start("py_func_results.py", **how)
        self.assert_ends(process, "RESULT end")
        return re.findall(r"^RESULT .*$", process.output, re.M)

    def test_results_and_errors_are_tensorflows(self):
        ours, theirs = self.results(), self.results(thalweg=False)
        self.assertGreater(len(theirs), 80)
        self.assertEqual(ours, theirs)

    def test_functions_wait_nest_and_run_side_by_side(self):
        for part, expected in (("nested", ["nested 70.0"]), ("side_by_side", ["side by side 20", "in one step 6"]),
                               ("given_up", ["deadline True True", "closed True", "afterwards 1"]),
                               ("busy_at_the_end", ["first [0, 1]", "stuck"])):
            with self.subTest(part=part):
                process = self.start("py_func_waits.py", "--part=" + part)
                self.assert_ends(process, "end")
                for text in expected:
                    self.assertIn(text, process.output)

    def test_sessions_without_a_target(self):
        process = self.start("py_func_waits.py", "--part=sessions", flags=["--sessions"])
        self.assert_ends(process, "sessions 5")

    def test_a_function_runs_in_the_script_of_its_task(self):
        hosts = self.cluster(1, 2)
        first, second = self.start_job("py_func_tasks.py", hosts, "worker", 2)
        self.assertTrue(second.wait_for("waits"), first.output + second.output)
        second.stop(signal.SIGKILL)
        self.assert_ends(first, "unavailable: ")
        self.assertIn("the function of 1", first.output)
        self.assertIn("unknown: True", first.output)

    def test_a_server_without_a_script(self):
        port, = free_ports(1)
        server = subprocess.Popen([THALWEG, "server", "--cluster", "worker|localhost:%d" % port, "--job_name=worker"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.assertIn(b"Started server", server.stdout.readline())
            with tf.Graph().as_default():
                call = v1.py_func(lambda x: np.sinh(x), [tf.constant(1.0)], tf.float32, name="sinh_of_one")
                one = tf.constant(1)
                with v1.Session("grpc://localhost:%d" % port) as session:
                    with self.assertRaisesRegex(tf.errors.FailedPreconditionError,
                                                "(?s)sinh_of_one.*pyfunc_.*thalweg python"):
                        session.run(call)
                    self.assertEqual(session.run(one), 1)
        finally:
            server.kill()
            server.communicate()


if __name__ == "__main__":
    unittest.main()
