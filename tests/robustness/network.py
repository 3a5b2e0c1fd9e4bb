#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on hosts of its own network, which are cut off or have loose cables, and checks the history.

    network.py --seed 1 --faults 50       jobs from seed 1 on, until 50 faults have struck
    network.py --seed 17 --jobs 1         repeats the job of seed 17

Every task has a network namespace with an address of its own, and a cable to a switch. To cut a task off, its cable is
pulled at the switch: nothing arrives any more, and nobody is told. Tasks are also killed, and started again. The
namespaces are made in a user namespace, so this needs no privileges. THALWEG_BIN is the folder of the programs.
"""

import argparse
import collections
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

import processes

# As counting_task has it.
PEER_TIMEOUT = 1.0


def ip(*arguments):
    subprocess.run(["ip"] + list(arguments), check=True)


def draw_fault(rng, tasks):
    """(kind, task, start, duration): a fault between 0.5 and 6 s after the start of the job."""
    kind = rng.choice(["cut", "cut", "cut_long", "cut_long", "loose", "loose", "kill", "stop_long"])
    duration = {"cut": rng.uniform(0.1, 0.7), "kill": 0}.get(kind, rng.uniform(1.5, 4))
    return kind, rng.choice(tasks), rng.uniform(0.5, 6), duration


class Host:
    """The namespace of one task, and the process in it."""

    def __init__(self, index):
        self.name, self.cable, self.address = "t%d" % index, "cable%d" % index, "10.77.0.%d" % (index + 1)
        ip("netns", "add", self.name)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", self.cable, "master", "switch", "up")
        ip("-n", self.name, "addr", "add", self.address + "/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        self.process, self.loose_since, self.plugged = None, None, True

    def plug(self, plugged):
        if plugged != self.plugged:
            ip("link", "set", self.cable, *(["master", "switch"] if plugged else ["nomaster"]))
            self.plugged = plugged

    def wiggle(self):
        if self.loose_since is not None:
            self.plug(int((time.monotonic() - self.loose_since) / 0.05) % 2 == 1)

    def start(self, command, take_line, tcp_links):
        env = dict(os.environ, THALWEG_TCP_LINKS="on" if tcp_links else "off")
        self.process = subprocess.Popen(["ip", "netns", "exec", self.name] + command, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, errors="replace", env=env)
        reader = threading.Thread(target=lambda out=self.process.stdout: [take_line(line) for line in out])
        reader.start()
        return reader

    def begin(self, kind):
        if kind.startswith("cut"):
            self.plug(False)
        elif kind == "loose":  # loses what is sent in half of the time; see wiggle()
            self.loose_since = time.monotonic()
        elif kind == "kill":
            self.process.kill()
        else:
            self.process.send_signal(signal.SIGSTOP)

    def end(self, kind):
        if kind.startswith("cut"):
            self.plug(True)
        elif kind == "loose":
            self.loose_since = None
            self.plug(True)
        elif kind == "stop_long":
            self.process.send_signal(signal.SIGCONT)


class Job:
    """One training with its faults."""

    def __init__(self, seed, replication):
        rng = random.Random(seed)
        self.seed = seed
        drawn = rng.choice(processes.REPLICATIONS)  # in any case: the faults follow from the seed alone
        self.replication = replication or drawn
        self.ps = 0 if self.replication == "allreduce" else 2
        self.workers = 3 if self.replication == "backup" else 2
        self.tasks = ["ps:%d" % i for i in range(self.ps)] + ["worker:%d" % i for i in range(self.workers)]
        self.faults = sorted((draw_fault(rng, self.tasks) for _ in range(rng.randint(2, 4))), key=lambda f: f[2])
        self.tcp_links = rng.random() < 0.5

    def text(self):
        return ",".join("%s=%s@%.1fs+%.1fs" % fault for fault in self.faults) + (
            ", over TCP links" if self.tcp_links else "")

    def repeat(self):
        return "tests/robustness/network.py --seed %d --jobs 1 --replication %s" % (self.seed, self.replication)

    def run(self, hang_after):
        """(problems, [(kind, detection in ms or None)], verdict, log)"""
        folder = tempfile.mkdtemp(prefix="robustness.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        ip("link", "add", "switch", "type", "bridge")
        ip("link", "set", "switch", "up")
        hosts = {task: Host(i) for i, task in enumerate(self.tasks)}
        try:
            return self._run(folder, hosts, hang_after)
        finally:
            for host in hosts.values():
                ip("link", "del", host.cable)  # a namespace is deleted later than the command returns
                ip("netns", "del", host.name)
            ip("link", "del", "switch")
            shutil.rmtree(folder, ignore_errors=True)

    def command(self, task, folder, hosts):
        job, index = task.split(":")
        lists = {j: ",".join(h.address + ":2222" for t, h in hosts.items() if t.startswith(j)) for j in ("ps", "worker")}
        return [processes.TASK, "--worker_hosts=" + lists["worker"], "--job_name=" + job, "--task_index=" + index,
                "--dir=" + folder, "--replication=" + self.replication, "--steps=600"] + (
                    ["--ps_hosts=" + lists["ps"]] if self.ps else [])

    def _run(self, folder, hosts, hang_after):
        lines, readers, problems = [], [], []
        start = time.monotonic()

        def log(task, line):
            lines.append((time.monotonic() - start, "%s | %s" % (task, line)))

        def launch(task):
            readers.append(hosts[task].start(self.command(task, folder, hosts), lambda line: log(task, line),
                                             self.tcp_links))

        for task in self.tasks:
            launch(task)
        events = []  # (time, what to do)
        for kind, task, at, duration in self.faults:
            events.append((at, "begin", kind, task))
            if duration:
                events.append((at + duration, "end", kind, task))
        events.sort()
        struck, broken = [], set()
        while any(host.process.poll() is None for host in hosts.values()):
            now = time.monotonic() - start
            if now > hang_after:
                problems.append("HANG: %s did not end within %d s" % (
                    ", ".join(t for t, h in hosts.items() if h.process.poll() is None), hang_after))
                break
            while events and events[0][0] <= now:
                _, what, kind, task = events.pop(0)
                if what == "end":
                    if (kind, task) in broken:
                        broken.discard((kind, task))
                        hosts[task].end(kind)
                # One fault of a kind at a time for a host, and none for a task that is done.
                elif hosts[task].process.poll() is None and not any(t == task for _, t in broken):
                    log("network", "injected fault: %s=%s\n" % (kind, task))
                    hosts[task].begin(kind)
                    struck.append((kind, task, now))
                    if kind != "kill":
                        broken.add((kind, task))
            for task, host in hosts.items():
                host.wiggle()
                code = host.process.poll()
                if code is None or code == 0:
                    continue
                # What `thalweg run --restart on-failure` starts again.
                if code < 0 or code == 1 or code >= 128:
                    launch(task)
                else:
                    problems.append("%s ended with code %d" % (task, code))
                    for other in hosts.values():
                        if other.process.poll() is None:
                            other.process.kill()
                    break
            time.sleep(0.01)
        for host in hosts.values():
            if host.process.poll() is None:
                host.process.kill()
            host.process.wait()
        for reader in readers:
            reader.join()
        verdict = ""
        if not problems:
            checked = subprocess.run([processes.TASK, "--check", "--dir=" + folder, "--replication=" + self.replication,
                                      "--workers=%d" % self.workers], capture_output=True, text=True)
            verdict = checked.stdout.strip()
            if checked.returncode != 0:
                problems.append("WRONG:\n" + checked.stdout + checked.stderr)
        return problems, [(kind, self.detection(kind, at, lines)) for kind, _, at in struck], verdict, "".join(
            "%7.3f %s" % line for line in lines)

    @staticmethod
    def detection(kind, at, lines):
        """How long it took until a task reported the loss of another."""
        if kind not in ("cut_long", "stop_long", "kill"):
            return None
        found = next((t for t, line in lines if t > at and ("A task was lost" in line or "has not answered" in line)), None)
        return None if found is None or found - at > 20 else 1000 * (found - at)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=50, help="end when this many have struck")
    parser.add_argument("--jobs", type=int, default=0, help="if not 0, run this many jobs")
    parser.add_argument("--replication", choices=processes.REPLICATIONS, help="if not given, drawn from the seed")
    parser.add_argument("--hang_after", type=float, default=120)
    parser.add_argument("--verbose", action="store_true", help="print the log of every job")
    parser.add_argument("--in_namespace", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.in_namespace:
        inner = 'mount -t tmpfs none /run && mkdir /run/netns && exec "$@"'
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", inner, "sh",
                              sys.executable] + sys.argv + ["--in_namespace"])
    results, hangs, wrong, totals, done, seed = [], 0, 0, collections.Counter(), 0, options.seed
    while done < options.jobs if options.jobs else len(results) < options.faults:
        job = Job(seed, options.replication)
        start = time.monotonic()
        problems, struck, verdict, log = job.run(options.hang_after)
        print("seed %d: %s, %d faults in %.1f s: %s; %s" % (
            seed, job.replication, len(struck), time.monotonic() - start, job.text(), verdict or "; ".join(problems)),
              flush=True)
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
    print(processes.table(results))
    print("%d faults in %d jobs; %d hangs, %d wrong; %d steps acknowledged, %d undone by restores, %d checkpoints" % (
        len(results), done, hangs, wrong, totals["steps"], totals["lost"], totals["checkpoints"]))
    return 1 if hangs or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
