#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains distributed_mnist --all_reduce in real processes, and kills one of them."""

import contextlib
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

  # The folder and the workers of a job, of which each has taken a hundred steps.
  @contextlib.contextmanager
  def job(self, *flags):
    hosts = [f"localhost:{port}" for port in free_ports(WORKERS)]
    with tempfile.TemporaryDirectory() as folder:
      def start(index):
        return Worker(hosts, index, folder, *flags)
      workers = [start(i) for i in range(WORKERS)]
      try:
        for worker in workers:
          self.assertIsNotNone(worker.wait_for(r"Train step 1\d\d,"), worker.text())
        yield folder, workers, start
      finally:
        for worker in workers:
          worker.kill()

  def test_the_others_go_on_without_a_killed_worker(self):
    flags = ("--steps=600", "--save_steps=50", "--on_lost_worker=go_on", "--lost_after=1s")
    with self.job(*flags) as (folder, workers, _):
      workers[2].kill()
      for worker in workers[:2]:
        self.assertEqual(worker.process.wait(timeout=200), 0, worker.text())
        self.assertIsNotNone(worker.wait_for("2 of 3 workers take part"), worker.text())
      self.assertIn("model.ckpt-600.index", os.listdir(folder))

  def test_a_job_ends_well_without_a_worker_that_was_killed(self):
    with tempfile.TemporaryDirectory() as folder:
      result = subprocess.run([os.path.join(BIN, "thalweg"), "run", "--ps=0", "--workers=3", "--max_lost_workers=1",
                               "--faults=kill=worker:1@step:100", "--",
                               os.path.join(BIN, "examples", "distributed_mnist"), "--all_reduce", "--steps=600",
                               "--on_lost_worker=go_on", "--lost_after=1s", f"--checkpoint_dir={folder}"],
                              capture_output=True, text=True, timeout=300)
      self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
      self.assertIn("the others go on (1 of at most 1 lost workers)", result.stdout + result.stderr)
      self.assertIn("model.ckpt-600.index", os.listdir(folder))

  def test_a_killed_worker_takes_part_again(self):
    flags = ("--steps=1000000", "--save_steps=50", "--on_lost_worker=go_on", "--lost_after=1s")
    with self.job(*flags) as (_, workers, start):
      workers[1].kill()
      for worker in (workers[0], workers[2]):
        self.assertIsNotNone(worker.wait_for("2 of 3 workers take part"), worker.text())
      workers[1] = start(1)
      self.assertIsNotNone(workers[1].wait_for("Train step"), workers[1].text())
      self.assertIn("3 of 3 workers take part", workers[1].text())
      # The chief: the others wait for it.
      workers[0].kill()
      workers[0] = start(0)
      self.assertIsNotNone(workers[0].wait_for("Train step"), workers[0].text())
      self.assertIn("3 of 3 workers take part", workers[0].text())

  def test_a_killed_worker_ends_the_training_if_asked_to(self):
    with self.job("--steps=1000000", "--on_lost_worker=end") as (_, workers, _):
      workers[2].kill()
      for worker in workers[:2]:
        self.assertNotEqual(worker.process.wait(timeout=60), 0, worker.text())
        worker.thread.join()
        self.assertRegex(worker.text(), r"(?s)AllReduce: a worker was lost, which ends the training"
                                        r".*/job:worker/replica:0/task:2")


if __name__ == "__main__":
  unittest.main()
