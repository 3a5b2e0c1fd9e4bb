# SPDX-License-Identifier: Apache-2.0
"""A tagger of words with a conditional random field: a feedable iterator that switches between training and validation by
string handles, datasets initialized by a hook, padded batches, and a FeedFnHook."""

import argparse

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", default="")
parser.add_argument("--worker_hosts", default="")
parser.add_argument("--job_name", default="")
parser.add_argument("--task_index", type=int, default=0)
FLAGS, _ = parser.parse_known_args()

WORDS, TAGS = 20, 4


def sentences(n, seed):
    """The tag of a word depends on the word and on the tag before."""
    def generate():
        random = np.random.RandomState(seed)
        for _ in range(n):
            words = random.randint(1, WORDS, size=random.randint(3, 9))
            tags, before = [], 0
            for word in words:
                before = (word + (before == 1)) % TAGS
                tags.append(before)
            yield words.astype(np.int64), np.array(tags, np.int32)
    return generate


def dataset(n, seed):
    data = tf.data.Dataset.from_generator(sentences(n, seed), (tf.int64, tf.int32), ([None], [None]))
    data = data.map(lambda words, tags: (words, tags, tf.size(words)))
    return data.padded_batch(16, ([None], [None], []))


class StartIterators(v1.train.SessionRunHook):
    """Initializes datasets and fetches their handles, once a session is there."""

    def __init__(self, iterators):
        self._initializers = [it.initializer for it in iterators]
        self._handles = [it.string_handle() for it in iterators]

    def after_create_session(self, session, coord):
        session.run(self._initializers)
        self.handles = session.run(self._handles)


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = v1.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    v1.set_random_seed(3)
    worker = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(worker):
        train_data = dataset(160, FLAGS.task_index).repeat().prefetch(1)
        valid_data = dataset(64, 99)
        handle = v1.placeholder(tf.string, [])
        iterator = v1.data.Iterator.from_string_handle(handle, train_data.output_types, train_data.output_shapes)
        words, tags, lengths = iterator.get_next()
        iterators = [train_data.make_initializable_iterator(), valid_data.make_initializable_iterator()]
    keep = v1.placeholder_with_default(1.0, [])
    with tf.device(v1.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        embedding = v1.get_variable("embedding", [WORDS, 12], initializer=v1.random_uniform_initializer(-0.5, 0.5, seed=1))
        inputs = tf.nn.dropout(tf.nn.embedding_lookup(embedding, words), keep)
        outputs, _ = v1.nn.dynamic_rnn(v1.nn.rnn_cell.GRUCell(16, kernel_initializer=v1.glorot_uniform_initializer(seed=2)),
                                       inputs, lengths, dtype=tf.float32)
        scores = v1.layers.dense(outputs, TAGS, kernel_initializer=v1.glorot_uniform_initializer(seed=4))
        likelihood, transitions = tf.contrib.crf.crf_log_likelihood(scores, tags, lengths)
        loss = tf.reduce_mean(-likelihood)
        decoded, _ = tf.contrib.crf.crf_decode(scores, transitions, lengths)
        mask = tf.sequence_mask(lengths)
        right = tf.reduce_sum(tf.cast(tf.boolean_mask(tf.equal(decoded, tags), mask), tf.float32))
        count = tf.cast(tf.reduce_sum(lengths), tf.float32)
        step = v1.train.get_or_create_global_step()
        train = tf.contrib.layers.optimize_loss(loss, step, 0.02, "Adam", clip_gradients=5.0,
                                                summaries=["learning_rate", "loss", "gradient_norm"])
    start = StartIterators(iterators)
    hooks = [start, v1.train.FeedFnHook(lambda: {keep: 1.0})]
    with v1.train.MonitoredSession(
            v1.train.ChiefSessionCreator(master=server.target) if FLAGS.task_index == 0 else
            v1.train.WorkerSessionCreator(master=server.target), hooks=hooks) as session:
        train_handle, valid_handle = start.handles
        first = None
        for _ in range(60):
            _, value = session.run([train, loss], {handle: train_handle})
            first = first or value
        rights, total, ended = 0.0, 0.0, 0
        while not ended:
            try:
                r, n = session.run([right, count], {handle: valid_handle})
                rights, total = rights + r, total + n
            except tf.errors.OutOfRangeError:
                ended = 1
    print("RESULT first=%.4f loss=%.4f accuracy=%.4f words=%d" % (first, value, rights / total, total))


if __name__ == "__main__":
    main()
