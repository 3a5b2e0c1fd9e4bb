# SPDX-License-Identifier: Apache-2.0
"""`thalweg why` names the culprit: real servers and a TensorFlow client, with one thing wrong at a time."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import grpc
import tensorflow as tf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ports import free_ports  # noqa: E402
from program_testlib import JobTest, Process  # noqa: E402

THALWEG = os.path.join(os.environ["THALWEG_BIN"], "thalweg")
LIMIT = 60
tf1 = tf.compat.v1


class Cluster:
    """One parameter server and two workers, each a process."""

    def __init__(self):
        self.ports = free_ports(3)
        ps, first, second = ("localhost:%d" % port for port in self.ports)
        self.addresses = {"ps:0": ps, "worker:0": first, "worker:1": second}
        cluster = "ps|%s,worker|%s;%s" % (ps, first, second)
        self.processes = {}
        self.folder = tempfile.TemporaryDirectory()
        for name in self.addresses:
            job, index = name.split(":")
            with open(self.log(name), "w") as log:
                self.processes[name] = self.start(cluster, job, index, log)
        for process in self.processes.values():
            process.stdout.readline()  # it listens

    def start(self, cluster, job, index, log):
        return subprocess.Popen(
            [THALWEG, "server", "--cluster", cluster, "--job_name", job, "--task_index", index, "--forever",
             "--peer_timeout", "60s", "--log_format", "json", "--flight_folder", self.folder.name],
            stdout=subprocess.PIPE, stderr=log, text=True)

    def log(self, name):
        return os.path.join(self.folder.name, name.replace(":", "-") + ".log")

    def why(self, ask="worker:1", *flags):
        done = subprocess.run([THALWEG, "why", self.addresses[ask], *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=30)
        return done.returncode, done.stdout

    def why_until(self, text, ask="worker:1", *flags):
        """Asks until the answer has the text. The time is bounded by the test's."""
        end = time.time() + LIMIT
        while True:
            code, out = self.why(ask, *flags)
            if text in out or time.time() > end:
                return code, out
            time.sleep(0.2)

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            process.stdout.close()
        self.folder.cleanup()


class MemoryGroup:
    """A cgroup whose processes the kernel kills when they need more memory than the limit."""

    def __init__(self, limit):
        parent, limit_name, swap_name = self.parent()
        self.folder = tempfile.mkdtemp(prefix="thalweg-test-", dir=parent)
        # Without the second limit the processes would swap.
        for name, value in ((limit_name, limit), (swap_name, limit if "memsw" in swap_name else 0)):
            path = os.path.join(self.folder, name)
            if name == limit_name or os.path.exists(path):
                self.write(path, value)

    @staticmethod
    def write(path, value):
        with open(path, "w") as file:
            file.write(str(value))

    @staticmethod
    def parent():
        """The folder of this process's own group. OSError if groups cannot be made there."""
        with open("/proc/self/cgroup") as file:
            groups = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
        if "memory" in groups:  # version 1
            folder = "/sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        else:
            folder = "/sys/fs/cgroup"
            names = ("memory.max", "memory.swap.max")
            groups["memory"] = groups.get("", "/")
        own = folder + groups["memory"]
        own = own if os.path.isdir(own) else folder  # in a container, groups are named as on its host
        if names[0] == "memory.max":
            with open(os.path.join(own, "cgroup.subtree_control")) as file:
                if "memory" not in file.read().split():
                    raise OSError(own + " does not limit the memory of groups below it")
        return (own, *names)

    def add(self, pid):
        self.write(os.path.join(self.folder, "cgroup.procs"), pid)

    def remove(self):
        def removed():
            try:
                os.rmdir(self.folder)
            except OSError:
                return False  # its last process is still ending
            return True
        wait_for(removed, "end of the group")


def status_of(address):
    """The tasks of the job by name."""
    out = subprocess.run([THALWEG, "status", address, "--json"], stdout=subprocess.PIPE, timeout=30, check=True).stdout
    return {task["name"]: task for task in json.loads(out)["tasks"]}


def wait_for(condition, what):
    end = time.time() + LIMIT
    while True:
        found = condition()
        if found:
            return found
        if time.time() > end:
            raise AssertionError("no %s after %d s" % (what, LIMIT))
        time.sleep(0.1)


class ScriptTest(unittest.TestCase):
    def test_a_script_that_waits_in_a_step_tells_its_status_and_writes_its_recorder(self):
        port = free_ports(1)[0]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Process("observed.py", "--port=%d" % port, flags=("--log_format=json",),
                          env={"THALWEG_FLIGHT_FOLDER": folder.name})
        self.addCleanup(program.kill)
        self.assertTrue(program.wait_for("trained"), program.output)
        task = wait_for(lambda: status_of("localhost:%d" % port)["worker 0"], "status")
        self.assertEqual(task["stop_step"], 1000000)
        self.assertEqual(task["learning_rate"], 0.25)
        self.assertGreaterEqual(task["steps"], 20)
        # The last values are there within a second.
        wait_for(lambda: any(s["name"] == "observed_loss" and s["values"]
                             for s in status_of("localhost:%d" % port)["worker 0"]["scalars"]), "value of the summary")
        program.send_signal(signal.SIGUSR1)
        dump = wait_for(lambda: re.search(r"was asked for its flight recorder: (\S+)\.json\"", program.output),
                        "dump of the recorder").group(1)
        with open(dump + ".trace.json") as file:
            self.assertGreater(len(json.load(file)["traceEvents"]), 20)
        self.assertTrue(program.is_running())
        # Its server logs as the command line says.
        logged = [json.loads(line) for line in program.output.splitlines() if line.startswith("{")]
        self.assertTrue(logged, program.output)
        self.assertIn("worker 0", [line.get("task") for line in logged])
        self.assertNotRegex(program.output, r"(?m)^[IWE]\d{4} [\d:.]+ ")


class TrainingJobTest(JobTest):
    """One parameter server and two workers of TensorFlow, which train synchronously under `thalweg python`."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        hosts = self.cluster(1, 2)
        self.ps = hosts[0].split("=")[1]
        args = ("--is_sync", "--steps=10000000", "--checkpoint_dir=" + os.path.join(self.folder, "checkpoints"))
        env = {"THALWEG_FLIGHT_FOLDER": self.folder}
        self.start_job("distributed_mnist.py", hosts, "ps", 1, *args, env=env)
        self.workers = self.start_job("distributed_mnist.py", hosts, "worker", 2, *args, env=env)
        for worker in self.workers:
            self.assertTrue(worker.wait_for("Train step"), worker.output)

    def why(self):
        done = subprocess.run([THALWEG, "why", self.ps], stdout=subprocess.PIPE, timeout=30, text=True)
        return done.returncode, done.stdout

    def test_what_the_job_does_and_who_holds_it_up(self):
        def told():
            job = status_of(self.ps)
            ps, workers = job["ps 0"], [job["worker 0"], job["worker 1"]]
            seconds = [{p["phase"] + p["on"]: p["seconds"] for p in w["phases"]} for w in workers]
            return (all(w["steps"] > 20 and w["steps_per_second"] > 0 and any(s["values"] for s in w["scalars"]) for w in workers) and
                    all(s["compute"] > 0 and s.get("waitps 0", 0) > 0 for s in seconds) and
                    all(any(t["peer"] == "ps 0" and t["sent_bytes"] > 1e6 and t["received_bytes"] > 1e3 for t in w["traffic"])
                        for w in workers) and
                    ps["global_step"] > 20 and ps["variable_bytes"] > 1e6 and ps["has_learning_rate"] and
                    {g["worker"] for g in ps["gradients"] if g["accepted"] > 0} == {"worker 0", "worker 1"} and
                    sum(ps["staleness"]) > 0 and workers[0]["checkpoint"] and job)
        job = wait_for(told, "complete status")
        self.assertRegex(job["worker 0"]["checkpoint"]["path"], r"/model\.ckpt-\d+$")
        self.assertEqual(job["worker 1"]["stop_step"], 10000000)
        with urllib.request.urlopen(job["ps 0"]["http"] + "metrics", timeout=10) as reply:
            self.assertRegex(reply.read().decode(),
                             r'(?m)^thalweg_gradients_total{task="ps 0",worker="worker 1",result="accepted"} [1-9]')
        path = os.path.join(self.folder, "trace.json")
        subprocess.run([THALWEG, "trace", self.ps, "--steps", "20", "-o", path], check=True, timeout=30, stdout=subprocess.DEVNULL)
        with open(path) as file:
            slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        tasks_of = {}
        for event in slices:
            tasks_of.setdefault(event["args"]["step_id"], set()).add(event["pid"])
        self.assertGreaterEqual(max(map(len, tasks_of.values())), 2)

        # The script of a worker hangs outside of its steps, and its server still answers.
        self.workers[1].send_signal(signal.SIGSTOP)
        text = wait_for(lambda: re.search(r"stuck: .*waits for a gradient of worker 1 for step \d+.*", self.why()[1]),
                        "worker whose gradient is missing").group(0)
        self.assertIn("worker 1 runs no step (its program is busy outside of steps)", text)
        self.workers[1].send_signal(signal.SIGCONT)
        wait_for(lambda: self.why()[0] == 0, "end of the fault")


class WhyTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)

    def run_in_background(self, graph, fetch, worker="worker:0"):
        """Runs a step that does not end by itself. It ends when the servers do."""
        def run():
            try:
                with tf1.Session("grpc://" + self.cluster.addresses[worker], graph=graph) as session:
                    session.run(fetch)
            except Exception:  # the servers are killed at the end
                pass
        threading.Thread(target=run, daemon=True).start()

    def check(self, text, culprit, ask="worker:1", flags=()):
        code, out = self.cluster.why_until(text, ask, *flags)
        self.assertIn(text, out)
        self.assertEqual(code, 1, out)
        self.assertRegex(out, "(?m)^stuck: .*" + culprit)

    def test_nothing_is_wrong(self):
        code, out = self.cluster.why()
        self.assertEqual((code, out), (0, "Nothing blocks the job.\n"))

    def test_gradients_are_counted_by_the_worker_that_computed_them(self):
        with tf.Graph().as_default() as graph:
            with tf1.device("/job:ps/task:0"):
                dense = tf1.ConditionalAccumulator(tf.float32, shape=[2], shared_name="dense")
                take = dense.take_grad(1)
            gradients, applies = [], []
            for worker in range(2):
                with tf1.device("/job:worker/task:%d" % worker):
                    gradients.append(tf1.placeholder_with_default([1.0, 2.0], [2]) * 2)
                with tf1.device("/job:ps/task:0"):
                    applies.append(dense.apply_grad(gradients[worker], local_step=0))
        with tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph) as session:
            for worker in (0, 1, 1):
                session.run(applies[worker])
            session.run(take)
            session.run(applies[0])  # stale now
        ps = status_of(self.cluster.addresses["ps:0"])["ps 0"]
        self.assertEqual({g["worker"]: (g["accepted"], g["stale"]) for g in ps["gradients"]},
                         {"worker 0": (1, 1), "worker 1": (2, 0)})

    def test_names_that_are_not_utf8_do_not_hide_a_task(self):
        with tf.Graph().as_default() as graph, tf1.device("/job:worker/task:0"):
            queue = tf1.FIFOQueue(2, [tf.float32], [[]], shared_name=b"bad\xffname")
            put = queue.enqueue(1.0)
        with tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph) as session:
            session.run(put)
            worker = status_of(self.cluster.addresses["worker:1"])["worker 0"]
        self.assertEqual(worker["state"], "up", worker["error"])
        self.assertEqual([q["name"] for q in worker["queues"] if q["size"] == 1], ["bad\\xffname"])

    def test_log_lines_of_a_step_name_it(self):
        with tf.Graph().as_default() as graph, tf1.device("/job:ps/task:0"):
            hello = tf1.print("hello from a step", output_stream=tf1.logging.info)
        with tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph) as session:
            session.run(hello)

        def lines():
            with open(self.cluster.log("ps:0")) as file:
                return [json.loads(line) for line in file if "hello from a step" in line]
        line, = wait_for(lines, "line of the step")
        self.assertEqual(line["task"], "ps 0")
        self.assertRegex(line["step"], "^[0-9a-f]+$")
        self.assertRegex(line["session"], "^.+$")

    def test_a_server_writes_the_recorders_of_all_tasks_on_a_signal(self):
        self.cluster.processes["ps:0"].send_signal(signal.SIGUSR1)

        def dump():
            with open(self.cluster.log("ps:0")) as file:
                return re.search(r"was asked for its flight recorder: (\S+)\.json\"", file.read())
        with open(wait_for(dump, "dump of the recorder").group(1) + ".trace.json") as file:
            events = json.load(file)["traceEvents"]
        names = {e["args"]["name"].split(" (")[0] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {"ps 0", "worker 0", "worker 1"})

    def test_health_is_watched(self):
        with grpc.insecure_channel(self.cluster.addresses["worker:1"]) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
            serving, not_serving = b"\x08\x01", b"\x08\x02"
            self.assertEqual(check(b"", timeout=30), serving)
            with self.assertRaises(grpc.RpcError) as unknown:
                check(b"\x0a\x01x", timeout=30)  # the service "x"
            self.assertEqual(unknown.exception.code(), grpc.StatusCode.NOT_FOUND)
            watched = watch(b"", timeout=LIMIT)
            self.assertEqual(next(watched), serving)
            self.cluster.processes["worker:1"].send_signal(signal.SIGTERM)  # it drains
            self.assertEqual(next(watched), not_serving)
            watched.cancel()

    def test_a_stopped_worker(self):
        with tf.Graph().as_default() as graph:
            with tf1.device("/job:worker/task:0"):
                value = tf1.placeholder_with_default(1.0, [])
            with tf1.device("/job:ps/task:0"):
                there = value + 1
            with tf1.device("/job:worker/task:1"):
                back = there + 1
        session = tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph)
        self.assertEqual(session.run(back), 3)
        worker = self.cluster.processes["worker:1"]
        worker.send_signal(signal.SIGSTOP)

        def stopped():  # threads that run may go on for a moment
            with open("/proc/%d/stat" % worker.pid) as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "T"
        wait_for(stopped, "stop of worker 1")

        def run():
            try:
                session.run(back)
            except tf.errors.OpError:
                pass  # the servers were killed before they could answer
        threading.Thread(target=run, daemon=True).start()
        self.check("worker 0 has waited", "worker 1 does not answer .*worker 0 has waited .* for worker 1: "
                   "RunGraph is not answered", ask="worker:0")

    def test_a_killed_parameter_server(self):
        with tf.Graph().as_default() as graph, tf1.device("/job:ps/task:0"):
            two = tf.constant(1.0) + 1
        with tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph) as session:
            session.run(two)
        self.cluster.processes["ps:0"].kill()
        # Nobody has asked before, but worker 0 knows when it last had an answer.
        self.assertRegex(self.cluster.why("worker:1")[1], r"ps 0 cannot be reached .*it last answered [\d.]+ s ago")
        self.check("ps 0 cannot be reached", r"ps 0 cannot be reached \(its process is not running\)")

    def test_the_chief_is_gone(self):
        self.cluster.processes["worker:0"].kill()
        self.check("it is the chief", "worker 0 cannot be reached .*it is the chief")

    def test_input_that_does_not_come(self):
        with tf.Graph().as_default() as graph, tf1.device("/job:worker/task:0"):
            queue = tf1.FIFOQueue(10, [tf.float32], [[]], name="examples")
            batch = queue.dequeue(name="next_example")
        self.run_in_background(graph, batch)
        self.check("for input", "worker 0 has waited .* for input: next_example gets nothing from examples",
                   flags=("--stuck_after", "2s"))

    def test_slow_input(self):
        with tf.Graph().as_default() as graph:
            with tf1.device("/job:worker/task:0"):
                queue = tf1.FIFOQueue(10, [tf.float32], [[]], name="examples", shared_name="examples")
                put = queue.enqueue(1.0)
                batch = queue.dequeue(name="next_example")
            with tf1.device("/job:ps/task:0"):
                weight = tf1.Variable(0.0, use_resource=False)
                train = tf1.assign_add(weight, batch)
            init = tf1.global_variables_initializer()
        session = tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph)
        session.run(init)
        ended = threading.Event()

        def run(step, pause):
            try:
                while not ended.wait(pause):
                    session.run(step)
            except Exception:  # the servers are killed at the end
                pass
        threads = [threading.Thread(target=run, args=args) for args in ((put, 0.3), (train, 0))]
        for thread in threads:
            thread.start()
        try:
            code, out = self.cluster.why_until("waiting for input")
        finally:
            ended.set()
        # The job is slow, but not stuck.
        self.assertRegex(out, r"(?m)^slow: worker 0 spends \d+% of its time waiting for input")
        self.assertEqual(code, 0, out)
        for thread in threads[:1]:
            thread.join()
        threads[1].join(1)
        session.run(put)  # a step may still wait for it
        threads[1].join()

    def test_a_program_that_hangs_outside_of_steps(self):
        with tf.Graph().as_default() as graph, tf1.device("/job:ps/task:0"):
            weight = tf1.Variable(0.0, use_resource=False)
            train = tf1.assign_add(weight, 1.0)
            init = tf1.global_variables_initializer()
        with tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph) as session:
            session.run(init)
            for _ in range(10):
                session.run(train)
            self.check("has run no step", "worker 0 has run no step for .*: its program is busy or waits outside of steps",
                       flags=("--stuck_after", "2s"))
            session.run(train)
            self.assertEqual(self.cluster.why(), (0, "Nothing blocks the job.\n"))

    def test_a_full_queue(self):
        with tf.Graph().as_default() as graph, tf1.device("/job:worker/task:0"):
            queue = tf1.FIFOQueue(2, [tf.float32], [[]], name="examples", shared_name="examples")
            fill = queue.enqueue_many([[1.0, 2.0, 3.0]], name="fill")
        self.run_in_background(graph, fill)
        self.check("is full", r"queue examples of worker 0 is full \(2 of 2 elements\): fill of worker 0 has waited",
                   flags=("--stuck_after", "2s"))

    def test_a_parameter_server_that_the_kernel_kills_for_lack_of_memory(self):
        try:
            group = MemoryGroup(128 << 20)
        except OSError as error:
            # Only the kernel of the host could do it. Memory is limited for real all the same.
            print("no cgroup: %s; the memory is limited with RLIMIT_AS" % error, file=sys.stderr)
            return self.test_a_parameter_server_without_memory()
        process = self.cluster.processes["ps:0"]
        self.addCleanup(group.remove)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        group.add(process.pid)
        with tf.Graph().as_default() as graph, tf1.device("/job:ps/task:0"):
            parts = [tf.fill(tf1.placeholder_with_default([16 << 20], [1]), float(i)) for i in range(16)]  # 64 MB each
            small = tf.reduce_sum(tf.add_n(parts)[:1])
        self.run_in_background(graph, small)
        self.assertEqual(process.wait(timeout=LIMIT), -signal.SIGKILL)
        self.check("for lack of memory", r"ps 0 cannot be reached \(its process is not running\).*; the kernel has killed "
                   r"a process on its machine for lack of memory, the last one [\d.]+ s ago")

    def test_a_parameter_server_without_memory(self):
        process = self.cluster.processes["ps:0"]
        with open("/proc/%d/statm" % process.pid) as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.prlimit(process.pid, resource.RLIMIT_AS, (size + (1 << 30), size + (1 << 30)))
        with tf.Graph().as_default() as graph, tf1.device("/job:ps/task:0"):
            big = tf.fill(tf1.placeholder_with_default([1 << 30], [1]), 1.0)
            small = tf.reduce_sum(big[:1])
        with tf1.Session("grpc://" + self.cluster.addresses["worker:0"], graph=graph) as session:
            with self.assertRaises(tf.errors.ResourceExhaustedError):
                session.run(small)
        self.check("is out of memory", "ps 0 is out of memory; a step of worker 0 failed")


if __name__ == "__main__":
    unittest.main()
