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


# Which tests show each row of the tables under "Failures" in docs/cluster.md.
FAILURES = {
    "a task has not started yet": "ClusterTest.ASessionWaitsForTasksThatHaveNotStarted",
    "a task has left": "ClusterTest.ATaskThatOthersHaveSeenLeaveIsNotWaitedFor",
    "a task dies": "KillTest.AClientHearsOfItAndTheClusterGoesOn",
    "a task hangs, or its machine is cut off": [
        "HangTest.StepsEndByTheirDeadlineOrWhenTheTaskIsTakenForDead",  # steps
        "HangTest.PreparationEndsWhenTheTaskIsTakenForDead",  # their preparation
        "HangTest.ANewSessionDoesNotWaitForATaskThatHangs",  # CreateSession
        "HangTest.APartialRunEndsWhenTheTaskIsTakenForDead",  # partial runs
        "WorkerLiveness.AWorkerThatHangsEndsTheStepOfAnother",  # tensors between workers
        "Collectives.AStoppedLeaderIsNamed",  # requests to the leader of a collective
    ],
    "a task that hung resumes": "FencingTest.AStepThatWasGivenUpIsNotAppliedLater",
    "a task was restarted": "MonitoredSessionRecovery.RecoversFromTheLastCheckpoint",
    "a kernel or a save takes long": "PeerHealthTest.APeerThatAnswersIsAlive",
    "a step waits for 10 s": "LocalWorkerTest.ALongWaitIsTold",
    "the server of a client's session hangs": "HangTest.AClientHearsThatItsServerHangs",
    "a client disconnects": "HostileCalls.SessionsThatNobodyCallsAreClosed",
    "a client's machine disappears": "RpcServerTest.AClientThatAnswersNoPingIsDisconnectedAndItsCallCancelled",
    "a client repeats a call": "CallDeduplicator.ARepetitionOfOneThatEndedGetsItsAnswer",
    "a training repeats a step": "ExactlyOnceTest.ARepeatedStepAppliesWhatItHasNotApplied",
    "a session is closed": "ClusterTest.ClosingASessionEndsItsSteps",
    "a server stops while a kernel does not notice it": [
        "StuckServerTest.SaysWhichStepsKeepItFromStopping", "StuckServerDeathTest.EndsItsProcessIfItIsToldTo"],
    "a master restarts": "LocalWorkerTest.SessionsOfAnEarlierIncarnationOfTheirMasterGo",
    "a master disappears": "HostileCalls.SessionsOfAMasterThatStaysAwayAreLetGoOf",
    "a member fails, dies or restarts": "CollectiveKillTest.ALostMemberIsNamed",
    "a member is missing": "Collectives.OneMemberMayComeTooLate",
    "the leader has not started": "Collectives.AStepThatWaitsForAnAbsentLeaderEnds",
}


# Faults that were found once by an audit and by experiments, and the tests that fail if one of them comes back.
FAULTS = {
    "a few bytes take gigabytes, also without a session": [
        "HostileCalls.FeedsThatClaimMoreThanTheySend", "TensorProto.ClaimsWithoutValuesAreRefused",
        "PushRequest.ValuesThatAreLeftOut", "ScriptMessage.AHugeShapeTakesNoMemory"],
    "an answer that lies about its lengths": ["RecvTensorResponse.LyingLengths", "PushRequest.LyingLengths"],
    "a callback into a dead stack frame": "HostileCalls.AClusterWithATaskWhoseNameIsRefused",
    "a stack overflow by a chain of Send and Recv": [
        "LocalWorkerTest.AVeryLongChainOfHops", "BoundedNesting.ALongChainDoesNotNestDeep"],
    "a data race by a repeated RunGraph": ["StepTableTest.AStepBeginsOnce", "LocalWorkerTest.AStepBeginsOnce"],
    "a thread per waiting call, and no thread left": [
        "HostileCalls.WaitingCallsCostNoThreadEach", "RpcServerTest.CallsForWhichThereIsNoThreadAreRefused"],
    "a quadratic import": "GraphImport.ANodeMayHaveVeryManyControlInputs",
    "a worker that is used after its session has ended": "PeerHealthTest.AHeartbeatKeepsItsWorkerAlive",
    "files without an end, or that unfold": [
        "FileSystemTest.OnlyRegularFilesAreRead", "FileSystemTest.AFileLargerThanTheMemoryIsNotRead",
        "Table.KeysThatTakeFarMoreThanTheFile"],
    "strings that fill the memory": [
        "CopiesOfStrings.EndBeforeTheyTakeTheMemoryOfTheMachine", "StringMemory.ManySmallOnesAreCounted"],
    "the leader of a collective is absent": [
        "Collectives.AStepThatWaitsForAnAbsentLeaderEnds", "Collectives.AServerStopsWhileAStepWaitsForAnAbsentLeader"],
    "a stopped peer holds up preparations that do not need it": [
        "MasterSessionTest.ATaskThatHangsHoldsUpOnlyThoseThatNeedIt",
        "HangTest.PreparationEndsWhenTheTaskIsTakenForDead"],
    "a partition between workers": [
        "WorkerLiveness.AWorkerThatHangsEndsTheStepOfAnother", "RpcServerTest.AConnectionWithoutAcknowledgementsIsClosed"],
    "messages of a link are lost": [
        "LinkChannelTest.NothingIsLostForAClientThatReadsLate", "FaultyLinkTest.CallsEndWhateverHappensToTheNthMessage"],
    "a lost wake-up": "WaitListTest.CallsBehindACancelledOneGoOn",
    "a committed step runs twice": [
        "MonitoredSessionRecovery.AStepThatHasRunIsNotRepeatedForAHook",
        "MonitoredSessionRecovery.AStepWhoseEndIsNotKnownIsAppliedOnce"],
    "a gradient counts twice": "AccumulatorTest.AWorkerCountsOncePerStep",
    "a gradient comes while the chief begins anew": [
        "RosterTest.GradientsOfAnEarlierGenerationMayBeTaken", "AccumulatorTest.SaysWhichRoundTakesAGradient"],
    "a step that was given up is applied later": "FencingTest.AStepThatWasGivenUpIsNotAppliedLater",
    "a checkpoint mixes moments": "CheckpointWhileTrainingTest.EachCheckpointIsOneMoment",
    "a damaged checkpoint ends the training": "MonitoredSessionTest.ADamagedCheckpointIsPassedOver",
    "the last finite checkpoint is rotated out": "SaverTest.TheLastFiniteOneIsKept",
    "sessions of masters and clients that are gone": [
        "LocalWorkerTest.SessionsOfAnEarlierIncarnationOfTheirMasterGo",
        "HostileCalls.SessionsOfAMasterThatStaysAwayAreLetGoOf", "HostileCalls.SessionsThatNobodyCallsAreClosed"],
    "what grows with requests": [
        "StepTableTest.StepsThatNeverComeHoldABoundedAmount", "PieceTable.TensorsThatAreNeverWholeAreBoundedAndLetGoOf",
        "GraphCollectives.RemembersTheNewestInstances", "MembershipLimits.ForgetsTheOldestOfTooManyTasks",
        "UpdateLedger.ClientsThatAreGoneDoNotStay", "CallDeduplicator.KeepsAsMuchAsItMay"],
    "descriptors that nobody expects": "LinkChannelTest.DescriptorsThatNobodyExpectsAreClosed",
    "a refused request keeps its memory": "HostileCalls.ARefusedRequestLeavesNoMemoryBehind",
    "a server keeps what its tensors once took": [
        "HostAllocator.TheSystemGetsBackWhatWasFreeForLong", "ExportedMemoryTest.TheSystemGetsBackWhatWasFreeForLong",
        "ConfigureMallocDeathTest.ArenasAreFew"],
    "a worker that was killed after its end waits for servers that have left":
        "HostLauncherTest.AWorkerIsNotStartedAgainForServersThatHaveLeft",
    "a worker that is done waits for one that left": "JobEndTest.AWorkerThatIsDoneAndWaitsHearsOfTheOthers",
    "an open that fails does not name its target": "HangTest.AnOpenThatFailsNamesItsTarget",
    "a wrong separator of a cluster is accepted": "ClusterSpec.BadInput",
    "a jump of the clock": [
        "JobCompletionTest.DurationsAreMeasuredByTheMonotonicClock", "SessionLeases.ALeaseIsMeasuredByTheMonotonicClock"],
    "a repeated call runs twice": [
        "CallDeduplicator.ARepetitionOfOneThatEndedGetsItsAnswer", "ExactlyOnceTest.ARepeatedStepAppliesWhatItHasNotApplied"],
    "a server listens on all addresses": [
        "HostileCalls.AServerOfThisMachineListensAtLoopbackOnly", "ListenHosts.TheAddressOfTheClusterAndLoopback"],
    "SIGTERM is ignored by a task that waits": [
        "SignalsTest.AStepThatWaitsIsCancelled", "SignalsTest.AWaitForOtherTasksEnds"],
    "a worker that was interrupted counts as done": "MonitoredSessionRecovery.AWorkerThatWasInterruptedIsNotDone",
    "a worker does not say on whom it waits": "MonitoredSessionTest.AWorkerSaysOnWhomItWaits",
    "a stranger announces the end of a task": "JobCompletionTest.KeepsNothingOfATaskThatIsNotInTheCluster",
    "a parameter server of TensorFlow's workers does not end":
        "JobEndTest.AParameterServerThatKnowsNoWorkersLeavesWhenLeftAlone",
    "a path of another file system is taken for a local one": "FileSystemTest.PathsMayHaveTheSchemeOfThisMachine",
    "two chiefs write one folder": "MonitoredSessionTest.TwoChiefsCannotWriteOneFolder",
}


# Where the code has the figures of the tables: (text of the document, file, text of the file).
FIGURES = [
    ("`--peer_timeout` (5 s)", "server/server.h", "peer_timeout = absl::Seconds(5);"),
    ("for its status every 200 ms", "cluster/peer_health.h", "kHeartbeat = absl::Milliseconds(200);"),
    ("(for 5 s at most, if only other tasks have seen it)", "cluster/membership.cc", "kSeenTimeout = absl::Seconds(5);"),
    ("logs `CreateSession still waiting for response from worker: ...` every 10 s", "cluster/membership.cc",
     "kReportEvery = absl::Seconds(10);"),
    ("after `--client_lease` (24 h)", "server/server.h", "client_lease = absl::Hours(24);"),
    ("for `--master_lease` (10 min)", "server/server.h", "master_lease = absl::Minutes(10);"),
    ("its connection is closed after 40 s", "rpc/rpc_server.cc", "GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000"),
    ("a step waits for 10 s", "cluster/wait_logging.h", "kLogWaitAfter = absl::Seconds(10);"),
    ("within 4 s (`ServerOptions::stop_timeout`)", "server/server.h", "stop_timeout = absl::Seconds(4);"),
]


def tests_of(table):
    return {test for tests in table.values() for test in (tests if isinstance(tests, list) else [tests])}


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
        self.assertEqual((tests_of(FAILURES) | tests_of(FAULTS)) - tests, set())

    def test_the_figures_are_those_of_the_code(self):
        document = " ".join((ROOT / "docs" / "cluster.md").read_text().split())
        for text, file, code in FIGURES:
            with self.subTest(text):
                self.assertIn(text, document)
                self.assertIn(code, (ROOT / "thalweg" / file).read_text())


if __name__ == "__main__":
    unittest.main()
