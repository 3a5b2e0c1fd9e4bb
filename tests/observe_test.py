# SPDX-License-Identifier: Apache-2.0
"""Watches real jobs: status, metrics, traces and the page of tasks that train, stop and are slow."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "tests"))
from ports import free_ports  # noqa: E402

BIN = os.environ["THALWEG_BIN"]
THALWEG = os.path.join(BIN, "thalweg")
LIMIT = 90
STEPS = 10000000  # more than a test waits for


class Job:
    """Distributed MNIST with 2 parameter servers and 2 workers, each a process. It trains until stop()."""

    def __init__(self, *args, ps=2, workers=2):
        self.folder = tempfile.TemporaryDirectory()
        hosts = ["localhost:%d" % port for port in free_ports(ps + workers)]
        self.addresses = {}
        self.processes, self.logs = {}, {}
        names = [("ps", i) for i in range(ps)] + [("worker", i) for i in range(workers)]
        for (job, i), host in zip(names, hosts):
            self.addresses["%s %d" % (job, i)] = host
        self.command_line = [
            os.path.join(BIN, "examples", "distributed_mnist"), "--ps_hosts=" + ",".join(hosts[:ps]),
            "--worker_hosts=" + ",".join(hosts[ps:]), "--steps=%d" % STEPS,
            "--checkpoint_dir=" + os.path.join(self.folder.name, "checkpoints"), *args]
        for name in self.addresses:
            self.start(name)

    def start(self, name):
        job, i = name.split()
        if name in self.logs:
            self.logs[name].close()
        log = self.logs[name] = open(os.path.join(self.folder.name, name), "w+")
        self.processes[name] = subprocess.Popen(
            [*self.command_line, "--job_name=" + job, "--task_index=" + i], stdout=log, stderr=subprocess.STDOUT,
            env=dict(os.environ, THALWEG_FLIGHT_FOLDER=self.folder.name))

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def page(self, name="ps 0"):
        """Address of the task's page, as it says at its start."""
        return wait_for(lambda: re.search(r"http://localhost:\d+/", self.log(name)), "the page of " + name).group(0)

    def log(self, name):
        with open(self.logs[name].name) as file:
            return file.read()

    def get(self, path, name="ps 0"):
        with urllib.request.urlopen(self.page(name) + path, timeout=10) as reply:
            return reply.read().decode()

    def status(self, name="ps 0"):
        return {task["name"]: task for task in json.loads(self.get("status.json", name))["tasks"]}

    def trains(self):
        def fast_enough():
            status = self.status()
            return all(status[name].get("steps", 0) > 50 for name in self.addresses if name.startswith("worker"))
        wait_for(fast_enough, "50 steps of each worker")

    def command(self, *args, ask="ps 0"):
        done = subprocess.run([THALWEG, args[0], self.addresses[ask], *args[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=30)
        return done.returncode, done.stdout

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        for log in self.logs.values():
            log.close()
        self.folder.cleanup()


def wait_for(condition, what):
    """What the condition returns, once that is true."""
    end = time.time() + LIMIT
    while True:
        try:
            if found := condition():
                return found
        except (OSError, KeyError) as error:
            found = error
        if time.time() > end:
            raise AssertionError("no %s after %d s: %s" % (what, LIMIT, found))
        time.sleep(0.1)


class TrainingJobTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.job = Job("--is_sync")
        cls.addClassCleanup(cls.job.stop)
        cls.job.trains()

    def test_every_task_shows_the_whole_job(self):
        for name in self.job.addresses:
            status = self.job.status(name)
            self.assertEqual(set(status), set(self.job.addresses))
            self.assertEqual({task["state"] for task in status.values()}, {"up"})

    def test_status_tells_progress_waits_traffic_variables_and_gradients(self):
        def told():
            status = self.job.status()
            worker = status["worker 0"]
            return (worker["steps_per_second"] > 0 and worker["scalars"] and worker["scalars"][0]["values"] and
                    any(p["phase"] == "wait" and p["seconds"] > 0 for p in worker["phases"]) and status)
        status = wait_for(told, "complete status")
        ps, worker = status["ps 0"], status["worker 0"]
        self.assertTrue(any(task["has_global_step"] and task["global_step"] > 0 for task in status.values()))
        self.assertGreater(ps["variables"], 0)
        self.assertGreater(ps["variable_bytes"], 0)
        self.assertEqual(ps["uninitialized_variables"], 0)
        self.assertGreater(sum(p["seconds"] for p in worker["phases"] if p["phase"] == "compute"), 0)
        self.assertTrue(any(t["peer"] == "worker 0" and t["sent_bytes"] > 0 for t in ps["traffic"]), ps["traffic"])
        self.assertGreater(worker["master_sessions"], 0)
        for name in ("worker 0", "worker 1"):
            self.assertGreater(sum(g["accepted"] for task in status.values() for g in task["gradients"]
                                   if g["worker"] == name), 0)
        self.assertGreater(sum(sum(task["staleness"]) for task in status.values()), 0)

    def test_checkpoints_time_left_and_learning_rate(self):
        def told():
            status = json.loads(self.job.get("status.json"))
            tasks = {task["name"]: task for task in status["tasks"]}
            saved = tasks["worker 0"]["checkpoint"]
            return (status["seconds_left"] > 0 and saved and saved["bytes"] > 0 and saved["verified"] and
                    tasks["ps 0"]["has_learning_rate"] and tasks)
        tasks = wait_for(told, "checkpoint, time left and learning rate")
        saved = tasks["worker 0"]["checkpoint"]
        self.assertRegex(saved["path"], r"/checkpoints/model\.ckpt-\d+$")
        self.assertRegex(saved["verified"], r"/checkpoints/model\.ckpt-\d+$")
        self.assertEqual(saved["damage"], "")
        self.assertGreater(saved["seconds"], 0)
        self.assertEqual(tasks["worker 0"]["stop_step"], STEPS)
        self.assertAlmostEqual(tasks["ps 0"]["learning_rate"], 1e-4, places=8)
        metrics = self.job.get("metrics", "worker 0")
        for name in ("thalweg_checkpoint_age_seconds", "thalweg_checkpoint_seconds", "thalweg_checkpoint_bytes",
                     "thalweg_stop_step"):
            self.assertRegex(metrics, r"(?m)^%s\{" % name)
        out = self.job.command("status")[1]
        self.assertRegex(out, r"; done in \d")
        self.assertRegex(out, r"(?m)^checkpoint \S+-\d+: saved by worker 0 \d+ s ago")

    def test_scalar_summaries_have_series(self):
        # The program does not fetch them in its training steps: it summarizes the loss under this name.
        def series():
            return [s for task in self.job.status().values() for s in task["scalars"]
                    if s["name"] == "loss" and len(s["values"]) > 1]
        self.assertGreater(min(wait_for(series, "series of the summary \"loss\"")[0]["values"]), 0)

    def test_waits_for_gradients_are_not_input(self):
        status = self.job.status()
        for name in ("ps 0", "ps 1"):
            seconds = {p["phase"] + p["on"]: p["seconds"] for p in status[name]["phases"]}
            self.assertLess(seconds["input"], 0.1 * sum(seconds.values()), seconds)
        self.assertNotIn("waiting for input", self.job.command("why")[1])

    def test_a_signal_writes_the_recorders_of_all_tasks(self):
        for name in ("ps 0", "worker 1"):
            process = self.job.processes[name]
            process.send_signal(signal.SIGUSR1)
            # A step that has failed is a reason for a dump, too: the log says which one is meant.
            path = wait_for(lambda: re.search(r"was asked for its flight recorder: (\S+)\.json\n", self.job.log(name)),
                            "dump of " + name).group(1)
            self.assertRegex(path, r"/%s-%d-\d+$" % (name.replace(" ", "-"), process.pid))
            with open(path + ".json") as file:
                dumped = {task["name"]: task for task in json.load(file)["tasks"]}
            self.assertEqual(set(dumped), set(self.job.addresses))
            self.assertGreater(len(dumped["worker 0"]["trace"]), 50)
            with open(path + ".trace.json") as file:
                events = json.load(file)["traceEvents"]
            self.assertEqual(len({e["pid"] for e in events if e["ph"] == "X"}), 4)

    def test_health_and_readiness(self):
        self.assertEqual(self.job.get("healthz"), "ok\n")
        self.assertEqual(self.job.get("readyz"), "ready\n")

    def test_stacks_name_steps_and_threads(self):
        text = self.job.get("stacks")
        self.assertIn("running steps", text)
        self.assertRegex(text, r"\d+ threads")
        self.assertRegex(text, r"(?m)^  \d+ +\S+ +S connections \(epoll\)$")
        self.assertRegex(text, r"(?m)^  \d+ +\S+ +S a lock, or work \(futex\)$")

    def test_the_flight_recorder_can_be_asked_for(self):
        for path, tasks in (("flight.json", len(self.job.addresses)), ("flight.json?task=1", 1)):
            dumped = json.loads(self.job.get(path))["tasks"]
            self.assertEqual(len(dumped), tasks)
            self.assertGreater(len(dumped[0]["trace"]), 200)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "flight.json")
            code, out = self.job.command("trace", "--dump", "-o", file)
            self.assertEqual(code, 0, out)
            with open(file) as dump:
                dumped = {task["name"]: task for task in json.load(dump)["tasks"]}
        self.assertEqual(set(dumped), set(self.job.addresses))
        self.assertGreater(min(len(task["trace"]) for task in dumped.values()), 100)

    def test_slices_of_a_track_are_nested(self):
        events = json.loads(self.job.get("trace?steps=2000"))["traceEvents"]
        tracks = {}
        for event in events:
            if event["ph"] == "X":
                tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        for track, slices in tracks.items():
            open_slices = []
            for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
                while open_slices and open_slices[-1] <= begin + 0.002:  # times are rounded to nanoseconds
                    open_slices.pop()
                self.assertTrue(not open_slices or end <= open_slices[-1] + 0.002, (track, begin, end, open_slices))
                open_slices.append(end)

    def test_metrics_follow_the_conventions(self):
        text = self.job.get("metrics", "worker 0")
        for name in ("thalweg_steps_total", "thalweg_step_seconds_bucket", "thalweg_last_step_timestamp_seconds",
                     "thalweg_wait_seconds_total", "thalweg_transfer_bytes_total", "thalweg_variable_bytes",
                     "thalweg_sessions", "thalweg_calls_total", "process_resident_memory_bytes"):
            self.assertRegex(text, r"(?m)^%s(\{| )" % name)
        families = re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text)
        self.assertEqual(len(families), len(set(families)))
        for name, kind in families:
            self.assertEqual(kind == "counter", name.endswith("_total"), name)
        # Every task has the numbers of its part of the training.
        for name in self.job.addresses:
            text += self.job.get("metrics", name)
        for series in ('thalweg_global_step{task="ps \\d"}', 'thalweg_step_seconds_count{task="worker 1",phase="wait"}',
                       'thalweg_step_seconds_count{task="ps 1",phase="compute"}', 'thalweg_wait_seconds_total{task="worker 1",on="ps 0"}',
                       'thalweg_transfer_bytes_total{src="worker 1",dst="ps 0",path="[a-z ]+"}',
                       'thalweg_gradients_total{task="ps 0",worker="worker 1",result="accepted"}',
                       'thalweg_variable_bytes{task="ps 1"}', 'thalweg_calls_total{task="ps 0",method="[^"]+",code="OK"}',
                       'thalweg_sessions{task="worker 1",role="master"}', 'process_threads', 'thalweg_learning_rate{task="ps \\d"}'):
            values = re.findall(r"(?m)^%s (\S+)$" % series.replace("{", "\\{").replace("}", "\\}"), text)
            self.assertGreater(max(map(float, values), default=-1), 0, series)
        for result in ("stale", "dropped"):
            self.assertIn('thalweg_gradients_total{task="ps 0",worker="worker 1",result="%s"}' % result, text)
        stamp = float(re.search(r"(?m)^thalweg_last_step_timestamp_seconds\{.*\} (\S+)$", text).group(1))
        self.assertLess(abs(time.time() - stamp), 60)

    def test_commands(self):
        code, out = self.job.command("status")
        self.assertEqual(code, 0, out)
        self.assertIn("4 of 4 tasks answer", out)
        self.assertRegex(out, r"(?m)^worker 1 +up +\d+")
        code, out = self.job.command("status", "--json")
        self.assertEqual(len(json.loads(out)["tasks"]), 4)
        code, out = self.job.command("top", "--updates", "2", "--interval", "100ms")
        self.assertEqual((code, out.count("tasks answer")), (0, 2), out)

    def test_one_trace_has_the_same_steps_of_all_tasks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "trace.json")
            code, out = self.job.command("trace", "--steps", "20", "-o", file)
            self.assertEqual(code, 0, out)
            with open(file) as trace:
                events = json.load(trace)["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        # All are on the clock of the task that was asked, as far as that is known.
        for name in names.values():
            self.assertRegex(name, r"^\w+ \d \(clock offset -?\d+ us, \+- \d+ us\)$")
        self.assertEqual(sorted(re.match(r"\w+ \d", name).group(0) for name in names.values()),
                         sorted(self.job.addresses))
        tasks_of = {}
        for event in events:
            if event["ph"] == "X":
                tasks_of.setdefault(event["args"]["step_id"], set()).add(event["pid"])
        self.assertGreaterEqual(max(map(len, tasks_of.values())), 2)

    def test_unknown_pages_and_tricks_find_nothing(self):
        for path in ("nothing", "..%2f..%2fetc/passwd", "//etc/passwd", "status.json/../../etc/passwd"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.job.get(path)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()


class SynchronousFaultTest(unittest.TestCase):
    def start(self, *flags):
        job = Job("--is_sync", *flags)
        self.addCleanup(job.stop)
        job.trains()
        return job

    def test_parameter_servers_tell_whose_gradient_they_wait_for(self):
        job = self.start()
        job.processes["worker 1"].send_signal(signal.SIGSTOP)

        def awaited():
            waits = [(w["missing"], w["wanted"] - w["have"], w["step"]) for task in job.status().values()
                     for w in task.get("gradient_waits", []) if w["seconds"] > 1]
            return waits and waits[0]
        missing, needed, step = wait_for(awaited, "wait for gradients")
        self.assertEqual((missing, needed), (["worker 1"], 1))
        self.assertGreater(step, 0)
        code, out = job.command("status")
        self.assertRegex(out, r"(?m)^ps \d waits for a gradient of worker 1 for step %d, since [\d.]+ s$" % step)
        pattern = r"stuck: worker 1 does not answer .* contributes; ps \d waits for a gradient of worker 1 for step \d+, since [\d.]+ s"
        wait_for(lambda: re.search(pattern, job.command("why")[1]), "the gradient in the answer of why")

    def test_an_expelled_worker_is_told_from_one_that_has_left(self):
        # A checkpoint that cannot pause the stopped worker's updates would hold up everything for half a minute.
        job = self.start("--expel_after=2s", "--save_steps=%d" % STEPS)

        def events():
            return {event["kind"]: event["text"] for task in job.status().values() for event in task["events"]}

        def members():
            return {m["worker"]: m["state"] for task in job.status().values() for m in task.get("members", [])}
        self.assertEqual(wait_for(members, "members"), {"worker 0": "present", "worker 1": "present"})
        job.processes["worker 1"].send_signal(signal.SIGSTOP)
        wait_for(lambda: members()["worker 1"] == "expelled", "expelled worker")
        wait_for(lambda: events().get("worker expelled") == "worker 1 held up the others: the training goes on without it",
                 "event")
        # The others train on: the job is not stuck.
        step = max(task["global_step"] for task in job.status().values())
        wait_for(lambda: max(task["global_step"] for task in job.status().values()) > step, "later step")
        expelled = r"slow: worker 1 does not answer .*; it was expelled [\d.]+ s ago, and the training goes on without it"
        wait_for(lambda: re.search(expelled, job.command("why")[1]), "the finding")
        wait_for(lambda: job.command("why")[0] == 0, "job that is not stuck")
        self.assertRegex(job.command("status")[1], r"(?m)^worker 1 +not answering for \d+ s, expelled")
        job.processes["worker 1"].send_signal(signal.SIGCONT)
        wait_for(lambda: members()["worker 1"] == "present", "the worker's return")
        wait_for(lambda: "worker back" in events(), "event of the return")
        job.processes["worker 1"].send_signal(signal.SIGTERM)  # it ends its part
        wait_for(lambda: members()["worker 1"] == "left", "the worker that has left")
        self.assertTrue(wait_for(lambda: events().get("worker left"), "event"))


class FaultyJobTest(unittest.TestCase):
    def setUp(self):
        self.job = Job()
        self.addCleanup(self.job.stop)
        self.job.trains()

    def test_a_stopped_worker_is_shown_and_named(self):
        self.job.processes["worker 1"].send_signal(signal.SIGSTOP)
        wait_for(lambda: self.job.status()["worker 1"]["state"] == "down", "stopped worker")
        code, out = self.job.command("why")
        self.assertEqual(code, 1, out)
        self.assertIn("stuck: worker 1 does not answer", out)
        self.assertRegex(out, r"it last answered [\d.]+ s ago")  # as its peers know, although nobody asked before
        code, out = self.job.command("status")
        self.assertRegex(out, r"(?m)^worker 1 +not answering for \d+ s")
        self.assertIn("thalweg_steps_total", self.job.get("metrics"))  # does not wait for it
        self.job.processes["worker 1"].send_signal(signal.SIGCONT)
        wait_for(lambda: self.job.command("why")[0] == 0, "end of the fault")

    def test_a_task_that_comes_again_is_told_and_so_is_the_restored_checkpoint(self):
        wait_for(lambda: self.job.status()["worker 0"]["checkpoint"], "checkpoint")
        self.job.kill("ps 1")
        wait_for(lambda: self.job.status("worker 0")["ps 1"]["state"] == "down", "lost parameter server")
        self.job.start("ps 1")

        def kinds():
            events = {event["kind"]: event["text"] for event in self.job.status("worker 0")["worker 0"]["events"]}
            return {"task lost", "task restarted", "restored"} <= set(events) and events
        events = wait_for(kinds, "events")
        self.assertEqual(events["task restarted"], "ps 1 has a new process")
        self.assertRegex(events["restored"], r"^the variables, from .*/model\.ckpt-\d+$")

    def test_many_questions_at_once_are_answered_although_a_task_is_stopped(self):
        # thalweg/server has the tests that the questions do not wait for each other.
        self.job.processes["worker 1"].send_signal(signal.SIGSTOP)
        wait_for(lambda: self.job.status()["worker 1"]["state"] == "down", "stopped worker")
        page = self.job.page()
        paths = ["trace?steps=%d" % n for n in range(1, 12)] + ["status.json"]
        clients = [subprocess.Popen([sys.executable, "-c", "import sys, urllib.request; "
                                     "print(urllib.request.urlopen(sys.argv[1]).read().decode())", page + path],
                                    stdout=subprocess.PIPE, text=True) for path in paths]
        answers = [json.loads(client.communicate(timeout=LIMIT)[0]) for client in clients]
        for answer in answers[:-1]:
            names = [e["args"]["name"] for e in answer["traceEvents"] if e["name"] == "process_name"]
            self.assertTrue(any(name.startswith("ps 0") for name in names), names)
        states = {task["name"]: task["state"] for task in answers[-1]["tasks"]}
        self.assertEqual(states["worker 1"], "down")

    def dumps(self, name):
        """The dumps that a task has written by itself."""
        dumps = []
        for path in re.findall(r"The last steps and events of .* are in (\S+\.json)\n", self.job.log(name)):
            with open(path) as file:
                dumps.append(json.load(file))
        return dumps

    def test_a_lost_task_is_recorded_and_dumped_by_tasks_whose_programs_do_not_fail(self):
        self.job.kill("worker 1")

        def lost():
            return [event["text"] for event in self.job.status()["ps 0"]["events"] if event["kind"] == "task lost"]
        self.assertEqual(wait_for(lost, "event of the parameter server"), ["worker 1 does not answer any more"])
        dump, *_ = wait_for(lambda: self.dumps("ps 0"), "dump of the parameter server")
        self.assertEqual([task["name"] for task in dump["tasks"]], ["ps 0"])  # its own records only
        self.assertGreater(len(dump["tasks"][0]["trace"]), 100)

    def test_a_failed_step_is_dumped_once_for_all_tasks(self):
        self.job.kill("ps 1")
        dump, *_ = wait_for(lambda: self.dumps("worker 0"), "dump of worker 0")
        tasks = {task["name"]: task for task in dump["tasks"]}
        self.assertEqual(set(tasks), set(self.job.addresses))  # the chief collects them
        self.assertIn("task lost", [event["kind"] for event in tasks["worker 0"]["events"]])
        dump, *_ = wait_for(lambda: self.dumps("worker 1"), "dump of worker 1")
        self.assertEqual([task["name"] for task in dump["tasks"]], ["worker 1"])

    def test_why_of_a_training_cluster_names_a_killed_server_and_the_chief(self):
        self.job.kill("ps 1")
        out = wait_for(lambda: re.search(r"stuck: ps 1 cannot be reached.*", self.job.command("why")[1]), "killed server")
        self.assertIn("its process is not running", out.group(0))
        self.assertEqual(self.job.command("why")[0], 1)
        self.job.start("ps 1")
        wait_for(lambda: self.job.command("why")[0] == 0, "end of the fault")
        self.job.kill("worker 0")
        out = wait_for(lambda: re.search(r"stuck: worker 0 cannot be reached.*", self.job.command("why")[1]), "chief")
        self.assertIn("it is the chief", out.group(0))

    def test_a_slow_worker_is_named(self):
        # It shares one core with a competitor that gets most of it.
        process = self.job.processes["worker 1"]
        core = min(os.sched_getaffinity(0))
        competitor = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                      preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        self.addCleanup(competitor.wait)
        self.addCleanup(competitor.kill)
        for thread in os.listdir("/proc/%d/task" % process.pid):
            os.sched_setaffinity(int(thread), {core})
            os.setpriority(os.PRIO_PROCESS, int(thread), 10)
        out = wait_for(lambda: re.search(r"slow: worker 1 is slow.*", self.job.command("why")[1]), "straggler")
        self.assertIn("without the time that it waits for others", out.group(0))


if __name__ == "__main__":
    unittest.main()
