#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains distributed_mnist --all_reduce with two workers on each of two hosts, which are network namespaces of a user
namespace: gradients are merged in shared memory on each host and over TCP between them."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BIN = os.environ.get("THALWEG_BIN", os.path.join(ROOT, "build", "release", "bin"))

HOSTS, PER_HOST = 2, 2


def ip(*arguments):
  subprocess.run(["ip"] + list(arguments), check=True)


class Worker:
  """A task on the host of its index."""

  def __init__(self, index, folder, *flags):
    workers = ",".join(f"10.78.0.{i // PER_HOST + 1}:{2222 + i}" for i in range(HOSTS * PER_HOST))
    self.lines, self.came = [], threading.Condition()
    self.process = subprocess.Popen(
        ["ip", "netns", "exec", f"host{index // PER_HOST}", os.path.join(BIN, "examples", "distributed_mnist"),
         "--all_reduce", f"--worker_hosts={workers}", "--job_name=worker", f"--task_index={index}",
         f"--checkpoint_dir={folder}", "--v=1", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
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
      self.came.wait_for(lambda: found() is not None or (self.lines and self.lines[-1][1] == "ended\n"), timeout)
      return found()

  def stop(self):
    self.process.kill()
    self.thread.join()
    self.process.wait()
    self.process.stdout.close()


class TwoHostsTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    ip("link", "add", "switch", "type", "bridge")
    ip("link", "set", "switch", "up")
    for i in range(HOSTS):
      ip("netns", "add", f"host{i}")
      ip("link", "add", f"cable{i}", "type", "veth", "peer", "name", "eth0", "netns", f"host{i}")
      ip("link", "set", f"cable{i}", "master", "switch", "up")
      ip("-n", f"host{i}", "addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0")
      ip("-n", f"host{i}", "link", "set", "eth0", "up")
      ip("-n", f"host{i}", "link", "set", "lo", "up")

  def setUp(self):
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    self.folder = folder.name

  def start(self, *flags):
    workers = [Worker(i, self.folder, *flags) for i in range(HOSTS * PER_HOST)]
    for worker in workers:
      self.addCleanup(worker.stop)
    return workers

  def test_a_job_learns_in_two_levels(self):
    for worker in self.start("--steps=150", "--require_accuracy=0.6"):
      self.assertEqual(worker.process.wait(timeout=200), 0, worker.text())
      self.assertRegex(worker.text(), r"Rank \d of 2 shares memory in group .*: OK")
      self.assertRegex(worker.text(), r"Rank \d of 4 is connected by TCP in group .*: OK")

  # Workers on the host of the one that is killed, and on the other one.
  def test_all_name_a_worker_that_is_killed(self):
    workers = self.start("--steps=1000000", "--on_lost_worker=end")
    for worker in workers:
      self.assertIsNotNone(worker.wait_for(r"Train step 1\d\d,"), worker.text())
    workers[3].stop()
    killed = time.monotonic()
    for worker in workers[:3]:
      ended = worker.wait_for("^ended")
      self.assertIsNotNone(ended, worker.text())
      print(f"a worker ended {ended - killed:.2f} s after another one was killed")
      self.assertNotEqual(worker.process.wait(), 0)
      self.assertRegex(worker.text(), r"(?s)AllReduce: a worker was lost.*/job:worker/replica:0/task:3")


if __name__ == "__main__":
  if "--in_namespace" not in sys.argv:
    inner = 'mount -t tmpfs none /run && mkdir /run/netns && exec "$@"'
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", inner, "sh",
                          sys.executable] + sys.argv + ["--in_namespace"])
  sys.argv.remove("--in_namespace")
  unittest.main()
