#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains distributed_mnist --all_reduce in real processes, and kills one of them."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BIN = os.environ.get("THALWEG_BIN", os.path.join(ROOT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))
from ports import free_ports  # noqa: E402

WORKERS = 3


class Worker:
  """A task whose lines are kept with the time at which they came."""

  def __init__(self, hosts, index, folder, *flags):
    self.lines = []
    self.came = threading.Condition()
    self.process = subprocess.Popen(
        [os.path.join(BIN, "examples", "distributed_mnist"), "--all_reduce", "--worker_hosts=" + ",".join(hosts),
         "--job_name=worker", f"--task_index={index}", f"--checkpoint_dir={folder}", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    self.thread = threading.Thread(target=self.read)
    self.thread.start()

  def read(self):
    for line in self.process.stdout:
      with self.came:
        self.lines.append((time.monotonic(), line))
        self.came.notify_all()
    with self.came:
      self.lines.append((time.monotonic(), "ended\n"))
      self.came.notify_all()

  def text(self):
    with self.came:
      return "".join(line for _, line in self.lines)

  def wait_for(self, pattern, timeout=120):
    """When a line with the pattern came; None if it did not."""
    def found():
      return next((at for at, line in self.lines if re.search(pattern, line)), None)
    with self.came:
      self.came.wait_for(lambda: found() is not None or self.process.poll() is not None, timeout)
      return found()

  def kill(self):
    self.process.kill()
    self.thread.join()
    self.process.wait()
    self.process.stdout.close()


class AllReduceTest(unittest.TestCase):

  def test_a_job_learns(self):  # by chance: 0.1
    with tempfile.TemporaryDirectory() as folder:
      result = subprocess.run([os.path.join(BIN, "thalweg"), "run", "--ps=0", "--workers=2", "--",
                               os.path.join(BIN, "examples", "distributed_mnist"), "--all_reduce", "--steps=200",
                               "--require_accuracy=0.7", f"--checkpoint_dir={folder}"],
                              capture_output=True, text=True, timeout=300)
      self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
      self.assertRegex(result.stdout, r"test accuracy \d\d\.\d\d %")
      self.assertIn("model.ckpt-200.index", os.listdir(folder))

  # The others name the worker that was killed. They wait for it, and go on from the checkpoint when it is back.
  def test_a_worker_is_killed_and_comes_back(self):
    hosts = [f"localhost:{port}" for port in free_ports(WORKERS)]
    flags = ("--steps=600", "--save_steps=50")
    with tempfile.TemporaryDirectory() as folder:
      workers = [Worker(hosts, i, folder, *flags) for i in range(WORKERS)]
      try:
        for worker in workers:
          self.assertIsNotNone(worker.wait_for(r"Train step 1\d\d,"), worker.text())
        workers[2].process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        for worker in workers[:2]:
          # The message names the task in its first line or the second one.
          lost = worker.wait_for(r"A task was lost")
          self.assertIsNotNone(lost, worker.text())
          self.assertIsNotNone(worker.wait_for(r"/job:worker/(replica:0/)?task:2"), worker.text())
          print(f"a worker's step ended {lost - killed:.2f} s after another worker was killed")
        workers[2].kill()
        workers[2] = Worker(hosts, 2, folder, *flags)
        for worker in workers:
          self.assertEqual(worker.process.wait(timeout=200), 0, worker.text())
        self.assertIn("model.ckpt-600.index", os.listdir(folder))
      finally:
        for worker in workers:
          worker.kill()


if __name__ == "__main__":
  unittest.main()
