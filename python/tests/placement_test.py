# SPDX-License-Identifier: Apache-2.0
"""Nodes that leave it open where they run go to the same devices as in TensorFlow, of the version that is the client."""

import re
import unittest

from program_testlib import JobTest


class PlacementTest(JobTest):

    def devices(self, **how):
        process = self.start("placement.py", *self.cluster(1, 2), **how)
        self.assert_ends(process, "RESULT")
        return re.findall(r"^RESULT .*$", process.output, re.M)

    def test_devices_are_tensorflows(self):
        theirs = self.devices(thalweg=False)
        self.assertEqual(len(theirs), 12)
        self.assertEqual(self.devices(), theirs)


if __name__ == "__main__":
    unittest.main()
