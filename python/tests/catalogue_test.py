# SPDX-License-Identifier: Apache-2.0
"""A sample of the catalogue on Thalweg's servers; catalogue.py runs all of it, on TensorFlow's servers as well."""

import collections
import os
import re
import tempfile
import time
import unittest
from unittest import mock

from catalogue import CATALOGUE, Run, Runs, check, late_ends, problems_of, show_tensorflow, write_table
from program_testlib import Process


class CatalogueTest(unittest.TestCase):

    def check(self, *names):
        for name in names:
            with self.subTest(program=name):
                _, _, problems = check(CATALOGUE[name], with_tensorflow=False)
                self.assertEqual(problems, [], "\n".join(problems))

    def test_synchronous_training_whose_workers_leave_one_by_one(self):
        self.check("synchronous, a worker leaves early", "synchronous, without extra tokens",
                   "synchronous, the chief leaves first", "synchronous, a worker without batches",
                   "synchronous, Supervisor, uneven", "synchronous, Supervisor that stops twice")

    def test_programs(self):
        self.check("softmax, a worker that joins late", "queues of examples, Coordinator", "A3C, threads",
                   "in-graph replication")


class EndingTest(unittest.TestCase):

    def test_a_task_that_outlives_the_last_worker_too_long_is_a_problem(self):
        Ended = collections.namedtuple("Ended", "ended_at")
        tasks = [("ps", 0, Ended(104.9)), ("worker", 0, Ended(100.0)), ("evaluator", 0, Ended(105.5))]
        self.assertEqual(late_ends(tasks, 100.0),
                         ["evaluator 0 ended 5.5 s after the last worker, expected at most 5 s"])

    def test_the_end_of_a_program_is_measured_from_its_last_worker(self):
        """The server of a script in Python may outlive it: the task has ended when both have."""
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "leaves_a_child.py")
            with open(script, "w") as file:
                file.write("import subprocess, sys\n"
                           "subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'],"
                           " stdin=open(sys.argv[1]))\n")
            os.mkfifo(os.path.join(folder, "held"))
            held = os.open(os.path.join(folder, "held"), os.O_RDWR)
            process = Process(script, os.path.join(folder, "held"), thalweg=False)
            while process.script_ended_at is None:
                self.assertIsNone(process.ended_at)
                time.sleep(0.01)
            os.write(held, b"x")
            os.close(held)
            self.assertEqual(process.wait(), 0)
            self.assertGreaterEqual(process.ended_at, process.script_ended_at)
            process.kill()


class RunsTest(unittest.TestCase):

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self._path = os.path.join(self._folder.name, "runs.json")

    def run_once(self, where, outcome):
        calls = []
        result = Runs(self._path).get_or_run("softmax, one worker", where, lambda: calls.append(1) or outcome)
        return result, len(calls)

    def test_runs_without_problems_are_kept(self):
        good, bad = Run({"accuracy": 1.0}, seconds=3.0, ending=0.5), Run(problems=["it hangs"])
        self.assertEqual(self.run_once("tensorflow", bad)[1], 1)
        self.assertEqual(self.run_once("tensorflow", good)[1], 1)
        kept, calls = self.run_once("tensorflow", bad)
        self.assertEqual((kept.results, kept.problems, kept.seconds, kept.ending, calls),
                         ({"accuracy": 1.0}, [], 3.0, 0.5, 0))
        self.assertEqual(self.run_once("thalweg", good)[1], 1)

    def test_a_changed_program_runs_again(self):
        good, entry = Run({"accuracy": 1.0}), CATALOGUE["softmax, one worker"]
        self.assertEqual(self.run_once("thalweg", good)[1], 1)
        with mock.patch.dict(CATALOGUE, {"softmax, one worker": entry._replace(args=("--steps=3",))}):
            self.assertEqual(self.run_once("thalweg", good)[1], 1)


class TableTest(unittest.TestCase):

    def row(self, name, theirs, problems=()):
        ours = Run({"accuracy": 0.5}, ending=0.25)
        return name, CATALOGUE["softmax, one worker"], ours, theirs, list(problems)

    def test_a_table_replaces_the_one_before(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.md")
            with open(path, "w") as file:
                file.write("# Title\n\n## Before\n\ntext\n")
            write_table(path, [self.row("a", None)])
            with open(path, "a") as file:
                file.write("\n## After\n\nmore\n")
            write_table(path, [self.row("b", Run({"accuracy": 1.0}), ["a problem"])])
            with open(path) as file:
                text = file.read()
        self.assertTrue(text.startswith("# Title\n\n## Before\n\ntext\n\n## Programs\n"), text)
        self.assertTrue(text.endswith(
            "| b | `softmax_supervisor.py` | 1 ps, 1 worker | accuracy 1 | accuracy 0.5 | no | 0.2 s |\n"
            "\n## After\n\nmore\n"), text)
        self.assertEqual(text.count("## Programs"), 1)
        self.assertIn("0 of 1 programs pass. On TensorFlow's servers 1 ran, and the workers of 1 of them ended.", text)

    def test_programs_that_do_not_end_or_did_not_run_are_told_apart(self):
        hangs = CATALOGUE["synchronous, a worker leaves early"]
        self.assertEqual(show_tensorflow(hangs, None), "not run: " + hangs.note)
        self.assertEqual(show_tensorflow(hangs, Run(problems=["worker 0 does not end", "---- long output"])),
                         "worker 0 does not end: " + hangs.note)
        self.assertEqual(show_tensorflow(hangs, Run({"batches": 30.0})), "batches 30")
        self.assertEqual(problems_of(hangs, Run({"batches": 30.0}), Run(problems=["worker 0 does not end"])), [])
        self.assertEqual(show_tensorflow(CATALOGUE["softmax, one worker"], None), "not run")

    def test_the_page_has_a_row_for_every_program(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(root, "docs", "compatibility.md")) as file:
            rows = re.findall(r"^\| ([^|]*) \| `([^`]*)` \|", file.read(), re.M)
        self.assertEqual(rows, [(name, " ".join((entry.script,) + entry.args)) for name, entry in CATALOGUE.items()],
                         "run make test-programs ARGS=\"--resume=FILE --table=docs/compatibility.md\"")


if __name__ == "__main__":
    unittest.main()
