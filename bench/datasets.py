#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares input pipelines (tf.data) with TensorFlow, side by side.

A server of TensorFlow and one of Thalweg run the same pipelines for the same client: TFRecord files of Examples, and of
JPEG images, through interleave, map, shuffle, batch and prefetch. Every step takes one batch and gives back one number,
so that the network does not count. The servers take turns, several rounds; the ratio is TensorFlow's time to ours, of
the elapsed time and of the processor time that the servers used. Usage:

    THALWEG_BIN=build/release/bin build/tensorflow/bin/python bench/datasets.py [--rounds N] [--steps N] [--only NAME,...]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "tests"))

import numpy as np
import tensorflow as tf
from ports import free_ports

v1 = tf.compat.v1
THALWEG = os.path.join(os.environ.get("THALWEG_BIN", "build/release/bin"), "thalweg")
SERVE = """
import sys
import tensorflow as tf
tf.distribute.Server({"worker": ["localhost:" + sys.argv[1]]}, job_name="worker", task_index=0).join()
"""
FILES, RECORDS, IMAGES = 4, 4000, 120
FEATURES = {"label": v1.FixedLenFeature([], tf.int64), "values": v1.FixedLenFeature([64], tf.float32)}


def write_files(folder):
    """Records of small Examples, and of Examples with an image."""
    random = np.random.RandomState(7)

    def example(**features):
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    def number(value):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    for i in range(FILES):
        with tf.io.TFRecordWriter(os.path.join(folder, f"examples-{i}")) as writer:
            for k in range(RECORDS):
                values = tf.train.Feature(float_list=tf.train.FloatList(value=random.rand(64)))
                writer.write(example(label=number(k), values=values))
        with tf.io.TFRecordWriter(os.path.join(folder, f"images-{i}")) as writer:
            for k in range(IMAGES):
                pixels = random.randint(0, 255, (28, 28, 3)).repeat(8, 0).repeat(8, 1).astype(np.uint8)
                jpeg = tf.io.encode_jpeg(pixels).numpy()
                writer.write(example(label=number(k), image=tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg]))))


def pipelines(folder):
    """{name: function that makes the dataset, whose elements are batches of numbers}."""
    Dataset, auto = v1.data.Dataset, tf.data.AUTOTUNE
    examples = [os.path.join(folder, f"examples-{i}") for i in range(FILES)]
    images = [os.path.join(folder, f"images-{i}") for i in range(FILES)]

    def parse(record):
        return v1.parse_single_example(record, FEATURES)["values"]

    def parse_batch(records):
        return v1.parse_example(records, FEATURES)["values"]

    def decode(record):
        feature = {"image": v1.FixedLenFeature([], tf.string)}
        image = tf.image.decode_jpeg(v1.parse_single_example(record, feature)["image"], channels=3)
        return tf.cast(v1.image.resize_bilinear([image], [112, 112])[0], tf.float32) / 255. - 0.5

    def read(names, parallel=None):
        return Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=16,
                                                            num_parallel_calls=parallel)

    return {
        "range": lambda: Dataset.range(1 << 40).batch(128).map(lambda x: tf.cast(x, tf.float32)).prefetch(2),
        "map": lambda: Dataset.range(1 << 40).map(lambda x: tf.cast(x, tf.float32) * 2. + 1.).batch(128).prefetch(2),
        "records": lambda: read(examples).repeat().shuffle(1000).map(parse).batch(128).prefetch(2),
        "records, parallel": lambda: read(examples, 2).repeat().shuffle(1000).map(parse, auto).batch(128).prefetch(2),
        "records, parsed in batches": lambda: read(examples).repeat().shuffle(1000).batch(128).map(parse_batch).prefetch(2),
        "slices": lambda: Dataset.from_tensor_slices(np.random.rand(2000, 784).astype(np.float32)).repeat().shuffle(
            1000).batch(128).prefetch(2),
        "images": lambda: read(images).repeat().shuffle(100).map(decode, 2).batch(16).prefetch(2),
        "images, map_and_batch": lambda: read(images, 2).repeat().shuffle(100).apply(
            tf.data.experimental.map_and_batch(decode, 16, num_parallel_calls=2)).prefetch(1),
    }


class Server:
    """A process that serves one task."""

    def __init__(self, command, port):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.target = f"grpc://localhost:{port}"

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.terminate()
        self.process.wait()


def measure(server, session, fetch, steps):
    """Elapsed and processor time of the steps, in seconds."""
    cpu, start = server.cpu_seconds(), time.perf_counter()
    for _ in range(steps):
        session.run(fetch)
    return time.perf_counter() - start, server.cpu_seconds() - cpu


def compare(make, servers, rounds, steps):
    """For every server the medians of elapsed and processor time of a step."""
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:worker/task:0"):
        iterator = v1.data.make_initializable_iterator(make())
        fetch = tf.reduce_sum(iterator.get_next())
    sessions = [v1.Session(server.target, graph=graph) for server in servers]
    times = [[] for _ in servers]
    for session in sessions:
        session.run(iterator.initializer)
        for _ in range(5):
            session.run(fetch)
    for _ in range(rounds):
        for server, session, kept in zip(servers, sessions, times):
            kept.append(measure(server, session, fetch, steps))
    for session in sessions:
        session.close()
    return [[statistics.median(column) / steps for column in zip(*kept)] for kept in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", default="", help="names of pipelines, separated by commas")
    args = parser.parse_args()
    ports = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder)
        v1.disable_eager_execution()
        servers = [Server([sys.executable, "-c", SERVE, str(ports[0])], ports[0]),
                   Server([THALWEG, "server", f"--cluster=worker|localhost:{ports[1]}", "--job_name=worker"], ports[1])]
        try:
            print(f"{'pipeline':28} {'TensorFlow':>22} {'Thalweg':>22} {'ratio':>7} {'cpu':>6}")
            for name, make in pipelines(folder).items():
                if args.only and name not in args.only.split(","):
                    continue
                theirs, ours = compare(make, servers, args.rounds, args.steps)
                shown = [f"{1e3 * t:8.2f} ms {1e3 * cpu:7.2f} cpu" for t, cpu in (theirs, ours)]
                print(f"{name:28} {shown[0]:>22} {shown[1]:>22} {theirs[0] / ours[0]:7.2f} "
                      f"{theirs[1] / max(ours[1], 1e-9):6.2f}", flush=True)
        finally:
            for server in servers:
                server.close()


if __name__ == "__main__":
    main()
