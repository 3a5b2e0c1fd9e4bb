# SPDX-License-Identifier: Apache-2.0
"""A sample of the catalogue on Thalweg's servers; catalogue.py runs all of it, on TensorFlow's servers as well."""

import os
import tempfile
import unittest

from catalogue import CATALOGUE, Run, check, table_row, write_table


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


class TableTest(unittest.TestCase):

    def test_a_table_replaces_the_one_before(self):
        entry, ours, theirs = CATALOGUE["softmax, one worker"], Run(), Run()
        ours.results, theirs.results, ours.ending = {"accuracy": 0.5}, {"accuracy": 1.0}, 0.25
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.md")
            with open(path, "w") as file:
                file.write("# Title\n\n## Before\n\ntext\n")
            write_table(path, [table_row("a", entry, ours, None, [])])
            with open(path, "a") as file:
                file.write("\n## After\n\nmore\n")
            write_table(path, [table_row("b", entry, ours, theirs, ["a problem"])])
            with open(path) as file:
                text = file.read()
        self.assertTrue(text.startswith("# Title\n\n## Before\n\ntext\n\n## Programs\n"), text)
        self.assertTrue(text.endswith(
            "| b | `softmax_supervisor.py` | 1 ps, 1 worker | accuracy 1 | accuracy 0.5 | no | 0.2 s |\n"
            "\n## After\n\nmore\n"), text)
        self.assertEqual(text.count("## Programs"), 1)


if __name__ == "__main__":
    unittest.main()
