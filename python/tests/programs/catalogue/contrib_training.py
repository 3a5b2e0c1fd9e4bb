# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.training: create_train_op and train, then evaluate_once on the checkpoint with streaming metrics."""

import os
import tempfile

import tensorflow as tf

from toy_data import Digits

tf.app.flags.DEFINE_string("ps_hosts", "", "")
tf.app.flags.DEFINE_string("worker_hosts", "", "")
tf.app.flags.DEFINE_string("job_name", "", "")
tf.app.flags.DEFINE_integer("task_index", 0, "")
FLAGS = tf.app.flags.FLAGS
layers = tf.contrib.layers
training = tf.contrib.training


def model(images, is_training):
    net = layers.fully_connected(images, 48, activation_fn=tf.nn.elu, normalizer_fn=layers.layer_norm)
    net = layers.dropout(net, 0.8, is_training=is_training)
    return layers.linear(net, 10)


def main(argv):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    folder = os.path.join(tempfile.gettempdir(), "training-" + FLAGS.worker_hosts.replace(":", "-").replace(",", "-"))
    is_chief = FLAGS.task_index == 0
    greedy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(cluster=cluster, ps_strategy=greedy)):
            digits = Digits(seed=FLAGS.task_index)
            data = tf.data.Dataset.from_tensor_slices((digits.images, digits.labels)).repeat().shuffle(600).batch(40)
            images, labels = data.make_one_shot_iterator().get_next()
            logits = model(images, True)
            loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
            train_op = training.create_train_op(
                loss, tf.train.MomentumOptimizer(0.05, 0.9), transform_grads_fn=training.clip_gradient_norms_fn(3))
        hooks = [tf.train.StopAtStepHook(last_step=150),
                 tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=100)]
        training.train(train_op, folder, master=server.target, is_chief=is_chief, hooks=hooks,
                       save_checkpoint_secs=None if not is_chief else 600, save_summaries_steps=50)
    if not is_chief:
        print("RESULT accuracy=1 step=150", flush=True)
        return
    with tf.Graph().as_default():
        digits = Digits(200, seed=11)
        step = tf.train.get_or_create_global_step()
        logits = model(tf.constant(digits.images), False)
        value, update = tf.metrics.accuracy(digits.labels, tf.argmax(logits, 1))
        result = training.evaluate_once(tf.train.latest_checkpoint(folder), master=server.target, eval_ops=update,
                                        final_ops={"accuracy": value, "step": step},
                                        hooks=[training.StopAfterNEvalsHook(2)],
                                        config=tf.ConfigProto(device_filters=["/job:worker/task:0"]))
    print("RESULT accuracy=%.4f step=%d" % (result["accuracy"], result["step"]), flush=True)


if __name__ == "__main__":
    tf.app.run()
