# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of programs/catalogue/ on TensorFlow's servers and on Thalweg's, and compares results and ends.

    THALWEG_BIN=build/release/bin python python/tests/catalogue.py [--only NAME] [--skip_tensorflow] [--mixed ps|worker]

Each program is written as public TensorFlow 1 programs are, learns from a few hundred examples, and prints one line
"RESULT name=value ..." in every task that trains. Programs that compute the same whatever the order of their steps
must give TensorFlow's numbers; of the others the results must be as good. Every task must end by itself on Thalweg,
with code 0, without a traceback, and at most 5 s after the last worker. Thalweg's parameter servers of TensorFlow's
workers end by themselves too, but later: such workers do not say that they are done, so the servers wait until no call
has arrived for a while. TensorFlow's parameter servers never end, and are killed.

A run takes about half an hour. With --resume=FILE, runs that ended well are kept and not repeated, until the program
changes.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import tensorflow
from ports import free_ports
from program_testlib import PROGRAMS, Process

PROGRAMS_FOLDER = "catalogue"
TIMEOUT = 240  # time limit of a program in seconds, generous for a busy machine
HANG_TIMEOUT = 60  # the same for programs that are known not to end on TensorFlow's servers
ENDING_LIMIT = 5.0  # seconds from the end of the last worker to that of every other task

# same: relative tolerance against TensorFlow's value. within: what both must reach, as (lowest, highest).
# tensorflow: False if TensorFlow's own tasks do not end, for the reason that `note` gives.
# launch: how tasks learn who they are: by flags, by TF_CONFIG (with an evaluator, or a master in place of the
# chief) or by TonY's variables. "alone" is a single task, and "driver" a script that starts the tasks.
Program = collections.namedtuple("Program", "script ps workers args same within launch late tensorflow note")


def program(script, ps=1, workers=2, args=(), same=None, within=None, launch="flags", late=False, tensorflow=True,
            note=""):
    return Program(script, ps, workers, tuple(args), same or {}, within or {}, launch, late, tensorflow, note)


CATALOGUE = collections.OrderedDict([
    ("softmax, Supervisor, asynchronous", program("softmax_supervisor.py", within={"accuracy": (0.9, 1)})),
    ("softmax, one worker", program("softmax_supervisor.py", workers=1, same={"accuracy": 1e-3})),
    ("softmax, a worker that joins late", program("softmax_supervisor.py", late=True, within={"accuracy": (0.9, 1)},
                                                  tensorflow=False, note="the chief waits for the worker")),
    ("queues of examples, Coordinator", program("queue_input.py", within={"loss": (0, 0.5)})),
    ("CSV files through readers", program("reader_csv.py", launch="alone", same={"steps": 0, "w0": 1e-2, "w3": 1e-2})),
    ("TFRecords in queue runners", program("tfrecord_queue.py", within={"loss": (0, 0.8)})),
    ("CNN, synchronous, checkpoints", program("cnn_sync.py", within={"loss": (0, 0.8)})),
    ("PTB, two workers", program("ptb_lstm.py", within={"perplexity": (1, 12)})),
    ("PTB, one worker", program("ptb_lstm.py", workers=1, same={"sixth": 1e-3}, within={"perplexity": (1, 3)})),
    ("matrix factorization, 2 ps", program("matrix_factorization.py", ps=2, within={"loss": (0, 0.6)})),
    ("word2vec, NCE", program("word2vec_nce.py", within={"loss": (0, 4), "trace": (29.9, 30.1)})),
    ("denoising autoencoder", program("autoencoder.py", within={"cost": (0, 0.15)})),
    ("autoencoder, one worker", program("autoencoder.py", workers=1, same={"cost": 1e-3})),
    ("GAN, one worker", program("gan.py", workers=1, same={"d_loss": 1e-2, "g_loss": 1e-2, "mean": 2e-2})),
    ("GAN, two workers", program("gan.py", within={"d_loss": (0, 5)})),
    ("A3C, threads", program("a3c.py", within={"reward": (0.8, 1)})),
    ("TF_CONFIG with a chief", program("tf_config.py", launch="tf_config", within={"loss": (0, 0.01)})),
    ("hooks, and a training that goes on", program("hooks.py", within={"step": (80, 82), "loss": (0, 0.2)})),
    ("threads that feed a queue", program("python_threads.py", within={"loss": (0, 0.5)})),
    ("tf.data, one worker", program("tfdata.py", workers=1, same={"accuracy": 1e-3, "loss": 1e-3})),
    ("tf.data, two workers", program("tfdata.py", within={"accuracy": (0.9, 1)})),
    ("k-means", program("kmeans.py", workers=1, same={"rounds": 0, "inertia": 1e-4})),
    ("wide and deep, 2 ps", program("wide_deep.py", ps=2, within={"auc": (0.7, 1)})),
    ("DQN, one worker", program("dqn.py", workers=1, same={"right": 1e-3})),
    ("actors and a learner", program("actor_learner.py", within={"loss": (0, 0.5)})),
    ("seq2seq with attention, one worker", program("seq2seq.py", workers=1, same={"loss": 5e-2})),
    ("seq2seq with attention, two workers", program("seq2seq.py", within={"loss": (0, 1.5)})),
    ("synchronous, as many batches each", program("sync_uneven.py", args=["--batches=20,20"],
                                                  within={"batches": (20, 20)}, tensorflow=False,
                                                  note="workers wait for the chief that has left")),
    ("synchronous, a worker leaves early", program("sync_uneven.py", args=["--batches=30,10"], tensorflow=False,
                                                   note="the chief waits for gradients of the worker that has left")),
    ("synchronous, without extra tokens", program("sync_uneven.py", args=["--batches=30,10", "--num_tokens=0"],
                                                  tensorflow=False, note="as above")),
    ("synchronous, the chief leaves first", program("sync_uneven.py", args=["--batches=10,30"], tensorflow=False,
                                                    note="workers wait for the chief that has left")),
    ("synchronous, a backup worker", program("sync_uneven.py", workers=3, args=["--batches=20,20,8", "--aggregate=2"],
                                             tensorflow=False, note="as above")),
    ("synchronous, several gradients each", program("sync_uneven.py", args=["--batches=24,8", "--aggregate=4"],
                                                    tensorflow=False, note="as above")),
    ("synchronous, a worker without batches", program("sync_uneven.py", args=["--batches=20,0", "--num_tokens=0"],
                                                      tensorflow=False, note="as above")),
    ("synchronous, Supervisor, uneven", program("sync_uneven.py", args=["--batches=30,10", "--supervisor"],
                                                tensorflow=False, note="as above")),
    ("synchronous, Supervisor that stops twice", program("sync_uneven.py",
                                                         args=["--batches=20,20", "--supervisor", "--stop"],
                                                         tensorflow=False, note="as above")),
    ("synchronous, a session that stays open", program("open_end.py", within={"accuracy": (0.8, 1)})),
    ("synchronous, backup worker, averages", program("sync_averages.py", workers=3, within={"loss": (0, 1)})),
    ("replicated variables behind a barrier", program("replicated.py", same={"loss": 1e-3, "w0": 1e-3})),
    ("tf.keras in a server's session", program("keras_session.py", workers=1, same={"loss": 1e-2, "accuracy": 1e-2})),
    ("text, lookup tables", program("text_tables.py", workers=1, same={"loss": 1e-3})),
    ("text, two workers", program("text_tables.py", within={"loss": (0, 0.4)})),
    ("Saver, meta graph and SavedModel", program("saved_model.py", within={"restored": (-1, 1), "loaded": (0, 0)})),
    ("SavedModel, one worker", program("saved_model.py", workers=1, same={"y": 1e-3}, within={"restored": (0, 0),
                                                                                             "loaded": (0, 0)})),
    ("staging and padded batches", program("staging.py", workers=1, same={"loss": 1e-3, "w": 1e-3})),
    ("Estimator, train_and_evaluate", program("estimator.py", launch="tf_config", within={"accuracy": (0.8, 1)})),
    ("DNNClassifier, with an evaluator", program("canned_estimators.py", args=["--model=dnn"], launch="evaluator",
                                                 within={"accuracy": (0.8, 1), "exported": (0.7, 1)})),
    ("LinearClassifier, with an evaluator", program("canned_estimators.py", args=["--model=linear"], launch="evaluator",
                                                    within={"accuracy": (0.8, 1), "exported": (0.7, 1)})),
    ("DNNLinearCombinedClassifier, 2 ps", program("canned_estimators.py", ps=2, args=["--model=combined"],
                                                  launch="evaluator",
                                                  within={"accuracy": (0.8, 1), "exported": (0.7, 1)})),
    ("BoostedTreesClassifier", program("canned_estimators.py", args=["--model=trees"], launch="evaluator",
                                       within={"accuracy": (0.7, 1), "exported": (0.6, 1)})),
    ("Keras model as an estimator", program("keras_estimator.py", launch="tf_config", within={"accuracy": (0.8, 1)})),
    ("Estimator, ParameterServerStrategy", program("strategy_estimator.py", args=["--strategy=ps"], launch="tf_config",
                                                   within={"accuracy": (0.8, 1)})),
    ("Estimator, MultiWorkerMirroredStrategy", program("strategy_estimator.py", ps=0, args=["--strategy=all_reduce"],
                                                       launch="tf_config", within={"accuracy": (0.8, 1)})),
    ("py_func and from_generator, one worker", program("py_func_input.py", workers=1, same={"loss": 1e-3})),
    ("py_func and from_generator", program("py_func_input.py", within={"accuracy": (0.9, 1)})),
    ("DeepFM, 2 ps", program("deepfm.py", ps=2, within={"loss": (0, 0.7)})),
    ("DeepFM, one worker", program("deepfm.py", ps=2, workers=1, same={"loss": 1e-2})),
    ("REINFORCE", program("reinforce.py", within={"score": (0.75, 1)})),
    ("hogwild threads", program("hogwild.py", within={"loss": (0, 0.05)})),
    ("one trains, one follows its checkpoints", program("checkpoint_follower.py", same={"loss": 1e-3})),
    ("feature columns, from Examples", program("feature_columns.py", within={"loss": (0, 0.5)})),
    ("in-graph replication", program("in_graph.py", same={"loss": 1e-4, "w0": 1e-4})),
    ("tf.contrib.slim", program("slim_learning.py", within={"loss": (0, 1)}, tensorflow=False,
                                note="the worker waits for the chief that has left")),
    ("tf.contrib.training, 2 ps", program("contrib_training.py", ps=2, within={"accuracy": (0.9, 1),
                                                                               "step": (150, 152)})),
    ("tf.contrib.learn, Experiment", program("learn_experiment.py", launch="tf_config", within={"accuracy": (0.8, 1)},
                                             tensorflow=False, note="as above")),
    ("partitioned embeddings, 2 ps", program("partitioned_embeddings.py", ps=2,
                                             within={"accuracy": (0.9, 1), "partitions": (3, 3)})),
    ("Scaffold and session creators", program("scaffold_session.py", within={"loss": (0, 0.01)})),
    ("SessionManager", program("session_manager.py", within={"accuracy": (0.9, 1)})),
    ("warm start, BestExporter", program("warm_start.py", launch="tf_config", within={"accuracy": (0.8, 1),
                                                                                     "loaded": (0.8, 1)})),
    ("loops across tasks", program("loops_across_devices.py", workers=1, same={"loss": 1e-3})),
    ("TFConfigClusterResolver, towers", program("cluster_resolver.py", launch="tf_config", within={"loss": (0, 1)},
                                                tensorflow=False, note="as above")),
    ("elastic averaging", program("elastic_averaging.py", within={"loss": (0, 1)}, tensorflow=False,
                                  note="the worker may wait for the chief that has left")),
    ("model averaging, one worker", program("elastic_averaging.py", workers=1, args=["--optimizer=average"],
                                            within={"loss": (0, 0.1)})),
    ("AGN, one worker", program("elastic_averaging.py", workers=1, args=["--optimizer=agn"],
                                within={"loss": (0, 0.5)})),
    ("SequenceExamples in buckets", program("readers_and_buckets.py", within={"loss": (0, 0.3),
                                                                              "records": (2880, 2880)})),
    ("staged variables, one worker", program("staged_variables.py", workers=1, within={"accuracy": (0.9, 1)})),
    ("environments in Python, unrolled", program("py_environments.py", workers=3, within={"reward": (0.6, 1)})),
    ("launched as by TonY", program("tony_launched.py", launch="tony", within={"accuracy": (0.9, 1)})),
    ("launched as by Spark, fed by the driver", program("spark_launched.py", launch="driver", same={"rows": 0},
                                                        within={"accuracy": (0.9, 1)})),
    ("Inception's blocks, synchronous, averages", program("inception_sync.py", ps=2, within={"loss": (0, 2)}, tensorflow=False,
                                                         note="a worker may wait for the chief that has left")),
    ("CIFAR-10, several GPUs a worker", program("cifar10_multi_gpu.py", within={"loss": (0, 1.5)})),
    ("an embedding of 2 million rows, 2 ps", program("large_embedding.py", ps=2, within={
        "loss": (0, 0.5), "accuracy": (0.8, 1), "touched": (1000, 2000)})),
    ("asynchronous, uneven data", program("uneven_data.py", workers=3, same={"examples": 0, "batches": 0},
                                          within={"w0": (-1.1, -0.9)})),
    ("LatestExporter, with an evaluator", program("latest_exporter.py", launch="evaluator", same={"kept": 0},
                                                  within={"accuracy": (0.8, 1)})),
    ("LatestExporter, with a master", program("latest_exporter.py", launch="master", same={"kept": 0},
                                              within={"accuracy": (0.8, 1)})),
    ("speech, CTC, one worker", program("ctc_speech.py", ps=2, workers=1, same={"first": 1e-3},
                                        within={"loss": (0, 4), "error": (0, 0.6)})),
    ("speech, CTC, 2 ps", program("ctc_speech.py", ps=2, within={"loss": (0, 4), "error": (0, 0.6)})),
    ("tagger, CRF, string handles", program("crf_tagger.py", workers=1, same={"first": 1e-3, "words": 0},
                                            within={"loss": (0, 2), "accuracy": (0.9, 1)})),
    ("traces, partial runs, callables", program("profiled.py", workers=1, same={
        "loss": 1e-2, "w0": 2e-3, "whole": 0, "scan": 0, "mapped": 0, "matmul": 0, "summaries": 0, "restored": 0})),
    ("variables on parameter servers, towers", program("variable_modes.py", args=["--variable_update=parameter_server"],
                                                       same={"loss": 1e-2, "w0": 2e-3})),
    ("replicated variables, one worker", program("variable_modes.py", workers=1, args=["--variable_update=replicated"],
                                                 same={"loss": 1e-2, "w0": 2e-3})),
    ("distributed replicated variables, towers", program(
        "variable_modes.py", args=["--variable_update=distributed_replicated"], same={"loss": 1e-2, "w0": 2e-3})),
    ("independent workers, towers", program("variable_modes.py", args=["--variable_update=independent"],
                                            same={"loss": 1e-2, "w0": 2e-3})),
    ("ring all-reduce in one graph", program("variable_modes.py", ps=0, args=["--variable_update=distributed_all_reduce"],
                                             same={"loss": 1e-2, "w0": 2e-3})),
    ("collective all-reduce, towers", program("variable_modes.py", ps=0, args=["--variable_update=collective_all_reduce"],
                                              same={"loss": 1e-2, "w0": 2e-3})),
])


def command_lines(entry):
    """The tasks of a program: (job, index, port, arguments, environment)."""
    if entry.launch in ("alone", "driver"):
        return [("worker", 0, None, list(entry.args), {})]
    jobs = [("ps", entry.ps), ("worker", entry.workers)]
    if entry.launch in ("tf_config", "evaluator", "master"):
        jobs = [("ps", entry.ps), ("master" if entry.launch == "master" else "chief", 1), ("worker", entry.workers - 1)]
    jobs = [(job, n) for job, n in jobs if n > 0]
    ports = iter(free_ports(sum(n for _, n in jobs)))
    cluster = {job: ["localhost:%d" % next(ports) for _ in range(n)] for job, n in jobs}
    lines = []
    for job, n in jobs:
        for index in range(n):
            port = int(cluster[job][index].split(":")[1])
            if entry.launch == "tony":
                lines.append((job, index, port, list(entry.args), {
                    "CLUSTER_SPEC": json.dumps(cluster), "JOB_NAME": job, "TASK_INDEX": str(index)}))
            elif entry.launch != "flags":
                config = {"cluster": cluster, "task": {"type": job, "index": index}}
                lines.append((job, index, port, list(entry.args), {"TF_CONFIG": json.dumps(config)}))
            else:
                flags = ["--ps_hosts=" + ",".join(cluster.get("ps", [])), "--worker_hosts=" + ",".join(cluster["worker"]),
                         "--job_name=" + job, "--task_index=%d" % index]
                lines.append((job, index, port, flags + list(entry.args), {}))
    if entry.launch == "evaluator":  # it is not in the cluster
        config = {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
        lines.append(("evaluator", 0, None, list(entry.args), {"TF_CONFIG": json.dumps(config)}))
    return lines


class Run:
    """The outcome of one run: results, problems, and the seconds from the last worker's end to that of all tasks."""

    def __init__(self, results=None, problems=None, seconds=0.0, ending=0.0):
        self.results, self.problems, self.seconds, self.ending = results or {}, problems or [], seconds, ending

    def to_json(self):
        return {"results": self.results, "problems": self.problems, "seconds": round(self.seconds, 2),
                "ending": round(self.ending, 2)}


def read_results(output):
    found = re.findall(r"^.*RESULT (.*)$", output, re.M)
    return {k: float(v) for k, v in (pair.split("=") for pair in found[-1].split())} if found else None


def is_listening(port):
    with socket.socket() as s:
        return s.connect_ex(("localhost", port)) == 0


def trainers(entry, tasks):
    """The tasks that train; the first is the chief. Other tasks only serve, and end by themselves only on Thalweg."""
    if entry.script == "actor_learner.py":
        return tasks
    one_trains = entry.script == "in_graph.py" or "--variable_update=distributed_all_reduce" in entry.args
    return [task for task in tasks if task[0] != "ps" and not (one_trains and task[1] > 0)]


def wait_for_chief(entry, task, end):
    """Workers that find no variables look again 30 s later, so the chief is given a start: that of a server, or for
    one that is to be late, of the training."""
    _, _, process = task
    while time.time() < end and process.is_running() and not is_listening(process.port):
        time.sleep(0.1)
    if entry.late:
        process.wait_for("step")


def run(entry, thalweg, timeout=TIMEOUT):
    """`thalweg` selects the tasks that run on Thalweg's servers: True (all), False (none), "ps" or "worker"."""
    outcome, tasks, start = Run(), [], time.time()
    end = start + timeout
    try:
        for job, index, port, args, env in command_lines(entry):
            if job == "worker" and len(trainers(entry, tasks)) == 1:
                wait_for_chief(entry, trainers(entry, tasks)[0], end)
            process = Process(os.path.join(PROGRAMS_FOLDER, entry.script), *args, env=env,
                              thalweg=thalweg if isinstance(thalweg, bool) else (thalweg == "ps") == (job == "ps"))
            process.port = port
            tasks.append((job, index, process))
        for job, index, process in trainers(entry, tasks):
            wait_for_end(outcome, job, index, process, end)
            if not outcome.problems:
                results = read_results(process.output)
                if results is None:
                    outcome.problems.append("%s %d prints no result" % (job, index))
                else:
                    outcome.results = dict(results, **outcome.results)  # the chief's come first
        if thalweg in (True, "ps") and not outcome.problems:
            for job, index, process in tasks:
                wait_for_end(outcome, job, index, process, end)
            for job, index, process in tasks:
                if "Traceback (most recent call last)" in process.output:
                    outcome.problems.append("%s %d prints a traceback" % (job, index))
            last_worker = max(process.script_ended_at for _, _, process in trainers(entry, tasks))
            outcome.ending = max(0.0, max(process.ended_at for _, _, process in tasks) - last_worker)
            if thalweg is True:
                outcome.problems += late_ends(tasks, last_worker)
        outcome.seconds = time.time() - start
        if outcome.problems:
            outcome.problems.append("".join("---- %s %d\n%s" % (j, i, p.output[-3000:]) for j, i, p in tasks))
    finally:
        for _, _, process in tasks:
            process.kill()
    return outcome


def wait_for_end(outcome, job, index, process, end):
    try:
        code = process.wait(max(1, end - time.time()))
    except subprocess.TimeoutExpired:
        outcome.problems.append("%s %d does not end" % (job, index))
        return
    if code != 0:
        outcome.problems.append("%s %d ended with code %d" % (job, index, code))


def late_ends(tasks, last_worker):
    """The problems of tasks that outlive the last worker, with their servers, by more than the limit."""
    return ["%s %d ended %.1f s after the last worker, expected at most %g s" % (
        job, index, process.ended_at - last_worker, ENDING_LIMIT)
            for job, index, process in tasks if process.ended_at - last_worker > ENDING_LIMIT]


def compare(entry, ours, theirs):
    problems = []
    for name, (low, high) in entry.within.items():
        for who, results in (("Thalweg", ours), ("TensorFlow", theirs)):
            if results and not low <= results[name] <= high:
                problems.append("%s's %s is %g, expected %g to %g" % (who, name, results[name], low, high))
    for name, tolerance in entry.same.items():
        if theirs and abs(ours[name] - theirs[name]) > tolerance * max(abs(theirs[name]), 1e-3):
            problems.append("%s is %g, TensorFlow's %g" % (name, ours[name], theirs[name]))
    return problems


def run_on_tensorflow(entry):
    return run(entry, thalweg=False, timeout=TIMEOUT if entry.tensorflow else HANG_TIMEOUT)


def problems_of(entry, ours, theirs):
    """All that keeps a program from passing. `theirs` is None if it did not run on TensorFlow's servers."""
    if not entry.tensorflow:  # how far it came there is for the table alone
        theirs = None
    problems = ["Thalweg: " + p for p in ours.problems]
    if theirs is not None:
        problems += ["TensorFlow: " + p for p in theirs.problems]
    return problems or compare(entry, ours.results, theirs.results if theirs else None)


def check(entry, with_tensorflow=True, thalweg=True):
    """Runs a program on both; returns the run on Thalweg, the run on TensorFlow or None, and the problems."""
    ours = run(entry, thalweg)
    theirs = run_on_tensorflow(entry) if with_tensorflow and entry.tensorflow else None
    return ours, theirs, problems_of(entry, ours, theirs)


class Runs:
    """Keeps the outcomes of runs in a file, so that a run of the catalogue can go on where it was interrupted."""

    def __init__(self, path=None):
        self._path, self._runs = path, {}
        if path and os.path.exists(path):
            with open(path) as file:
                self._runs = json.load(file)

    @staticmethod
    def _key(name, where):
        """Changes with the program, whose earlier outcomes count no more."""
        entry = CATALOGUE[name]
        with open(os.path.join(PROGRAMS, PROGRAMS_FOLDER, entry.script), "rb") as file:
            version = hashlib.sha256(file.read() + repr(
                (entry.ps, entry.workers, entry.args, entry.launch, entry.late)).encode()).hexdigest()[:12]
        return "%s | %s | %s" % (name, where, version)

    def get(self, name, where):
        kept = self._runs.get(self._key(name, where))
        return Run(**kept) if kept else None

    def put(self, name, where, outcome):
        self._runs[self._key(name, where)] = outcome.to_json()
        if self._path:
            with open(self._path + ".new", "w") as file:
                json.dump(self._runs, file, indent=1, sort_keys=True)
            os.replace(self._path + ".new", self._path)

    def get_or_run(self, name, where, function):
        """Runs `function` unless an outcome without problems is there."""
        outcome = self.get(name, where)
        if outcome is None or outcome.problems:
            outcome = function()
            self.put(name, where, outcome)
        return outcome


TABLE_TITLE = "## Programs"
TABLE_HEAD = """
TensorFlow 1 programs of `python/tests/programs/catalogue/`, written as public repositories write them, with TensorFlow
%s as the client. This section is written by `make test-programs ARGS="%s"`. A program passes if its result is
TensorFlow's (or as good, where the order of steps is not fixed) and all of its tasks end by themselves on Thalweg, with
code 0 and at most 5 s after the last worker. TensorFlow's parameter servers never end and are killed. Where its workers
did not end either (within 60 s), the table says why, and only the result on Thalweg is checked. "Not run" means that
the program did not run on TensorFlow's servers. The last column is the time from the end of the last worker until all tasks have ended.

%s

| program | script | tasks | TensorFlow's result | Thalweg's result | passes | all ended after |
|---|---|---|---|---|---|---:|
"""


def show_results(outcome):
    return ", ".join("%s %g" % pair for pair in sorted(outcome.results.items())) or "none"


def show_tensorflow(entry, theirs):
    if theirs is None:
        return "not run" + (": " + entry.note if entry.note else "")
    if not theirs.problems:
        return show_results(theirs)
    first = theirs.problems[0].split("\n")[0]
    return first + (": " + entry.note if entry.note else "")


def table_row(name, entry, ours, theirs, problems):
    tasks = "1" if entry.launch == "alone" else ("a driver's " if entry.launch == "driver" else "") + "%d ps, %d worker%s" % (entry.ps, entry.workers,
                                                                       "" if entry.workers == 1 else "s")
    return "| %s | `%s%s` | %s | %s | %s | %s | %.1f s |\n" % (
        name, entry.script, " " + " ".join(entry.args) if entry.args else "", tasks, show_tensorflow(entry, theirs),
        show_results(ours), "no" if problems else "yes", max(0.0, ours.ending))


def summary(outcomes):
    """One sentence for the head of the table. `outcomes` has (entry, ours, theirs, problems) of every row."""
    ended = sum(theirs is not None and not theirs.problems for _, _, theirs, _ in outcomes)
    return "%d of %d programs pass. On TensorFlow's servers %d ran, and the workers of %d of them ended." % (
        sum(not problems for _, _, _, problems in outcomes), len(outcomes),
        sum(theirs is not None for _, _, theirs, _ in outcomes), ended)


def write_table(path, outcomes):
    """Writes the table of all (name, entry, ours, theirs, problems). Replaces the section of the Markdown file, or adds it at the end. Other sections stay."""
    text = ""
    if os.path.exists(path):
        with open(path) as file:
            text = file.read()
    command = "--table=" + os.path.relpath(path)
    section = TABLE_TITLE + "\n" + TABLE_HEAD % (
        tensorflow.__version__, command, summary([outcome[1:] for outcome in outcomes])) + "".join(
            table_row(*outcome) for outcome in outcomes)
    old = re.search(r"^%s\n.*?(?=^## |\Z)" % TABLE_TITLE, text, re.M | re.S)
    if old:
        text = text[:old.start()] + section + ("\n" if old.end() < len(text) else "") + text[old.end():]
    else:
        text += ("\n" if text else "") + section
    with open(path, "w") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--skip_tensorflow", action="store_true", help="do not run them on TensorFlow's servers")
    parser.add_argument("--mixed", choices=["ps", "worker"], help="only these tasks run on Thalweg's servers")
    parser.add_argument("--table", help="a Markdown file, such as docs/compatibility.md, whose section \"Programs\" to write")
    parser.add_argument("--resume", help="a JSON file that keeps the outcomes of runs; those without problems are not repeated")
    args = parser.parse_args()
    runs, outcomes = Runs(args.resume), []
    for name, entry in CATALOGUE.items():
        if args.only not in name or (args.mixed and not entry.tensorflow):
            continue
        ours = runs.get_or_run(name, args.mixed or "thalweg", lambda: run(entry, args.mixed or True))
        # A run that ends on TensorFlow's servers by chance only is not repeated until it does not.
        theirs = runs.get(name, "tensorflow")
        if not args.skip_tensorflow and (theirs is None or (theirs.problems and entry.tensorflow)):
            theirs = run_on_tensorflow(entry)
            runs.put(name, "tensorflow", theirs)
        problems = problems_of(entry, ours, theirs)
        outcomes.append((name, entry, ours, theirs, problems))
        print("%-4s %-45s %5.1f s, all ended %.1f s after the last worker%s" % (
            "FAIL" if problems else "ok", name, ours.seconds, ours.ending,
            "; TensorFlow %.1f s" % theirs.seconds if theirs else ""), flush=True)
        for problem in problems:
            print("     " + problem, flush=True)
    if args.table:
        write_table(args.table, outcomes)
    failed = sum(bool(problems) for _, _, _, _, problems in outcomes)
    print("%d of %d programs pass" % (len(outcomes) - failed, len(outcomes)))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
