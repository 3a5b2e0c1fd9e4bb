# SPDX-License-Identifier: Apache-2.0
"""A driver starts executors that form a cluster among themselves, and feeds partitions of the data to their queues.

This is the way of TensorFlowOnSpark. An executor reserves a port with the driver, waits until all have come, builds the
ClusterSpec from the reservations, and runs the training function in a process of its own, which takes its examples from
a queue of the executor's manager. A parameter server waits for a word on its control queue. Executors are processes of
multiprocessing, or with --spark the tasks of a local Spark (pyspark 3.4 or later, and Java), which is not installed in CI.
"""

import argparse
import multiprocessing
import os
import socket
import sys
import threading
import time
from multiprocessing.managers import BaseManager

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # for Spark's own processes
from toy_data import Digits  # noqa: E402

PS, WORKERS, BATCH, EPOCHS = 1, 2, 50, 4
KEY = b"a key of this cluster"


class ExecutorManager(BaseManager):
    """Has the queues of one executor."""


class DriverManager(BaseManager):
    """Has the reservations."""


def start_manager(names):
    queues = {name: multiprocessing.JoinableQueue() for name in names}
    ExecutorManager.register("get_queue", callable=queues.get)
    manager = ExecutorManager(("localhost", 0), KEY)
    manager.start()
    return manager


def connect(address):
    ExecutorManager.register("get_queue")
    manager = ExecutorManager(tuple(address), KEY)
    manager.connect()
    return manager


class Reservations:
    """The driver's list of executors."""

    def __init__(self, required):
        self._lock, self._nodes, self.required = threading.Condition(), [], required

    def add(self, node):
        with self._lock:
            self._nodes.append(node)
            self._lock.notify_all()

    def await_all(self):
        with self._lock:
            self._lock.wait_for(lambda: len(self._nodes) == self.required)
            return sorted(self._nodes, key=lambda node: node["executor"])


class DataFeed:
    """What the training function sees of its queue. None is the end of the data."""

    def __init__(self, manager):
        self._queue, self._done = manager.get_queue("input"), False

    def should_stop(self):
        return self._done

    def next_batch(self, n):
        batch = []
        while len(batch) < n:
            item = self._queue.get(block=True)
            self._queue.task_done()
            if item is None:
                self._done = True
                break
            batch.append(item)
        return batch


def main_fun(spec, job, index, address):
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    cluster = tf.train.ClusterSpec(spec)
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    feed = DataFeed(connect(address))
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % index, cluster=cluster)):
        x, y = tf.placeholder(tf.float32, [None, 144]), tf.placeholder(tf.float32, [None, 10])
        w = tf.get_variable("w", [144, 10], initializer=tf.truncated_normal_initializer(stddev=0.05, seed=1))
        logits = tf.matmul(x, w) + tf.get_variable("b", [10], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdagradOptimizer(0.3).minimize(loss, global_step=step)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % index])
    with tf.train.MonitoredTrainingSession(server.target, is_chief=index == 0, config=config) as session:
        seen = value = 0
        while not session.should_stop() and not feed.should_stop():
            batch = feed.next_batch(BATCH)
            if batch:
                images, labels = zip(*batch)
                _, value = session.run([train, accuracy], {x: np.array(images), y: np.array(labels)})
                seen += len(batch)
    connect(address).get_queue("output").put((seen, float(value)))


def executor(number, reserve, await_all):
    """One executor. Its training function runs in the background; the executor stays to be fed."""
    manager = start_manager(["input", "output", "control"])
    job, index = ("ps", number) if number < PS else ("worker", number - PS)
    holder = socket.socket()
    holder.bind(("localhost", 0))
    reserve({"executor": number, "job": job, "port": holder.getsockname()[1], "manager": list(manager.address)})
    nodes = await_all()
    spec = {name: ["localhost:%d" % n["port"] for n in nodes if n["job"] == name] for name in ("ps", "worker")}
    holder.close()
    process = multiprocessing.get_context("spawn").Process(target=main_fun, args=(spec, job, index, manager.address))
    process.start()
    if job == "ps":
        manager.get_queue("control").get()  # until the driver says that all data were fed and all workers ended
        process.terminate()
        process.join()
    else:
        process.join()
        manager.get_queue("control").get()
        if process.exitcode:
            raise SystemExit(process.exitcode)


def feed(nodes, partitions):
    """Puts partitions into the queues of workers; each worker gets its own."""
    workers = [connect(n["manager"]) for n in nodes if n["job"] == "worker"]

    def feed_one(manager, rows):
        queue = manager.get_queue("input")
        for row in rows:
            queue.put(row)
        queue.join()
        queue.put(None)

    threads = [threading.Thread(target=feed_one, args=pair) for pair in zip(workers, partitions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [manager.get_queue("output").get() for manager in workers]


def run_executors(reservations, with_spark):
    """Starts the executors; returns a function that waits for their end."""
    DriverManager.register("reserve", callable=reservations.add)
    DriverManager.register("await_all", callable=reservations.await_all)
    driver = DriverManager(("localhost", 0), KEY)
    server = driver.get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = server.address
    if not with_spark:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=run_executor, args=(i, address)) for i in range(PS + WORKERS)]
        for process in processes:
            process.start()

        def wait():
            for process in processes:
                process.join()
            return [process.exitcode for process in processes]
        return wait
    from pyspark import SparkConf, SparkContext
    context = SparkContext(conf=SparkConf().setMaster("local[%d]" % (PS + WORKERS)).setAppName("catalogue"))
    for name in ("spark_launched.py", "toy_data.py"):
        context.addPyFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), name))
    codes = []

    def run_partition(numbers):
        import spark_launched  # by name: what this process holds cannot be pickled
        for number in numbers:
            spark_launched.run_executor(number, address)

    def job():
        context.parallelize(range(PS + WORKERS), PS + WORKERS).foreachPartition(run_partition)
        codes.append(0)
    thread = threading.Thread(target=job)
    thread.start()

    def wait():
        thread.join()
        context.stop()
        return codes or [1]
    return wait


def run_executor(number, address):
    DriverManager.register("reserve")
    DriverManager.register("await_all")
    driver = DriverManager(address, KEY)
    driver.connect()
    executor(number, driver.reserve, lambda: driver.await_all()._getvalue())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark", action="store_true", help="executors are tasks of a local Spark")
    args = parser.parse_args()
    reservations = Reservations(PS + WORKERS)
    wait = run_executors(reservations, args.spark)
    nodes = reservations.await_all()
    data = [Digits(seed=i) for i in range(WORKERS)]
    partitions = [[(d.images[k], d.one_hot[k]) for _ in range(EPOCHS) for k in range(len(d.labels))] for d in data]
    outputs = feed(nodes, partitions)
    for node in reversed(nodes):
        connect(node["manager"]).get_queue("control").put(None)
    codes = wait()
    if any(codes):
        raise SystemExit("executors ended with %s" % codes)
    print("RESULT accuracy=%.4f rows=%d" % (min(value for _, value in outputs), sum(n for n, _ in outputs)), flush=True)


if __name__ == "__main__":
    main()
