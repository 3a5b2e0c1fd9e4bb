# SPDX-License-Identifier: Apache-2.0
"""Distributed MNIST (784-500-500-10, Adam, batches of 32) with 2 parameter servers and 2 workers on this machine: the
same TensorFlow program on Thalweg's servers and on TensorFlow's, and the C++ example.

    build/tensorflow/bin/python bench/distributed.py [--rounds N] [--steps N] [--python PYTHON] [--paths]

With --paths, the C++ example also runs over TCP links alone and over gRPC alone, as between machines. CPU is the time of
all tasks per global step, with the start of the program.

The C++ example also trains alone in one process: the last column is the CPU time of a global step divided by that of the
local steps whose work it does, one when asynchronous and one per worker when synchronous.

PYTHON is an interpreter with the TensorFlow to compare with; the default is this one. The runs of a round follow each
other, so that what else the machine does falls on all of them. Every task is a process of its own.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BIN = os.path.join(ROOT, "build", "release", "bin")
PROGRAM = os.path.join(ROOT, "python", "tests", "programs", "distributed_mnist.py")
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))
from ports import free_ports  # noqa: E402

PS, WORKERS = 2, 2


class Task:
    """A process whose lines "Train step N" are kept with the time at which they came."""

    def __init__(self, command):
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", PYTHONWARNINGS="ignore")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        self.steps = []
        self.lines = []
        self.ended = None
        self.cpu = 0.0
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if match := re.search(r"(?:Train|First) step (\d+)", line):
                self.steps.append((time.time(), int(match.group(1))))
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime
        self.ended = time.time()


def run(command, is_sync, steps, limit=600):
    """Runs the cluster once. Returns (global steps/s, seconds to the first step, seconds from the last step to the end
    of the workers, the same for all tasks or None if parameter servers had to be killed, CPU seconds per step)."""
    ports = free_ports(PS + WORKERS)
    hosts = ["localhost:%d" % p for p in ports]
    cluster = ["--ps_hosts=" + ",".join(hosts[:PS]), "--worker_hosts=" + ",".join(hosts[PS:])]
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        tasks = {}

        def launch(job, i):
            args = cluster + ["--job_name=" + job, "--task_index=%d" % i, "--steps=%d" % steps,
                              "--checkpoint_dir=" + folder]
            tasks[job, i] = Task(command + args + (["--is_sync"] if is_sync else []))

        try:
            for i in range(PS):
                launch("ps", i)
            for i in range(WORKERS):
                launch("worker", i)
            workers = [t for (job, _), t in tasks.items() if job == "worker"]
            while time.time() - start < limit:
                if all(t.ended for t in workers):
                    break
                # TensorFlow's synchronous workers may never end: what was trained counts.
                last = max((s for t in workers for s in t.steps), default=(time.time(), 0))
                if last[1] >= steps - 100 and time.time() - last[0] > 20:
                    break
                time.sleep(0.05)
            ended = all(t.ended for t in workers)
            deadline = time.time() + 3
            while ended and time.time() < deadline and not all(t.ended for t in tasks.values()):
                time.sleep(0.02)
            all_ended = max(t.ended for t in tasks.values()) if all(t.ended for t in tasks.values()) else None
        finally:
            for task in tasks.values():
                task.process.kill()
            for task in tasks.values():
                task.thread.join()
    seen = sorted(s for t in workers for s in t.steps)
    if not seen or seen[-1][1] < steps // 2:
        sys.exit("no training in %s:\n%s" % (command, "".join(workers[0].lines[-20:])))
    # While all train: one of TensorFlow's that comes before the chief has initialized sleeps for 30 s.
    began = max(t.steps[0][0] for t in workers if t.steps)
    first = next(s for s in seen if s[0] >= began)
    last = next((s for s in seen if s[1] >= steps * 0.95), seen[-1])
    if not all(t.steps for t in workers) or last[1] - first[1] < steps // 10:
        sys.exit("the workers of %s trained together for %d steps only: take more --steps" % (
            command, last[1] - first[1]))
    return ((last[1] - first[1]) / (last[0] - first[0]), seen[0][0] - start,
            max(t.ended for t in workers) - seen[-1][0] if ended else None,
            all_ended - seen[-1][0] if all_ended else None, sum(t.cpu for t in tasks.values()) / steps)


def local_step(command, steps):
    """CPU seconds per step of a training in one process, without a cluster."""
    with tempfile.TemporaryDirectory() as folder:
        task = Task(command + ["--steps=%d" % steps, "--checkpoint_dir=" + folder])
        task.thread.join()
    if task.process.returncode != 0 or not task.steps or task.steps[-1][1] < steps:
        sys.exit("no training in %s:\n%s" % (command, "".join(task.lines[-20:])))
    return task.cpu / steps


def seconds(values):
    values = [v for v in values if v is not None]
    return "%6.2f s" % statistics.median(values) if values else "   never"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--mode", choices=["async", "sync", "both"], default="both")
    parser.add_argument("--paths", action="store_true")
    args = parser.parse_args()
    thalweg = os.path.join(BIN, "thalweg")
    systems = {
        "TensorFlow": [args.python, PROGRAM],
        "Thalweg, Python": [thalweg, "python", "--python", args.python, PROGRAM],
        "Thalweg, C++": [os.path.join(BIN, "examples", "distributed_mnist")],
    }
    systems = {name: command for name, command in systems.items() if os.path.exists(command[0])}
    if args.paths:
        for name, switch in (("C++ over TCP", "on"), ("C++ over gRPC", "off")):
            systems[name] = ["env", "THALWEG_LOCAL_LINKS=off", "THALWEG_TCP_LINKS=" + switch] + systems["Thalweg, C++"]
    for mode in ("async", "sync"):
        if args.mode not in (mode, "both"):
            continue
        results = {name: [] for name in systems}
        local = []
        for _ in range(args.rounds):
            for name, command in systems.items():
                results[name].append(run(command, mode == "sync", args.steps))
            local.append(local_step(systems["Thalweg, C++"], args.steps))
        local = (WORKERS if mode == "sync" else 1) * statistics.median(local)
        print("%-6s %-18s %14s %7s %12s %12s %12s %11s %7s" % (
            mode, "", "global steps/s", "ratio", "first step", "workers end", "all end", "CPU/step", "/ local"))
        base = statistics.median(r[0] for r in results["TensorFlow"])
        for name, runs in results.items():
            rate = statistics.median(r[0] for r in runs)
            cpu = statistics.median(r[4] for r in runs)
            print("%-6s %-18s %14.0f %7.2f %12s %12s %12s %8.2f ms %7.2f" % (
                "", name, rate, rate / base, *(seconds([r[i] for r in runs]) for i in (1, 2, 3)), 1e3 * cpu, cpu / local),
                flush=True)
        print("%-6s %-18s %67.2f ms" % ("", "local steps", 1e3 * local), flush=True)


if __name__ == "__main__":
    main()
