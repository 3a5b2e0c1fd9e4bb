# SPDX-License-Identifier: Apache-2.0
"""Training steps of workers with 4 parameter servers, several workers at once. The same program runs on Thalweg's
servers (`thalweg python`) and on TensorFlow's.

    build/tensorflow/bin/python bench/training_step.py [--model sparse,scalar,dense] [--megabytes 16,256,1024]
        [--workers 1,4,16] [--rounds N] [--optimizer sgd|adagrad|momentum] [--resource] [--python PYTHON]

    sparse   32 rows of a table of --megabytes are looked up and updated, with and without a checkpoint that is written
             meanwhile
    scalar   the null training step: a worker reads a number from each parameter server and sends one back
    dense    the same with 100 MB in all

PYTHON is an interpreter with the TensorFlow to compare with; the default is this one. The systems take turns. A line
has the time of a worker's step, the CPU time of all processes per step, and TensorFlow's times divided by Thalweg's, all
medians of the rounds. The time is the median of the steps or, during a checkpoint, their mean: what a checkpoint holds up
counts.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
THALWEG = os.path.join(ROOT, "build", "release", "bin", "thalweg")
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))

PS, WIDTH, ROWS = 4, 64, 32


def build_sparse(tf, args, cluster):
    """The training step of one worker."""
    rows = args.megabytes * (1 << 20) // 4 // WIDTH
    worker = "/job:worker/task:%d" % args.task
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        table = tf.get_variable("table", [rows, WIDTH], initializer=tf.zeros_initializer(),
                                partitioner=tf.fixed_size_partitioner(PS), use_resource=args.resource)
        ids = tf.random.uniform([ROWS], maxval=rows, dtype=tf.int32)
        found = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        loss = tf.reduce_sum(tf.square(found - 1.0))
        return optimizer_of(tf, args).minimize(loss), None


def build_null(tf, args, cluster):
    """The training step of one worker, and the initializer of the gradients that it sends: they are there already."""
    elements = max(1, args.megabytes * 1000 * 1000 // 4 // PS)
    worker = "/job:worker/task:%d" % args.task
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        parameters = [tf.get_variable("parameters%d" % i, [elements], initializer=tf.zeros_initializer(),
                                      use_resource=args.resource) for i in range(PS)]
    with tf.device(worker):
        gradients = [tf.get_variable("gradients%d_%d" % (args.task, i), [elements], initializer=tf.zeros_initializer(),
                                     trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES]) for i in range(PS)]
        used = [tf.identity(p)[0] + 1.0 for p in parameters]
        with tf.control_dependencies(used):
            sent = [tf.identity(g) for g in gradients]
    return (optimizer_of(tf, args).apply_gradients(zip(sent, parameters)),
            tf.variables_initializer(tf.local_variables()))


def optimizer_of(tf, args):
    return {"sgd": lambda: tf.train.GradientDescentOptimizer(0.01),
            "adagrad": lambda: tf.train.AdagradOptimizer(0.01),
            "momentum": lambda: tf.train.MomentumOptimizer(0.01, 0.9)}[args.optimizer]()


def serve(args):
    """A task. Workers read commands, one per line: "init", "steps SECONDS",
    "save FOLDER" or "steps_until_done" (which the next line ends), and answer in JSON."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    hosts = args.hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": hosts[:PS], "worker": hosts[PS:]})
    server = tf.train.Server(cluster, job_name=args.job, task_index=args.task)
    if args.job == "ps":
        print("{}", flush=True)
        sys.stdin.read()
        os._exit(0)
    train, local_init = (build_sparse if args.model == "sparse" else build_null)(tf, args, cluster)
    saver = tf.train.Saver(sharded=True)
    init = tf.global_variables_initializer()
    session = tf.Session(server.target)
    if local_init is not None:
        session.run(local_init)
    step = session.make_callable(train)
    print("{}", flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        answer = {}
        if command == "init":
            session.run(init)
        elif command == "steps":
            answer["milliseconds"] = run_steps(step, float(argument))
        elif command == "steps_until_done":
            stop = threading.Thread(target=sys.stdin.readline)
            stop.start()
            answer["milliseconds"] = []
            while stop.is_alive():
                answer["milliseconds"] += run_steps(step, 0)
        elif command == "save":
            times, saving = [], threading.Thread(target=saver.save, args=(session, argument + "/model"))
            saving.start()
            begin = time.perf_counter()
            while saving.is_alive():
                times += run_steps(step, 0)
            answer["milliseconds"], answer["seconds"] = times, time.perf_counter() - begin
            saving.join()
        print(json.dumps(answer), flush=True)
    os._exit(0)


def run_steps(step, seconds):
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


class Cluster:
    """The tasks of one system, each in a process of its own."""

    def __init__(self, command, args, model, megabytes, workers):
        from ports import free_ports
        hosts = ",".join("localhost:%d" % port for port in free_ports(PS + workers))
        tasks = [("ps", i) for i in range(PS)] + [("worker", i) for i in range(workers)]
        self.processes = []
        for job, task in tasks:
            flags = [f"--job={job}", f"--task={task}", f"--hosts={hosts}", f"--model={model}",
                     f"--megabytes={megabytes}", f"--optimizer={args.optimizer}"] + (["--resource"] if args.resource else [])
            self.processes.append(subprocess.Popen(command + [os.path.abspath(__file__)] + flags, text=True,
                                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                   stderr=subprocess.DEVNULL, start_new_session=True))
        self.workers = self.processes[PS:]
        for process in self.processes:
            self.answer(process)
        self.ask(self.workers[0], "init")
        # The first steps find out what is sent, and touch new memory.
        for _ in range(5):
            self.all("steps 0.1")

    @staticmethod
    def answer(process):
        line = process.stdout.readline()
        if not line:
            sys.exit("a task has ended: %s" % process.args)
        return json.loads(line)

    def tell(self, process, command):
        process.stdin.write(command + "\n")
        process.stdin.flush()

    def ask(self, process, command):
        self.tell(process, command)
        return self.answer(process)

    def all(self, command, first=None):
        """Runs a command in all workers (`first` in the first one). Returns (answers, CPU milliseconds per step)."""
        before = self.cpu()
        for i, worker in enumerate(self.workers):
            self.tell(worker, first if first and i == 0 else command)
        answers = [self.answer(self.workers[0])]
        if first:
            for worker in self.workers[1:]:
                self.tell(worker, "done")
        answers += [self.answer(worker) for worker in self.workers[1:]]
        cpu = self.cpu() - before
        return answers, 1e3 * cpu / sum(len(a["milliseconds"]) for a in answers)

    def cpu(self):
        """Seconds that the processes and their children have used."""
        groups, ticks = {p.pid for p in self.processes}, 0
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if int(fields[2]) in groups:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait()


def measure(command, args, model, megabytes, workers):
    """{case: (median milliseconds, CPU milliseconds per step)}"""
    cluster = Cluster(command, args, model, megabytes, workers)
    folder = tempfile.mkdtemp(dir=args.folder)
    try:
        answers, cpu = cluster.all("steps %f" % args.seconds)
        results = {"steps": (statistics.median(t for a in answers for t in a["milliseconds"]), cpu)}
        if model != "sparse":
            return results
        # The first checkpoint gives tables memory of another kind, once: the others count.
        cluster.ask(cluster.workers[0], "save " + folder)
        times, cpus = [], []
        for _ in range(args.saves):
            answers, cpu = cluster.all("steps_until_done", first="save " + folder)
            times += [t for a in answers for t in a["milliseconds"]]
            cpus.append(cpu)
        results["checkpoint"] = (statistics.mean(times), statistics.median(cpus))
        return results
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="sparse,scalar,dense")
    parser.add_argument("--megabytes", default="16,256,1024", help="sizes of the table of `sparse`")
    parser.add_argument("--workers", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--saves", type=int, default=2, help="checkpoints per round")
    parser.add_argument("--optimizer", choices=["sgd", "adagrad", "momentum"], default="sgd")
    parser.add_argument("--resource", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--folder", default=None, help="where checkpoints go; a temporary folder by default")
    parser.add_argument("--only", choices=["thalweg", "tensorflow"], help="measure one of the systems")
    parser.add_argument("--job", choices=["ps", "worker"], help=argparse.SUPPRESS)
    parser.add_argument("--task", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--hosts", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        args.megabytes = int(args.megabytes)
        return serve(args)
    systems = {"thalweg": [THALWEG, "python", "--python", args.python], "tensorflow": [args.python]}
    if args.only:
        systems = {args.only: systems[args.only]}
    print(f"{'':>15} {'workers':>7} {'':<11}" + "".join(f" {s + ' ms':>14} {'CPU ms':>7}" for s in systems) +
          ("   ratio  CPU ratio" if len(systems) == 2 else ""), flush=True)
    sizes = {"sparse": list(map(int, args.megabytes.split(","))), "scalar": [0], "dense": [100]}
    for model in args.model.split(","):
        for megabytes in sizes[model]:
            for workers in map(int, args.workers.split(",")):
                compare(systems, args, model, megabytes, workers)


def compare(systems, args, model, megabytes, workers):
    rounds = {system: [] for system in systems}
    for _ in range(args.rounds):
        for system, command in systems.items():
            rounds[system].append(measure(command, args, model, megabytes, workers))
    for case in ("steps", "checkpoint") if model == "sparse" else ("steps",):
        line = f"{model:>6} {megabytes:>5} MB {workers:>7} {case:<11}"
        values = {}
        for system, results in rounds.items():
            values[system] = [statistics.median(r[case][i] for r in results) for i in (0, 1)]
            line += " {:>14.2f} {:>7.2f}".format(*values[system])
        if len(systems) == 2:
            line += "  {:>6.2f} {:>10.2f}".format(*(values["tensorflow"][i] / values["thalweg"][i] for i in (0, 1)))
        print(line, flush=True)


main()
