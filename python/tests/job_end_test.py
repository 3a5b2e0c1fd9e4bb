# SPDX-License-Identifier: Apache-2.0
"""Tests how Thalweg's parameter servers end when TensorFlow's own workers use them.

The worker is a plain TensorFlow program that does not know about Thalweg.
"""

import os
import subprocess
import sys
import unittest

from ports import free_ports

THALWEG = os.path.join(os.environ["THALWEG_BIN"], "thalweg")

WORKER = """
import sys
import tensorflow as tf
tf = getattr(tf, "compat", tf).v1
tf.disable_eager_execution()
ps, worker, ends = sys.argv[1:]
server = tf.train.Server({"ps": [ps], "worker": [worker]}, job_name="worker", task_index=0)
print("ready", flush=True)
with tf.device("/job:ps/task:0"):
    v = tf.Variable(0.0)
    update = v.assign_add(1.0)
session = tf.Session(server.target)
session.run(tf.global_variables_initializer())
for _ in range(3):
    print("value", session.run(update), flush=True)
if ends == "killed":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
session.close()
print("closed", flush=True)
if ends == "stays":
    sys.stdin.read()
"""


class JobEndTest(unittest.TestCase):

    def setUp(self):
        ports = free_ports(2)
        self._ps, self._worker = ["localhost:%d" % port for port in ports]
        self._processes = []

    def tearDown(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start_ps(self, *flags):
        ps = subprocess.Popen(
            [THALWEG, "server", "--cluster", "ps|%s,worker|%s" % (self._ps, self._worker), "--job_name", "ps",
             "--task_index", "0", "--idle_after", "1s"] + list(flags),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._processes.append(ps)
        self.assertTrue(any(b"Started server" in line for line in iter(ps.stdout.readline, b"")), "the server ended")
        return ps

    def start_worker(self, ends):
        worker = subprocess.Popen([sys.executable, "-c", WORKER, self._ps, self._worker, ends], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2"))
        self._processes.append(worker)
        return worker

    def test_leaves_with_code_0_when_the_workers_have_closed_their_sessions(self):
        for flags in [], ["--orphan_after", "90s"]:
            ps = self.start_ps(*flags)
            worker = self.start_worker("ends")
            self.assertIn(b"value 3.0\nclosed\n", worker.communicate(timeout=120)[0])
            output = ps.communicate(timeout=60)[0].decode()
            self.assertEqual(ps.returncode, 0, output)
            self.assertIn("all sessions are closed, and no call has arrived for 1s", output)

    def test_stays_for_a_worker_that_is_there_or_was_killed(self):
        ps = self.start_ps()
        stays = self.start_worker("stays")
        while stays.stdout.readline() != b"closed\n":
            self.assertIsNone(stays.poll())
        with self.assertRaises(subprocess.TimeoutExpired):
            ps.wait(timeout=3)
        stays.kill()
        stays.communicate()
        self.assertEqual(ps.wait(timeout=60), 0)

        killed = self.start_worker("killed")
        self.assertEqual(killed.stdout.readline(), b"ready\n")
        ps = self.start_ps("--orphan_after", "4s")
        killed.communicate(timeout=120)
        output = ps.communicate(timeout=60)[0].decode()
        self.assertEqual(ps.returncode, 132, output)  # it was waited for


if __name__ == "__main__":
    unittest.main()
