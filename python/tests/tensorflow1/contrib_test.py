# SPDX-License-Identifier: Apache-2.0
"""Compares ops of tf.contrib with TensorFlow 1's own kernels."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from program_testlib import JobTest  # noqa: E402


class ContribTest(JobTest):

    def results(self, program, **how):
        process = self.start(program, **how)
        self.assert_ends(process, "RESULT end")
        return re.findall(r"^RESULT .*$", process.output, re.M)

    def assert_results_are_tensorflows(self, program, at_least):
        ours, theirs = self.results(program), self.results(program, thalweg=False)
        self.assertGreater(len(theirs), at_least)
        self.assertEqual(ours, theirs)

    def test_factorization(self):
        self.assert_results_are_tensorflows("contrib_factorization.py", 14)

    def test_images_lines_slices_zeros_and_trees(self):
        self.assert_results_are_tensorflows("contrib_rest.py", 90)


if __name__ == "__main__":
    unittest.main()
