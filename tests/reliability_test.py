# SPDX-License-Identifier: Apache-2.0
"""Checks what docs/reliability.md and docs/cluster.md say against the code."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()
POINTS = re.compile(r'^    \{"([\w.]+)", "(.+)", (true|false)\},$', re.MULTILINE)


def fail_points():
    """The table of fail points in the code: [(name, place, can fail)]."""
    source = (ROOT / "thalweg" / "base" / "faults" / "fail_point.cc").read_text()
    return [(name, place, can_fail == "true") for name, place, can_fail in POINTS.findall(source)]


class FailPointsTest(unittest.TestCase):
    def test_the_document_lists_them(self):
        rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", RELIABILITY, re.MULTILINE)
        self.assertEqual(rows, [(name, place) for name, place, _ in fail_points()])
        cannot = re.search(r"^`fail` is not possible at (.+)\.$", RELIABILITY, re.MULTILINE).group(1)
        self.assertEqual(re.findall(r"`([\w.]+)`", cannot), [name for name, _, can_fail in fail_points() if not can_fail])

    def test_the_code_passes_every_one_as_it_says(self):
        places = {}
        for path in (ROOT / "thalweg").rglob("*.cc"):
            if not re.search(r"_test(lib)?\.cc$", path.name):
                for how, name in re.findall(r'\b(FailPoint|PassFailPoint)\("([\w.]+)"', path.read_text()):
                    places.setdefault(name, set()).add(how)
        self.assertEqual(places, {name: {"FailPoint" if can_fail else "PassFailPoint"}
                                  for name, _, can_fail in fail_points()})


if __name__ == "__main__":
    unittest.main()
