# SPDX-License-Identifier: Apache-2.0
"""A sample of the catalogue on Thalweg's servers; catalogue.py runs all of it, on TensorFlow's servers as well."""

import unittest

from catalogue import CATALOGUE, check


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


if __name__ == "__main__":
    unittest.main()
