#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains in real processes that are killed, stopped, cut off or lose their disk, and checks the history.

    processes.py --seed 1 --faults 50                 jobs from seed 1 on, until 50 faults have struck
    processes.py --seed 17 --jobs 1                   repeats the job of seed 17
    processes.py --seed 17 --jobs 1 --program 2.15    the same with a TensorFlow program

Each job is `thalweg run` with --faults. All its faults are drawn from its seed. A job that does not end within
--hang_after hangs. THALWEG_BIN is the folder of the programs.
"""

import argparse
import collections
import datetime
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("THALWEG_BIN", os.path.join(ROOT, "build", "release", "bin"))
THALWEG = os.path.join(BIN, "thalweg")
TASK = os.path.join(BIN, "robustness", "counting_task")
PYTHON = {"1.15": os.path.join(ROOT, "build", "tensorflow1", "bin", "python"),
          "2.15": os.path.join(ROOT, "build", "tensorflow", "bin", "python")}
REPLICATIONS = ["async", "sync", "backup", "staleness", "allreduce"]

# Where a kill, a stop or a failure strikes: points that every training passes, with how often at most by then.
POINTS = {"master.create_session": 1, "worker.create_session": 2, "worker.register_graph": 4, "master.run_step": 60,
          "worker.run_graph": 60, "worker.apply": 60, "worker.applied": 60, "worker.answer": 60, "master.answer": 60,
          "save.before_rename": 3, "save.between_renames": 3, "save.after_renames": 3, "disk.write": 12}
CANNOT_FAIL = {"worker.applied", "worker.answer", "master.answer", "save.after_renames"}


def draw_fault(rng, tasks, first, last):
    """One item of --faults that strikes between the times `first` and `last`, in seconds after the start."""
    task = rng.choice(tasks)
    when = "%.1fs" % rng.uniform(first, last)
    point = rng.choice(sorted(POINTS))
    at_point = "%s:%d" % (point, rng.randint(1, POINTS[point]))
    place = when if rng.random() < 0.6 else at_point
    short, long = "%dms" % rng.randint(50, 700), "%.1fs" % rng.uniform(1.3, 3)
    kind = rng.choice(["kill", "kill", "terminate", "stop", "stop_long", "hang", "fail", "drop", "dup", "delay",
                       "partition", "partition_long", "disk_full", "disk_slow", "clock"])
    if kind == "terminate":
        # A parameter server that is told to leave ends with code 0, and is not started again.
        task = rng.choice([t for t in tasks if t.startswith("worker")])
    if kind == "kill" or kind == "terminate":
        return kind, "%s=%s@%s" % (kind, task, place)
    if kind == "stop":
        return kind, "stop=%s@%s+%s" % (task, place, short)
    if kind == "stop_long":
        return kind, "stop=%s@%s+%s" % (task, place, long)
    if kind == "hang":
        return kind, "hang=%s@%s+%s" % (task, at_point, rng.choice([short, long]))
    if kind == "fail":
        if point in CANNOT_FAIL:
            at_point = "worker.apply:%d" % rng.randint(1, 60)
        return kind, "fail=%s@%s" % (task, at_point)
    if kind == "drop":
        return kind, "drop=%d%%@%s+%s" % (rng.randint(1, 5), when, short)
    if kind == "dup":
        return kind, "dup=%d%%@%s+%s" % (rng.randint(5, 30), when, short)
    if kind == "delay":
        return kind, "delay=0ms..20ms@%s+%s" % (when, short)
    if kind.startswith("partition"):
        return kind, "partition=%s@%s+%s" % (task, when, long if kind.endswith("long") else short)
    if kind == "disk_full":
        return kind, "disk=full@%s+%s" % (when, short)
    if kind == "disk_slow":
        return kind, "disk=slow:5ms@%s+%s" % (when, short)
    # Under libfaketime, gRPC's waits last longer by a jump forward (docs/reliability.md): a jump of an hour would hang.
    return kind, "clock=%s@%s" % (rng.choice(["+5s", "+10s", "-1h"]), when)


def seconds_of(line):
    """The time of a log line: I1115 21:17:04.123456 ..."""
    found = re.search(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d+) ", line)
    if not found:
        return None
    month, day, hour, minute, second, micro = (int(group) for group in found.groups())
    return datetime.datetime(2000, month, day, hour, minute, second, micro).timestamp()


class Job:
    """One training with its faults."""

    def __init__(self, seed, program, replication):
        rng = random.Random(seed)
        self.seed, self.program = seed, program
        self.tensorflow = program != "cpp"
        drawn = rng.choice(REPLICATIONS)  # in any case: the faults follow from the seed alone
        self.replication = "async" if self.tensorflow else replication or drawn
        self.ps = 0 if self.replication == "allreduce" else 2
        self.workers = 3 if self.replication == "backup" else 2
        tasks = ["ps:%d" % i for i in range(self.ps)] + ["worker:%d" % i for i in range(self.workers)]
        first, last = (6, 20) if self.tensorflow else (0.5, 5)
        self.faults = [draw_fault(rng, tasks, first, last) for _ in range(rng.randint(3, 5))]
        if self.tensorflow:  # the steps of a script are not numbered; its servers are processes of their own
            self.faults = [f for f in self.faults if "worker.appl" not in f[1]]
            # Under libfaketime, time.sleep() of Python fails with EINVAL after a jump.
            self.faults = [f for f in self.faults if f[0] != "clock"]
        # One clock jump is enough for a job.
        clocks = [f for f in self.faults if f[0] == "clock"]
        self.faults = [f for f in self.faults if f[0] != "clock" or f is clocks[0]]
        # One job in eight has a task that stops for ever, without which it cannot go on: it must fail, and say why.
        self.stopped = None
        if not self.tensorflow and rng.random() < 0.125:
            self.stopped = rng.choice([t for t in tasks if t.startswith("ps")] or tasks)
            self.faults = self.faults[:2] + [("stop_ever", "stop=%s@%.1fs" % (self.stopped, rng.uniform(1, 3)))]
        # How the tasks exchange messages: as they do on one host, or as between hosts.
        self.links = rng.choice(["local", "local", "tcp", "grpc"])

    def command(self, folder):
        faults = "seed=%d,%s" % (self.seed, ",".join(text for _, text in self.faults))
        run = [THALWEG, "run", "--ps", str(self.ps), "--workers", str(self.workers), "--restart", "on-failure",
               "--max_restarts", "2" if self.stopped else "100", "--faults=" + faults, "--"]
        if self.tensorflow:
            return run + [THALWEG, "python", "--python", PYTHON[self.program],
                          os.path.join(HERE, "counting_program.py"), "--dir", folder, "--steps", "150"]
        return run + [TASK, "--dir=" + folder, "--replication=" + self.replication, "--steps=600",
                      "--max_wait=" + ("10s" if self.stopped else "2m")]

    def repeat(self):
        return "tests/robustness/processes.py --seed %d --jobs 1 --program %s --replication %s" % (
            self.seed, self.program, self.replication)

    def run(self, hang_after):
        """(problems, [(kind, detection in ms or None)], verdict)"""
        folder = tempfile.mkdtemp(prefix="robustness.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        try:
            return self._run(folder, hang_after)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, folder, hang_after):
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", THALWEG_LOCAL_LINKS="on" if self.links == "local" else "off",
                   THALWEG_TCP_LINKS="on" if self.links == "tcp" else "off")
        process = subprocess.Popen(self.command(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                                   start_new_session=True, errors="replace")
        lines, problems, start, saved = [], [], time.monotonic(), True
        reader = threading.Thread(target=lambda: lines.extend(process.stdout))
        reader.start()
        try:
            code = process.wait(hang_after)
            saved = code == 0
            if code != 0 and self.was_over(reader, lines):
                saved = True
            elif not saved and not self.could_not_save(code, reader, lines) and not self.had_to_fail(reader, lines):
                problems.append("the job ended with code %d" % code)
        except subprocess.TimeoutExpired:
            problems.append("HANG: the job did not end within %d s" % hang_after)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()
            process.stdout.close()
        verdict = ""
        if not problems:
            checked = subprocess.run([TASK, "--check", "--dir=" + folder, "--replication=" + self.replication,
                                      "--workers=%d" % self.workers] + (["--repeats"] if self.tensorflow else []) + ([] if saved else ["--end_not_saved"]),
                                     capture_output=True, text=True)
            verdict = checked.stdout.strip()
            if checked.returncode != 0:
                problems.append("WRONG:\n" + checked.stdout + checked.stderr)
        return problems, self.struck(lines, time.monotonic() - start), verdict, "".join(lines)

    @staticmethod
    def could_not_save(code, reader, lines):
        """Whether the job failed, as it should, because the disk was full when its last checkpoint was written."""
        resource_exhausted = 8
        if code != resource_exhausted:
            return False
        reader.join()
        return any("No space left on device (injected" in line for line in lines[-10:])

    @staticmethod
    def was_over(reader, lines):
        """Whether a worker was killed after it had announced its end."""
        reader.join()
        return any("is not started again: the parameter servers have left" in line for line in lines)

    def had_to_fail(self, reader, lines):
        """Whether a task has stopped for ever, and another one has said that it does not answer."""
        if self.stopped is None:
            return False
        reader.join()
        name = "/job:%s/replica:0/task:%s" % tuple(self.stopped.split(":"))
        return any(name in line and ("has not answered" in line or "still waiting" in line.lower() or "cut off" in line)
                   for line in lines)

    def struck(self, lines, duration):
        """What has struck, and how long it took until a task reported the loss of another."""
        result = []
        for kind, text in self.faults:
            pattern = re.escape(text.split("@")[0])
            at = next((i for i, line in enumerate(lines) if "njected" in line and re.search(pattern, line)
                       and "runs with" not in line and "Faults:" not in line), None)
            if at is None and kind in ("drop", "dup", "delay", "partition", "partition_long", "disk_full", "disk_slow"):
                # Rules that hold for a time are logged with the plan only. The job may have ended before.
                if float(re.search(r"@([\d.]+)s", text).group(1)) < duration - 1:
                    result.append((kind, None))
                continue
            if at is None:
                continue
            start = seconds_of(lines[at])
            noticed = next((seconds_of(line) for line in lines[at:] if "A task was lost" in line or "cannot be reached"
                            in line and "saving" not in line), None)
            detection = None
            if start is not None and noticed is not None and kind in ("kill", "stop_long", "stop_ever", "terminate"):
                detection = max(0, (noticed - start) * 1000)
                detection = detection if detection < 20000 else None
            result.append((kind, detection))
        return result


def table(results):
    by_kind = collections.defaultdict(list)
    for kind, detection in results:
        by_kind[kind].append(detection)
    lines = ["%-16s %7s   %24s" % ("fault", "count", "detection p50/p99/max ms")]
    for kind, detections in sorted(by_kind.items()):
        known = sorted(d for d in detections if d is not None)
        text = "-"
        if known:
            text = "%.0f / %.0f / %.0f" % (known[len(known) // 2], known[int(0.99 * (len(known) - 1))], known[-1])
        lines.append("%-16s %7d   %24s" % (kind, len(detections), text))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=50, help="end when this many have struck")
    parser.add_argument("--jobs", type=int, default=0, help="if not 0, run this many jobs")
    parser.add_argument("--program", choices=["cpp", "1.15", "2.15"], default="cpp")
    parser.add_argument("--replication", choices=REPLICATIONS, help="if not given, drawn from the seed")
    parser.add_argument("--hang_after", type=float, default=90)
    parser.add_argument("--verbose", action="store_true", help="print the log of every job")
    options = parser.parse_args()
    results, hangs, wrong, totals, done = [], 0, 0, collections.Counter(), 0
    seed = options.seed
    while done < options.jobs if options.jobs else len(results) < options.faults:
        job = Job(seed, options.program, options.replication)
        start = time.monotonic()
        problems, struck, verdict, log = job.run(options.hang_after)
        print("seed %d: %s, %s, %s links, %d faults in %.1f s: %s; %s" % (
            seed, job.program, job.replication, job.links, len(struck), time.monotonic() - start,
            ",".join(text for _, text in job.faults), verdict or "; ".join(problems)), flush=True)
        results.extend(struck)
        totals.update({name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", verdict)})
        if problems or options.verbose:
            print(log)
        if problems:
            hangs += any(p.startswith("HANG") for p in problems)
            wrong += not any(p.startswith("HANG") for p in problems)
            print("\n".join(problems))
            print("To repeat: " + job.repeat(), flush=True)
        seed += 1
        done += 1
    print(table(results))
    print("%d faults in %d jobs; %d hangs, %d wrong; %d steps acknowledged, %d undone by restores, %d checkpoints" % (
        len(results), done, hangs, wrong, totals["steps"], totals["lost"], totals["checkpoints"]))
    return 1 if hangs or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
