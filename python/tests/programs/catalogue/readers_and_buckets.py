# SPDX-License-Identifier: Apache-2.0
"""Files of SequenceExamples through string_input_producer and TFRecordReader, bucketed by length, with an LSTM."""

import os
import tempfile

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("ps_hosts", "", "")
tf.app.flags.DEFINE_string("worker_hosts", "", "")
tf.app.flags.DEFINE_string("job_name", "", "")
tf.app.flags.DEFINE_integer("task_index", 0, "")
FLAGS = tf.app.flags.FLAGS


def write_files(folder, seed):
    random, paths = np.random.RandomState(seed), []
    for part in range(2):
        paths.append(os.path.join(folder, "part-%d.tfrecord" % part))
        options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
        with tf.python_io.TFRecordWriter(paths[-1], options) as writer:
            for _ in range(120):
                ids = random.randint(1, 20, size=random.randint(2, 12))
                example = tf.train.SequenceExample()
                example.context.feature["label"].int64_list.value.append(int(ids[0] > 10))
                for i in ids:
                    example.feature_lists.feature_list["ids"].feature.add().int64_list.value.append(int(i))
                writer.write(example.SerializeToString())
    return paths


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    paths = write_files(tempfile.mkdtemp(), FLAGS.task_index)
    worker = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(worker + "/cpu:0"):
        names = tf.train.string_input_producer(tf.train.match_filenames_once(os.path.dirname(paths[0]) + "/part-*"),
                                               shuffle=True, num_epochs=12)
        reader = tf.TFRecordReader(options=tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP))
        _, serialized = reader.read(names)
        context, sequence = tf.parse_single_sequence_example(
            serialized, {"label": tf.FixedLenFeature([], tf.int64)}, {"ids": tf.FixedLenSequenceFeature([], tf.int64)})
        length = tf.shape(sequence["ids"])[0]
        _, (lengths, ids, labels) = tf.contrib.training.bucket_by_sequence_length(
            length, [length, sequence["ids"], context["label"]], batch_size=16, bucket_boundaries=[4, 8],
            dynamic_pad=True, capacity=64, allow_smaller_final_batch=True)
        read = reader.num_records_produced()
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        step = tf.contrib.framework.get_or_create_global_step()
        embeddings = tf.contrib.framework.model_variable("embeddings", [20, 8],
                                                         initializer=tf.random_uniform_initializer(-1, 1, seed=1))
        cell = tf.contrib.rnn.LSTMBlockCell(16)
        inputs = tf.nn.embedding_lookup(embeddings, ids)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(cell, tf.contrib.rnn.GRUBlockCellV2(16), inputs,
                                                     sequence_length=lengths, dtype=tf.float32)
        first = tf.concat([outputs[0][:, 0], outputs[1][:, 0]], 1)
        logits = tf.contrib.layers.fully_connected(first, 2, activation_fn=None)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        train = tf.contrib.layers.optimize_loss(loss, step, 0.02, "Adam", clip_gradients=5.0,
                                                summaries=["loss", "gradient_norm"])
    config = tf.ConfigProto(device_filters=["/job:ps", worker])
    supervisor = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, logdir=tempfile.mkdtemp(), global_step=step,
                                     save_model_secs=0, recovery_wait_secs=1, summary_op=None,
                                     local_init_op=tf.local_variables_initializer())
    losses = []
    with supervisor.managed_session(server.target, config=config) as session:
        while not supervisor.should_stop():
            try:
                value, records, _ = session.run([loss, read, train])
            except tf.errors.OutOfRangeError:
                break
            losses.append(value)
        supervisor.request_stop()
    print("RESULT loss=%.4f records=%d" % (np.mean(losses[-10:]), records), flush=True)


if __name__ == "__main__":
    tf.app.run()
