# SPDX-License-Identifier: Apache-2.0
"""What programs do around training: device lists, callables, partial runs, traces with a timeline, assertions, prints,
summaries of contrib, reinitializable iterators, parts of variables read from the checkpoint, and a second session."""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.client import timeline

v1 = tf.compat.v1

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", default="")
parser.add_argument("--worker_hosts", default="")
parser.add_argument("--job_name", default="")
parser.add_argument("--task_index", type=int, default=0)
FLAGS, _ = parser.parse_known_args()


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = v1.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    folder = tempfile.mkdtemp()
    tf.enable_resource_variables()
    writer = tf.contrib.summary.create_file_writer(folder, flush_millis=100)
    with tf.device(v1.train.replica_device_setter(cluster=cluster)), writer.as_default(), \
            tf.contrib.summary.always_record_summaries():
        step = v1.train.get_or_create_global_step()
        random = np.random.RandomState(0)
        x_all = random.randn(256, 4).astype(np.float32)
        y_all = x_all.dot(np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32))
        with tf.device("/job:worker/task:0"):
            parts = [tf.data.Dataset.from_tensor_slices((x_all[part], y_all[part])).batch(16)
                     for part in (slice(0, 192), slice(192, 256))]
            iterator = v1.data.Iterator.from_structure(parts[0].output_types, parts[0].output_shapes)
            starts = [iterator.make_initializer(part) for part in parts]
            x, y = iterator.get_next()
        w = v1.get_variable("w", [4, 1], initializer=v1.zeros_initializer(), partitioner=v1.fixed_size_partitioner(2))
        loss = v1.losses.mean_squared_error(y, tf.matmul(x, w))
        loss = tf.Print(loss, [loss], "loss: ", first_n=1)
        with tf.control_dependencies([v1.assert_non_negative(loss), v1.Assert(tf.reduce_all(tf.is_finite(loss)), [loss])]):
            loss = tf.identity(loss)
        tf.contrib.summary.scalar("loss", loss, step=step)
        train = v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss, step)
        accumulated = v1.get_local_variable("accumulated", [], initializer=v1.zeros_initializer(),
                                            collections=[v1.GraphKeys.LOCAL_VARIABLES])
        accumulate = v1.assign_add(accumulated, loss)
        a, b = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
        doubled, total = a * 2.0, None
        total = doubled + b
        scanned = tf.scan(lambda s, e: s * 0.5 + e, tf.range(5, dtype=tf.float32))
        mapped = tf.map_fn(lambda e: tf.cond(e > 2, lambda: e * 10, lambda: e), tf.range(5, dtype=tf.float32))
    saver = v1.train.Saver(sharded=True, max_to_keep=2)
    config = v1.ConfigProto(graph_options=v1.GraphOptions(
        optimizer_options=v1.OptimizerOptions(opt_level=v1.OptimizerOptions.L0)))
    with v1.Session(server.target, config=config) as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer(),
                     tf.contrib.summary.summary_writer_initializer_op()])
        print("uninitialized", session.run(v1.report_uninitialized_variables()).tolist())
        devices = session.list_devices()
        cpus = sum(d.device_type == "CPU" for d in devices)
        step_of = session.make_callable([train, loss])
        for _ in range(12):
            session.run(starts[0])
            while True:
                try:
                    step_of()
                except tf.errors.OutOfRangeError:
                    break
        session.run(starts[1])
        for _ in range(4):
            session.run([accumulate] + tf.contrib.summary.all_summary_ops())
        mean = session.run(accumulated) / 4
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
        metadata = v1.RunMetadata()
        session.run(starts[0])
        session.run([train, loss], options=options, run_metadata=metadata)
        trace = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True))
        names = {e.get("name") for e in trace["traceEvents"]}
        partial = session.partial_run_setup([doubled, total], [a, b])
        half = session.partial_run(partial, doubled, {a: 3.0})
        whole = session.partial_run(partial, total, {b: half + 1})
        path = saver.save(session, os.path.join(folder, "model"), global_step=step)
        values = session.run(tf.concat(list(w), 0)).ravel()
        scan, mapping = session.run([scanned, mapped])
        session.run(tf.contrib.summary.flush(writer))
    reader = v1.train.NewCheckpointReader(path)
    restored = reader.get_tensor("w").ravel()
    events = [name for name in os.listdir(folder) if "tfevents" in name]
    summaries = [v.tag for name in events for e in v1.train.summary_iterator(os.path.join(folder, name))
                 for v in e.summary.value]
    print("RESULT cpus=%d loss=%.5f w0=%.3f w3=%.3f restored=%.5f whole=%g scan=%g mapped=%g matmul=%d summaries=%d parts=%d" % (
        cpus, mean, values[0], values[3], abs(values - restored).max(), whole, scan[-1], mapping.sum(),
        "MatMul" in names, len(summaries), len(metadata.partition_graphs)))


if __name__ == "__main__":
    main()
