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


# Which test shows each row of the tables under "Failures" in docs/cluster.md.
FAILURES = {
    "a task has not started yet": "ClusterTest.ASessionWaitsForTasksThatHaveNotStarted",
    "a task has left": "ClusterTest.ATaskThatOthersHaveSeenLeaveIsNotWaitedFor",
    "a task dies": "KillTest.AClientHearsOfItAndTheClusterGoesOn",
    "a task hangs, or its machine is cut off": "HangTest.StepsEndByTheirDeadlineOrWhenTheTaskIsTakenForDead",
    "a task that hung resumes": "FencingTest.AStepThatWasGivenUpIsNotAppliedLater",
    "a task was restarted": "MonitoredSessionTest.RecoversFromTheLastCheckpoint",
    "a kernel or a save takes long": "PeerHealthTest.APeerThatAnswersIsAlive",
    "a step waits for 10 s": "LocalWorkerTest.ALongWaitIsTold",
    "the server of a client's session hangs": "HangTest.AClientHearsThatItsServerHangs",
    "a client disconnects": "HostileCalls.SessionsThatNobodyCallsAreClosed",
    "a client's machine disappears": "RpcServerTest.AClientThatAnswersNoPingIsDisconnectedAndItsCallCancelled",
    "a client repeats a call": "CallDeduplicator.ARepetitionOfOneThatEndedGetsItsAnswer",
    "a training repeats a step": "ExactlyOnceTest.ARepeatedStepAppliesWhatItHasNotApplied",
    "a session is closed": "ClusterTest.ClosingASessionEndsItsSteps",
    "a master restarts": "LocalWorkerTest.SessionsOfAnEarlierIncarnationOfTheirMasterGo",
    "a master disappears": "HostileCalls.SessionsOfAMasterThatStaysAwayAreLetGoOf",
    "a member fails, dies or restarts": "CollectiveKillTest.ALostMemberIsNamed",
    "a member is missing": "Collectives.OneMemberMayComeTooLate",
    "the leader has not started": "Collectives.AStepThatWaitsForAnAbsentLeaderEnds",
}


class FailuresTest(unittest.TestCase):
    def test_every_row_has_a_test(self):
        document = (ROOT / "docs" / "cluster.md").read_text()
        section = document[document.index("\n## Failures\n"):document.index("\n## Trust and limits\n")]
        rows = set(re.findall(r"^\| (.+?) \| .+ \|$", section, re.MULTILINE)) - {"Event"}
        self.assertEqual(rows, set(FAILURES))

    def test_the_tests_exist(self):
        tests = set()
        for path in (ROOT / "thalweg").rglob("*_test.cc"):
            for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", path.read_text(), re.MULTILINE):
                tests.add(suite + "." + name)
        self.assertEqual(set(FAILURES.values()) - tests, set())


if __name__ == "__main__":
    unittest.main()
