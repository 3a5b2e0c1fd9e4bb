# SPDX-License-Identifier: Apache-2.0
"""Compares the resampler and matrix factorization of tf.contrib with TensorFlow 1's own kernels."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from program_testlib import JobTest  # noqa: E402


class ContribFactorizationTest(JobTest):

    def results(self, **how):
        process = self.start("contrib_factorization.py", **how)
        self.assert_ends(process, "RESULT end")
        return re.findall(r"^RESULT .*$", process.output, re.M)

    def test_results_are_tensorflows(self):
        ours, theirs = self.results(), self.results(thalweg=False)
        self.assertGreater(len(theirs), 14)
        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    unittest.main()
