# SPDX-License-Identifier: Apache-2.0
"""Looks at `thalweg top` and at the table of `thalweg run` on a real terminal (tmux)."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from observe_test import BIN, THALWEG, Job, wait_for  # noqa: E402


class Terminal:
    """A shell in a terminal of 120 columns and 30 lines."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.tmux("new-session", "-d", "-x", "120", "-y", "30", "bash", "--norc", "--noprofile")

    def tmux(self, *command):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", os.path.join(self.folder.name, "tmux"), *command],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout

    def type(self, *command):
        self.tmux("send-keys", "-l", shlex.join(command))
        self.tmux("send-keys", "Enter")

    def key(self, key):
        self.tmux("send-keys", "-l", key)

    def interrupt(self):
        self.tmux("send-keys", "C-c")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def close(self):
        self.tmux("kill-server")
        self.folder.cleanup()


class TerminalTest(unittest.TestCase):
    def setUp(self):
        self.terminal = Terminal()
        self.addCleanup(self.terminal.close)

    def find(self, pattern, what):
        return wait_for(lambda: re.search(pattern, self.terminal.screen()), what + " on the screen")

    def test_top_updates_in_place_until_it_is_interrupted(self):
        job = Job()
        self.addCleanup(job.stop)
        job.trains()
        self.terminal.type(THALWEG, "top", job.addresses["ps 0"], "--interval", "200ms")
        self.find(r"(?m)^worker 1 +up +\d+", "worker 1")
        pattern = r"(?m)^4 of 4 tasks answer; global step (\d+)"
        first = int(self.find(pattern, "the global step").group(1))
        wait_for(lambda: int(self.find(pattern, "the global step").group(1)) > first, "a later step")
        # The new table takes the place of the old one.
        self.assertEqual(len(re.findall(r"(?m)^TASK ", self.terminal.screen())), 1)
        self.terminal.interrupt()
        self.terminal.type("echo", "shell", "again")
        self.find(r"(?m)^shell again$", "the shell")

    def test_top_fits_the_terminal_and_has_views(self):
        job = Job("--is_sync")
        self.addCleanup(job.stop)
        job.trains()
        self.terminal.tmux("resize-window", "-x", "70", "-y", "6")
        self.terminal.type(THALWEG, "top", job.addresses["ps 0"], "--interval", "200ms")
        self.find(r"(?m)^\[t\]asks x: traffic e: events q: quit; lines 1-4 of \d+: j, k$", "the keys")
        lines = self.terminal.screen().rstrip("\n").split("\n")
        self.assertRegex(lines[0], r"^4 of 4 tasks answer")  # nothing has scrolled away or was wrapped
        self.assertLessEqual(len(lines), 6)
        self.assertLessEqual(max(map(len, lines)), 70)
        for _ in range(3):
            self.terminal.key("j")
        self.find(r"lines 4-7 of \d+", "the lines below")
        self.terminal.key("k")
        self.find(r"lines 3-6 of \d+", "the lines above")
        self.terminal.tmux("resize-window", "-x", "120", "-y", "40")
        self.terminal.key("x")
        self.find(r"(?m)^TASK +CALLS +PATH +BYTES/S", "the traffic")
        self.find(r"of variables on 2 parameter servers; the largest has", "the balance")
        self.find(r"(?m)^worker 1 +\d+ gradients accepted", "the gradients")
        self.find(r"(?m)^Gradients by age in steps:", "the staleness")
        self.terminal.key("t")
        self.find(r"(?m)^4 of 4 tasks answer.*\n(Nothing blocks|slow: )", "the findings above the tasks")
        self.terminal.key("e")
        self.find(r"No events: no step has failed", "the events")
        job.kill("worker 1")
        self.find(r"(?m)^\d\d:\d\d:\d\d ps 0, task lost: worker 1 does not answer any more", "the event")
        # What blocks the job is not cut off.
        self.terminal.tmux("resize-window", "-x", "60", "-y", "40")
        self.terminal.key("t")
        wait_for(lambda: re.search(r"\nstuck: worker 1 cannot be reached .* at %s " % job.addresses["worker 1"],
                                   re.sub(r"\n  +", " ", self.terminal.screen())), "the whole finding")
        self.terminal.key("q")
        self.terminal.type("echo", "shell", "again")
        self.find(r"(?m)^shell again$", "the shell")

    def test_the_table_of_run_shows_steps_and_a_stopped_worker(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.terminal.type(THALWEG, "run", "--ps", "1", "--workers", "2", "--",
                           os.path.join(BIN, "examples", "distributed_mnist"), "--steps=100000000",
                           "--checkpoint_dir=" + folder.name)
        pattern = r"(?m)^worker 0 +running +(\d+) steps +[\d.]+ steps/s +loss"
        first = int(self.find(pattern, "worker 0").group(1))
        wait_for(lambda: int(self.find(pattern, "worker 0").group(1)) > first, "a later step")
        screen = self.terminal.screen()
        for name in ("ps 0", "worker 0", "worker 1"):
            self.assertEqual(len(re.findall("(?m)^%s +running " % name, screen)), 1, screen)

        page = re.search(r"(?m)^ps 0 +running .*(http://localhost:\d+/)", screen).group(1)
        with urllib.request.urlopen(page + "status.json", timeout=10) as reply:
            pids = {task["name"]: task["pid"] for task in json.load(reply)["tasks"]}
        os.kill(pids["worker 1"], signal.SIGSTOP)
        self.find(r"(?m)^worker 1 +not answering for \d+ s", "the stopped worker")
        # Warnings stay above the table, which stays in one piece.
        self.find(r"(?m)^ps 0 +\| W\d{4} .*job:worker/replica:0/task:1 does not answer(.*\n)+?ps 0 +running .*\nworker 0 +running .*\nworker 1 +not",
                  "the warning above the table")
        os.kill(pids["worker 1"], signal.SIGCONT)
        self.find(r"(?m)^worker 1 +running", "the worker that goes on")
        self.terminal.interrupt()
        wait_for(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids.values()), "end of all tasks")
        # The terminal's echo of the key does not shift the lines.
        self.find(r"(?m)^run +\| Interrupt: passed on", "the signal")
        self.terminal.type("echo", "shell", "again")
        self.find(r"(?m)^shell again$", "the shell")


if __name__ == "__main__":
    unittest.main()
