# SPDX-License-Identifier: Apache-2.0
"""Speech recognition: a bidirectional LSTM with CTC loss, sparse labels that are fed, variables balanced by size over the
parameter servers, clipped gradients, a decaying learning rate,
averages of the variables, and a beam search."""

import argparse

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", default="")
parser.add_argument("--worker_hosts", default="")
parser.add_argument("--job_name", default="")
parser.add_argument("--task_index", type=int, default=0)
parser.add_argument("--epochs", type=int, default=16)
FLAGS, _ = parser.parse_known_args()

FEATURES, CLASSES, BATCH, STEPS_PER_EPOCH = 6, 5, 8, 10


def utterances(n, random):
    """Frames of features, each symbol two to four frames long, and the symbols."""
    patterns = np.random.RandomState(3).randn(CLASSES, FEATURES) * 2
    for _ in range(n):
        symbols = random.randint(CLASSES - 1, size=random.randint(2, 5))
        frames = [patterns[s] for s in symbols for _ in range(random.randint(2, 5))]
        yield np.array(frames) + 0.1 * random.randn(len(frames), FEATURES), symbols


def batch_of(random):
    pairs = list(utterances(BATCH, random))
    longest = max(len(frames) for frames, _ in pairs)
    inputs = np.zeros([BATCH, longest, FEATURES], np.float32)
    for i, (frames, _) in enumerate(pairs):
        inputs[i, :len(frames)] = frames
    indices = [(i, j) for i, (_, symbols) in enumerate(pairs) for j in range(len(symbols))]
    values = np.concatenate([symbols for _, symbols in pairs]).astype(np.int32)
    shape = [BATCH, max(len(symbols) for _, symbols in pairs)]
    return inputs, [len(frames) for frames, _ in pairs], (np.array(indices), values, shape)


class Model:

    def __init__(self):
        self.inputs = v1.placeholder(tf.float32, [None, None, FEATURES], "inputs")
        self.lengths = v1.placeholder(tf.int32, [None], "lengths")
        self.labels = v1.sparse_placeholder(tf.int32, name="labels")
        cells = [v1.nn.rnn_cell.DropoutWrapper(v1.nn.rnn_cell.LSTMCell(16, use_peepholes=True), output_keep_prob=1.0)
                 for _ in range(2)]
        outputs, _ = v1.nn.bidirectional_dynamic_rnn(cells[0], cells[1], self.inputs, self.lengths, dtype=tf.float32)
        outputs = tf.reshape(tf.concat(outputs, 2), [-1, 32])
        weights = v1.get_variable("weights", [32, CLASSES], initializer=v1.truncated_normal_initializer(stddev=0.1))
        bias = v1.get_variable("bias", [CLASSES], initializer=v1.zeros_initializer())
        logits = tf.reshape(tf.matmul(outputs, weights) + bias, [tf.shape(self.inputs)[0], -1, CLASSES])
        logits = tf.transpose(logits, [1, 0, 2])
        self.loss = tf.reduce_mean(v1.nn.ctc_loss(self.labels, logits, self.lengths))
        decoded, _ = v1.nn.ctc_beam_search_decoder(logits, self.lengths, beam_width=8, merge_repeated=False)
        self.error = tf.reduce_mean(tf.edit_distance(tf.cast(decoded[0], tf.int32), self.labels))

        self.step = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(0.02, self.step, 100, 0.8, staircase=True)
        optimizer = v1.train.AdamOptimizer(rate)
        gradients, variables = zip(*optimizer.compute_gradients(self.loss))
        gradients, self.norm = tf.clip_by_global_norm(gradients, 5.0)
        applied = optimizer.apply_gradients(zip(gradients, variables), global_step=self.step)
        averages = v1.train.ExponentialMovingAverage(0.8, num_updates=self.step)
        with tf.control_dependencies([applied]):
            self.train = averages.apply(v1.trainable_variables())
        v1.summary.scalar("loss", self.loss)
        v1.summary.histogram("weights", weights)


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    config = v1.ConfigProto(allow_soft_placement=True, inter_op_parallelism_threads=4)
    config.device_filters.extend(["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    server = v1.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index,
                             config=config if FLAGS.job_name == "worker" else None)
    if FLAGS.job_name == "ps":
        return server.join()

    balanced = tf.contrib.training.GreedyLoadBalancingStrategy(
        cluster.num_tasks("ps"), tf.contrib.training.byte_size_load_fn)
    v1.set_random_seed(1)
    with tf.device(v1.train.replica_device_setter(cluster=cluster, ps_strategy=balanced,
                                                  worker_device="/job:worker/task:%d" % FLAGS.task_index)):
        model = Model()
    random = np.random.RandomState(FLAGS.task_index)
    hooks = [v1.train.NanTensorHook(model.loss),
             v1.train.StopAtStepHook(last_step=FLAGS.epochs * STEPS_PER_EPOCH * cluster.num_tasks("worker")),
             v1.train.LoggingTensorHook({"loss": model.loss}, every_n_iter=50)]
    losses = []
    with v1.train.MonitoredTrainingSession(server.target, is_chief=FLAGS.task_index == 0, hooks=hooks,
                                           config=config) as session:
        while not session.should_stop():
            inputs, lengths, labels = batch_of(random)
            feed = {model.inputs: inputs, model.lengths: lengths, model.labels: v1.SparseTensorValue(*labels)}
            _, value, error = session.run([model.train, model.loss, model.error], feed)
            losses.append((value, error))
    loss, error = np.mean(losses[-5:], 0)
    print("RESULT first=%.4f loss=%.4f error=%.4f" % (losses[0][0], loss, error))


if __name__ == "__main__":
    main()
