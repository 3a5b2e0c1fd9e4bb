# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a step on Thalweg's and on TensorFlow's servers, with TensorFlow's Python client.

    build/tensorflow/bin/python bench/cluster.py [--rounds N] [--seconds S] [--tasks N]

Two tasks of each kind run at the same time; measurements alternate between them. Every line is a ratio of times or
rates of the same client in the same run.

With --paths, instead: a step that reads a variable of 64 KB to 128 MB of the other task, between Thalweg's servers in
shared memory, over TCP links alone and over gRPC alone, as between machines, and between TensorFlow's servers; with the
CPU time of both servers. --kinds chooses some of these. --program measures another build.

With --tasks, instead: how long it takes to open a session on a cluster of so many tasks, each a process: the first,
which connects them, and those after it. Servers of TensorFlow are not started then: 64 take 20 GB.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_v2_behavior()

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
THALWEG = os.path.join(ROOT, "build", "release", "bin", "thalweg")
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))
from ports import free_ports  # noqa: E402

SERVE = """
import sys, tensorflow as tf
hosts, task = sys.argv[1].split(","), int(sys.argv[2])
print("ready", tf.distribute.Server({"local": hosts}, task_index=task).target, flush=True)
sys.stdin.read()
"""


PROGRAM = [THALWEG]  # --program
OPTIONS = {"thalweg": [], "tcp": ["--nolocal_links", "--tcp_links"], "grpc": ["--nolocal_links", "--notcp_links"]}


def start(kind, hosts, task):
    if kind in OPTIONS:
        command = [PROGRAM[0], "server", "--cluster=local|" + ";".join(hosts), f"--task_index={task}"] + OPTIONS[kind]
    else:
        command = [sys.executable, "-c", SERVE, ",".join(hosts), str(task)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    return process


def edges(n):
    """A step in which n scalars cross from the second task to the first."""
    x = v1.placeholder(tf.float32, [])
    with tf.device("/job:local/task:1"):
        there = [x + float(i) for i in range(n)]
    with tf.device("/job:local/task:0"):
        return tf.add_n([tf.negative(t) for t in there]).op, {x: 1.0}


def read(kilobytes):
    with tf.device("/job:local/task:1"):
        big = v1.get_local_variable(f"big{kilobytes}", initializer=tf.zeros([kilobytes << 8]), use_resource=True)
    with tf.device("/job:local/task:0"):
        return tf.identity(big.read_value()).op, {}


class Side:
    """One kind of server, with a session on its first task and every case ready to run."""

    def __init__(self, kind, sizes=()):
        hosts = [f"localhost:{port}" for port in free_ports(2)]
        self.processes = [start(kind, hosts, task) for task in (0, 1)]
        with tf.Graph().as_default():
            if sizes:
                cases = {f"{size} KB": read(size) for size in sizes}
            else:
                cases = {"null step": (tf.no_op(), {}), "1 edge": edges(1), "100 edges": edges(100),
                         "read 128 MB": read(128 << 10)}
            init = v1.local_variables_initializer()
            self.session = v1.Session("grpc://" + hosts[0])
            self.session.run(init)
        self.cases = {name: (self.session.make_callable(op, list(feeds)), list(feeds.values()))
                      for name, (op, feeds) in cases.items()}

    def seconds_per_step(self, name, seconds):
        run, values = self.cases[name]
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            begin = time.perf_counter()
            run(*values)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def cpu_seconds(self):
        """CPU time of the servers so far."""
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.session.close()
        for process in self.processes:
            process.kill()
            process.wait()


def open_sessions(tasks, rounds):
    """A session with a step in every task."""
    hosts = [f"localhost:{port}" for port in free_ports(tasks)]
    processes = [start("thalweg", hosts, task) for task in range(tasks)]
    try:
        with tf.Graph().as_default():
            ones = []
            for task in range(tasks):
                with tf.device(f"/job:local/task:{task}"):
                    ones.append(v1.placeholder_with_default(1.0, []))
            total = tf.add_n(ones)
            for i in range(1 + rounds):
                begin = time.perf_counter()
                with v1.Session("grpc://" + hosts[i % tasks]) as session:
                    session.list_devices()
                    opened = time.perf_counter() - begin
                    assert session.run(total) == tasks
                    ran = time.perf_counter() - begin - opened
                print(f"{tasks} tasks, session {i}: opened in {1e3 * opened:.0f} ms, first step {1e3 * ran:.0f} ms",
                      flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def compare_paths(rounds, seconds, kinds):
    sizes = (64, 1 << 10, 16 << 10, 128 << 10)
    sides = {kind: Side(kind, sizes) for kind in kinds}
    ratios = [pair for pair in (("thalweg", "tensorflow"), ("tcp", "tensorflow"), ("tcp", "grpc"))
              if set(pair) <= set(kinds)]
    print(f"{'':10}" + "".join(f"{kind:>38}" for kind in sides) + "   " + "  ".join("/".join(pair) for pair in ratios))
    for size in sizes:
        name = f"{size} KB"
        times, cpu = {kind: [] for kind in sides}, {kind: [] for kind in sides}
        for _ in range(rounds):
            for kind, side in sides.items():
                run, _ = side.cases[name]
                count, spent, end = [], side.cpu_seconds(), time.perf_counter() + seconds
                while time.perf_counter() < end or len(count) < 3:
                    begin = time.perf_counter()
                    run()
                    count.append(time.perf_counter() - begin)
                times[kind].append(statistics.median(count))
                cpu[kind].append((side.cpu_seconds() - spent) / len(count))
        step = {kind: statistics.median(times[kind]) for kind in sides}
        print(f"{name:>10}" + "".join(
            f"{1e6 * step[kind]:9.0f} us {size / 1e6 * 1.024 / step[kind]:6.2f} GB/s "
            f"{1e6 * statistics.median(cpu[kind]):6.0f} us CPU"
            for kind in sides) + "   " + "  ".join(
                f"{step[a] / step[b]:{len(a) + len(b) + 1}.2f}" for a, b in ratios), flush=True)
    for side in sides.values():
        side.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--tasks", type=int, default=0)
    parser.add_argument("--paths", action="store_true")
    parser.add_argument("--kinds", default="thalweg,tcp,grpc,tensorflow")
    parser.add_argument("--program", default=THALWEG)
    flags = parser.parse_args()
    PROGRAM[0] = flags.program
    if flags.paths:
        return compare_paths(flags.rounds, flags.seconds, flags.kinds.split(","))
    if flags.tasks > 0:
        return open_sessions(flags.tasks, flags.rounds)
    sides = {kind: Side(kind) for kind in ("thalweg", "tensorflow")}
    print(f"{'':12} {'Thalweg':>12} {'TensorFlow':>12}   ratio")
    for name in sides["thalweg"].cases:
        times = {kind: [] for kind in sides}
        for _ in range(flags.rounds):
            for kind, side in sides.items():
                times[kind].append(side.seconds_per_step(name, flags.seconds))
        ours, theirs = (1e6 * np.median(times[kind]) for kind in ("thalweg", "tensorflow"))
        print(f"{name:12} {ours:9.0f} us {theirs:9.0f} us   {ours / theirs:.2f}", flush=True)
    for side in sides.values():
        side.stop()


if __name__ == "__main__":
    main()
