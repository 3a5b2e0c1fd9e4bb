# SPDX-License-Identifier: Apache-2.0
"""Compares random graphs of reads and updates of variables with TensorFlow.

Variables (by reference and as resources) live on parameter servers and workers. Reads, updates, control edges,
conditionals and loops are placed at random over one to three tasks. The generator orders every read and every update of
the same variable by the edges of the graph, so that TensorFlow's result does not depend on time. The same GraphDef runs
on TensorFlow's servers, on Thalweg's, and on clusters that mix both.

    ordering_test.py                    the seeds of continuous integration
    ordering_test.py --seeds=100:2000   others; a failure prints the seed and the operations
"""

import argparse
import os
import random
import subprocess
import sys
import unittest

import numpy as np
import tensorflow.compat.v1 as tf
from ports import free_ports

PROGRAM = os.path.join(os.environ["THALWEG_BIN"], "thalweg")
SEEDS = range(0, 60)
STEPS = 3
JOBS = ["ps", "worker", "worker"]
TASKS = ["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"]
SERVE = """
import sys, tensorflow.compat.v1 as tf
cluster, job, task = sys.argv[1:]
spec = {part.split("|")[0]: part.split("|")[1].split(";") for part in cluster.split(",")}
server = tf.train.Server(spec, job_name=job, task_index=int(task))
print("ready", flush=True)
sys.stdin.read()
"""


class Cluster:
    """A parameter server and two workers. `ours` says for each task whether Thalweg runs it."""

    def __init__(self, ours):
        ports = free_ports(len(JOBS))
        cluster = "ps|localhost:%d,worker|localhost:%d;localhost:%d" % tuple(ports)
        self.processes = []
        for job, task, is_ours in zip(JOBS, [0, 0, 1], ours):
            command = ([PROGRAM, "server", "--cluster=" + cluster, "--job_name=" + job, "--task_index=%d" % task] if is_ours else
                       [sys.executable, "-c", SERVE, cluster, job, str(task)])
            self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                   stderr=subprocess.DEVNULL, universal_newlines=True))
        for process in self.processes:
            process.stdout.readline()
        self.target = "grpc://localhost:%d" % ports[1]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


class Access:
    """A read or an update of a variable: it happens after `start` has begun and before `end` has ended."""

    def __init__(self, start, end, is_update):
        self.start, self.end, self.is_update = start, end, is_update


class Variable:
    def __init__(self, name, task, is_resource):
        self.task, self.is_resource = task, is_resource
        with tf.device(TASKS[task]):
            self.variable = tf.Variable(tf.range(1.0, 4.0), name=name, use_resource=is_resource)
        self.accesses = []


class Value:
    """A tensor of three numbers. `view` is the variable whose memory it may be, if it has not been copied. `is_ref`: it
    is a reference to the variable."""

    def __init__(self, tensor, event, task, view=None, is_ref=False):
        self.tensor, self.event, self.task, self.view, self.is_ref = tensor, event, task, view, is_ref


class Generator:
    """Builds one graph. An event is an operation, or a conditional or loop as a whole; `before` has the events that the
    edges of the graph order before it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tasks = self.random.choice([[0], [0, 1], [0, 1, 2], [0, 1, 2]])
        self.before = []
        self.ops = []
        self.log = []
        self.variables = [Variable("s%d_v%d" % (seed, i), self.random.choice(self.tasks), self.random.random() < 0.35)
                          for i in range(self.random.choice([1, 2, 3]))]
        self.feed = tf.placeholder(tf.float32, [3], "feed")
        self.flag = tf.placeholder(tf.bool, [], "flag")
        self.values = [Value(self.feed, self.event(set(), self.feed.op, "feed"), None)]
        makers = [self.identity, self.identity, self.read_value, self.read_value, self.compute, self.compute, self.update,
                  self.update, self.update, self.cond, self.loop]
        for _ in range(self.random.randrange(4, 16)):
            self.random.choice(makers)()

    def event(self, after, op, text):
        self.before.append(set(after).union(*[self.before[e] for e in after]))
        self.ops.append(op)
        self.log.append("%d: %s after %s" % (len(self.log), text, sorted(after)))
        return len(self.before) - 1

    def is_before(self, a, b):
        return a == b or a in self.before[b]

    # Which events a new event must be ordered after, so that it may read or update a variable now. None: it cannot.
    def waits_for_read(self, variable):
        return {a.end for a in variable.accesses if a.is_update}

    def waits_for_update(self, variable):
        return {a.end for a in variable.accesses}

    def pick_task(self):
        return self.random.choice(self.tasks)

    def pick_value(self, task):
        """A value that a new operation on `task` can use: (value, events to wait for), with what it accesses."""
        value = self.random.choice(self.values)
        if value.view is None:
            return value, set()
        updates = self.waits_for_read(value.view)
        if value.task == task:
            return value, updates
        # It is copied to another task at some time after it was made: no update may come after that.
        if all(self.is_before(u, value.event) for u in updates):
            return value, set()
        return self.values[0], set()

    def note_use(self, value, event, task):
        if value.view is None:
            return
        start = event if value.task == task else value.event
        value.view.accesses.append(Access(start, event, False))

    def extra(self, after):
        """Control edges that nothing needs."""
        return after | {e for e in range(len(self.before)) if self.random.random() < 0.08}

    def inputs(self, waits):
        return [self.ops[e] for e in sorted(waits)]

    def add(self, waits, values, make, text):
        """Adds an operation that waits for events and uses values."""
        with tf.control_dependencies(self.inputs(waits)):
            tensor = make()
        op = tensor.op if hasattr(tensor, "op") else tensor
        event = self.event(waits | {v.event for v in values}, op, text)
        return tensor, event

    def identity(self):
        """v/read, or an Identity of a value: it shows the variable's memory in the same task."""
        task = self.pick_task()
        source = self.random.choice(self.variables + self.values)
        if isinstance(source, Variable) and not source.is_resource:
            self.read(source, self.random.choice([task, source.task]), self.extra(set()), shows=True)
        elif isinstance(source, Value):
            value, waits = self.pick_value(task)
            shows = value.view if value.task == task else None
            waits = self.extra(set() if shows else waits)
            with tf.device(TASKS[task]):
                tensor, event = self.add(waits, [value], lambda: tf.identity(value.tensor), "%s=Identity on %d" %
                                         ("view" if shows else "value", task))
            if not shows:
                self.note_use(value, event, task)
            self.values.append(Value(tensor, event, task, shows))

    def read(self, variable, task, waits, shows):
        """`shows`: without waiting for updates, if the result is the variable's own memory."""
        shows = shows and task == variable.task
        if not shows:
            waits = waits | self.waits_for_read(variable)
        with tf.device(TASKS[task]):
            tensor, event = self.add(waits, [], lambda: tf.identity(variable.variable._ref()),
                                     "Identity of %s on %d" % (variable.variable.name, task))
        if task != variable.task:
            variable.accesses.append(Access(event, event, False))
        self.values.append(Value(tensor, event, task, variable if task == variable.task else None))

    def read_value(self):
        variable = self.random.choice(self.variables)
        waits = self.extra(self.waits_for_read(variable))
        if not variable.is_resource:
            return self.read(variable, self.pick_task(), waits, shows=False)
        with tf.device(TASKS[variable.task]):
            tensor, event = self.add(waits, [], variable.variable.read_value,
                                     "ReadVariableOp of " + variable.variable.name)
        variable.accesses.append(Access(event, event, False))
        self.values.append(Value(tensor, event, variable.task))

    def compute(self):
        """Uses a variable by reference, or two values."""
        task = self.pick_task()
        a, waits = self.pick_value(task)
        b, more = self.pick_value(task)
        variable = self.random.choice(self.variables)
        direct = not variable.is_resource and self.random.random() < 0.4
        if direct and a.is_ref:  # nothing orders the transfers of two references
            a, waits = self.values[0], set()
        waits = self.extra(waits | (self.waits_for_read(variable) if direct else more))
        second = variable.variable._ref() if direct else b.tensor
        with tf.device(TASKS[task]):
            tensor, event = self.add(waits, [a] if direct else [a, b], lambda: tf.add(a.tensor * 0.5, second * 0.25)
                                     if not direct else tf.subtract(a.tensor, second),
                                     "compute on %d with %s" % (task, variable.variable.name if direct else "values"))
        self.note_use(a, event, task)
        if direct:
            variable.accesses.append(Access(event, event, False))
        else:
            self.note_use(b, event, task)
        self.values.append(Value(tensor, event, task))

    def make_update(self, variable, tensor):
        v = variable.variable
        kind = self.random.choice(["assign", "assign_add", "scatter", "apply"])
        if variable.is_resource:
            make = {"assign": lambda: v.assign(tensor), "assign_add": lambda: v.assign_add(tensor),
                    "scatter": lambda: tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=[0, 2],
                                                                     updates=tensor[:2]),
                    "apply": lambda: tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.5, delta=tensor)}
        else:
            make = {"assign": lambda: tf.assign(v, tensor), "assign_add": lambda: tf.assign_add(v, tensor),
                    "scatter": lambda: tf.scatter_add(v, [0, 2], tensor[:2]),
                    "apply": lambda: tf.raw_ops.ApplyGradientDescent(var=v._ref(), alpha=0.5, delta=tensor)}
        return make[kind], kind

    def update(self):
        variable = self.random.choice(self.variables)
        value, waits = self.pick_value(variable.task)
        waits = self.extra(waits | self.waits_for_update(variable))
        make, kind = self.make_update(variable, value.tensor)
        with tf.device(TASKS[variable.task]):
            result, event = self.add(waits, [value], make, "%s %s" % (kind, variable.variable.name))
        self.note_use(value, event, variable.task)
        variable.accesses.append(Access(event, event, True))
        if not variable.is_resource and self.random.random() < 0.5:  # the reference that the update hands on
            self.values.append(Value(result, event, variable.task, variable, is_ref=True))

    def cond(self):
        """A branch updates a variable, the other passes a value on. Either may not be taken."""
        variable = self.random.choice(self.variables)
        task = variable.task
        value, waits = self.pick_value(task)
        other, more = self.pick_value(task)
        waits = self.extra(waits | more | self.waits_for_update(variable))
        make, kind = self.make_update(variable, value.tensor)

        def taken():
            with tf.control_dependencies([make()]):
                return tf.identity(value.tensor) * 2.0

        with tf.device(TASKS[task]):
            tensor, event = self.add(waits, [value, other], lambda: tf.cond(self.flag, taken, lambda: other.tensor + 1.0),
                                     "cond %s %s" % (kind, variable.variable.name))
        self.note_use(value, event, task)
        self.note_use(other, event, task)
        variable.accesses.append(Access(event, event, True))
        self.values.append(Value(tensor, event, task))

    def loop(self):
        """Every iteration updates a variable with a value that may show what the last one has left. The loop stays in
        one task: TensorFlow never ends some of those that wait for other tasks."""
        variable = self.random.choice(self.variables)
        task = variable.task
        value, waits = self.pick_value(task)
        if value.task != task:
            value, waits = self.values[0], set()
        waits = self.extra(waits | self.waits_for_update(variable))
        kinds = []

        def body(i, total):
            make, kind = self.make_update(variable, value.tensor * 0.5)
            kinds.append(kind)
            with tf.control_dependencies([make()]):
                return i + 1, total + value.tensor

        def make_loop():
            start = tf.constant(0)
            with tf.control_dependencies(None), tf.control_dependencies([start]):
                return tf.while_loop(lambda i, total: i < 3, body, [start, self.feed], parallel_iterations=1)[1]

        with tf.device(TASKS[task]):
            tensor, event = self.add(waits, [value], make_loop, "loop %s" % variable.variable.name)
        self.log[-1] += " " + kinds[0]
        self.note_use(value, event, task)
        variable.accesses.append(Access(event, event, True))
        self.values.append(Value(tensor, event, task))

    def fetches(self):
        """All values, but for those that show a variable that is updated later: it depends on time when TensorFlow
        takes them."""
        return [v for v in self.values[1:]
                if v.view is None or all(self.is_before(u, v.event) for u in self.waits_for_read(v.view))]


class OrderingTest(unittest.TestCase):
    """Each test compares one kind of cluster with TensorFlow's, over all seeds."""

    @classmethod
    def setUpClass(cls):
        cls.clusters = {}
        cls.expected = {}

    @classmethod
    def tearDownClass(cls):
        for cluster in cls.clusters.values():
            cluster.close()

    def cluster(self, ours):
        if ours not in self.clusters:
            self.clusters[ours] = Cluster(ours)
        return self.clusters[ours]

    def run_steps(self, seed, ours):
        """The generator and, for each step, the values that it fetched; at last those of the variables."""
        tf.reset_default_graph()
        tf.set_random_seed(seed)
        generator = Generator(seed)
        fetches = [value.tensor for value in generator.fetches()]
        updates = [op for op in generator.ops if op is not generator.feed.op]
        config = tf.ConfigProto(isolate_session_state=True, operation_timeout_in_ms=20000)
        results = []
        with tf.Session(self.cluster(ours).target, config=config) as session:
            session.run([v.variable.initializer for v in generator.variables])
            for step in range(STEPS):
                feeds = {generator.feed: [step, 1.0 - step, 0.5], generator.flag: step != 1}
                try:
                    results.append(session.run([fetches, updates], feeds)[0])
                except tf.errors.OpError as error:
                    self.fail("seed %d, Thalweg runs %s, step %d: %s\n%s" % (seed, ours, step, error.message,
                                                                             "\n".join(generator.log)))
            results.append([session.run(v.variable) for v in generator.variables])
        return generator, results

    def compare(self, ours):
        for seed in SEEDS:
            if seed not in self.expected:
                self.expected[seed] = self.run_steps(seed, (False, False, False))[1]
            generator, results = self.run_steps(seed, ours)
            fetched = generator.fetches()
            differences = []
            for step, (got, expected) in enumerate(zip(results, self.expected[seed])):
                for i, (a, b) in enumerate(zip(got, expected)):
                    if not np.allclose(a, b, 1e-4, 1e-4, equal_nan=True):
                        what = "event %d" % fetched[i].event if step < STEPS else "variable %d" % i
                        differences.append("step %d, value of %s: %s, expected %s" % (step, what, a, b))
            self.assertFalse(differences, "seed %d, Thalweg runs %s:\n%s\n%s" % (seed, ours, "\n".join(differences[:6]),
                                                                              "\n".join(generator.log)))

    def test_tensorflow_agrees_with_itself(self):
        self.compare((False, False, False))

    def test_thalweg(self):
        self.compare((True, True, True))

    def test_a_parameter_server_of_thalweg_and_workers_of_tensorflow(self):
        self.compare((True, False, False))

    def test_a_parameter_server_of_tensorflow_and_workers_of_thalweg(self):
        self.compare((False, True, True))

    def test_a_worker_of_each(self):
        self.compare((True, True, False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", help="FIRST:LAST, in place of those of continuous integration")
    flags, rest = parser.parse_known_args()
    if flags.seeds:
        SEEDS = range(*(int(s) for s in flags.seeds.split(":")))
    tf.disable_v2_behavior()
    unittest.main(argv=[sys.argv[0]] + rest)
