# SPDX-License-Identifier: Apache-2.0
"""The variable modes of tf_cnn_benchmarks on a small model: where variables live, and how towers share gradients.

Every worker has two towers, on CPU devices, whose inputs are staged one step ahead.
"""

import argparse

import tensorflow.compat.v1 as tf
from tensorflow.python.distribute import all_reduce
from tensorflow.python.ops import collective_ops
from tensorflow.python.ops.data_flow_ops import StagingArea

from toy_data import linear

tf.disable_v2_behavior()

MODES = ["parameter_server", "replicated", "distributed_replicated", "independent", "distributed_all_reduce",
         "collective_all_reduce"]
parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--variable_update", choices=MODES, required=True)
parser.add_argument("--num_batches", type=int, default=50)
FLAGS = parser.parse_args()
TOWERS, RATE = 2, 0.1

hosts = {"worker": FLAGS.worker_hosts.split(",")}
if FLAGS.ps_hosts:
    hosts["ps"] = FLAGS.ps_hosts.split(",")
cluster = tf.train.ClusterSpec(hosts)
workers, mode = cluster.num_tasks("worker"), FLAGS.variable_update
worker_prefix = "/job:worker/task:%d" % FLAGS.task_index
config = tf.ConfigProto(device_count={"CPU": TOWERS}, allow_soft_placement=True)
if mode == "collective_all_reduce":
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, config=config)
is_controlled = mode == "distributed_all_reduce" and FLAGS.task_index > 0
if FLAGS.job_name == "ps" or is_controlled:
    server.join()


def sync_queues(name, dependencies):
    """Ends when all workers have come."""
    with tf.control_dependencies(dependencies):
        if workers == 1:
            return tf.no_op()
    with tf.device("/job:ps/task:0/cpu:0"):
        queues = [tf.FIFOQueue(workers, [tf.bool], shapes=[[]], shared_name="%s%d" % (name, i)) for i in range(workers)]
        with tf.control_dependencies(dependencies):
            tokens = [queue.enqueue(False) for i, queue in enumerate(queues) if i != FLAGS.task_index]
        with tf.control_dependencies(tokens):
            return queues[FLAGS.task_index].dequeue_many(workers - 1)


class Towers:
    """Towers of the workers `tasks`: devices, staged inputs and losses."""

    def __init__(self, tasks):
        self.devices = ["/job:worker/task:%d/cpu:%d" % (task, i) for task in tasks for i in range(TOWERS)]
        self.puts, self.inputs = [], []
        for k, device in enumerate(self.devices):
            task, i = tasks[k // TOWERS], k % TOWERS
            x, y = linear(64, seed=task)
            with tf.device(device):
                area = StagingArea([tf.float32, tf.float32], [[32, 4], [32, 1]])
                self.puts.append(area.put([tf.constant(x[i::TOWERS]), tf.constant(y[i::TOWERS])]))
                self.inputs.append(area.get())

    def gradients(self, variables):
        """One loss and one gradient a tower, with respect to the variable that it reads."""
        losses, gradients = [], []
        for device, (x, y), variable in zip(self.devices, self.inputs, variables):
            with tf.device(device):
                losses.append(tf.reduce_mean(tf.square(tf.matmul(x, variable) - y)))
                gradients.append(tf.gradients(losses[-1], [variable])[0])
        return losses, gradients


def make_variable(name, device, local=False):
    with tf.device(device):
        return tf.get_variable(name, [4, 1], initializer=tf.zeros_initializer(), use_resource=False, collections=[
            tf.GraphKeys.LOCAL_VARIABLES if local else tf.GraphKeys.GLOBAL_VARIABLES])


def build():
    """The losses, the op of a step, and the variable to look at."""
    tasks = list(range(workers)) if mode == "distributed_all_reduce" else [FLAGS.task_index]
    towers = Towers(tasks)
    if mode == "parameter_server":
        shared = make_variable("v", "/job:ps/task:0")
        losses, gradients = towers.gradients([shared] * TOWERS)
        with tf.control_dependencies([sync_queues("computed", gradients)]), tf.device("/job:ps/task:0"):
            update = shared.assign_sub(RATE / (TOWERS * workers) * tf.add_n(gradients), use_locking=True)
        return towers, losses, sync_queues("applied", [update]), shared
    # Every tower has a copy.
    local = mode != "replicated"
    copies = [make_variable("v%d" % i, device, local) for i, device in enumerate(towers.devices)]
    losses, gradients = towers.gradients(copies)
    if mode in ("replicated", "independent"):
        with tf.device(towers.devices[0]):
            mean = tf.add_n(gradients) / TOWERS
        updates = [copy.assign_sub(RATE * mean) for copy in copies]
        return towers, losses, tf.group(*updates), copies[-1]
    if mode == "distributed_replicated":
        shared = make_variable("v", "/job:ps/task:0")
        with tf.device("/job:ps/task:0"):
            update = shared.assign_sub(RATE / (TOWERS * workers) * tf.add_n(gradients), use_locking=True)
        with tf.control_dependencies([sync_queues("applied", [update])]):
            assigns = []
            for device, copy in zip(towers.devices, copies):
                with tf.device(device):
                    assigns.append(copy.assign(shared.read_value()))
        return towers, losses, sync_queues("copied", assigns), copies[-1]
    if mode == "distributed_all_reduce":
        sums = all_reduce.build_ring_all_reduce(gradients, workers, 1, list(range(TOWERS)), tf.add)
    else:
        sums = []
        for i, (device, gradient) in enumerate(zip(towers.devices, gradients)):
            with tf.device(device):
                sums.append(collective_ops.all_reduce(gradient, TOWERS * workers, 1, 1, "Add", "Id"))
    updates = []
    for device, copy, total in zip(towers.devices, copies, sums):
        with tf.device(device):
            updates.append(copy.assign_sub(RATE / (TOWERS * workers) * total))
    return towers, losses, tf.group(*updates), copies[-1]


towers, losses, train, watched = build()
mean_loss = tf.add_n(losses) / len(losses)
step = tf.group(train, *towers.puts)
if mode != "distributed_all_reduce":
    config.device_filters.extend(["/job:ps", worker_prefix])
init, local_init = tf.global_variables_initializer(), tf.local_variables_initializer()
is_chief = FLAGS.task_index == 0 or mode in ("replicated", "independent", "collective_all_reduce")
scaffold = tf.train.Scaffold(init_op=init, local_init_op=local_init)
with tf.train.MonitoredTrainingSession(server.target, is_chief, scaffold=scaffold, config=config) as session:
    session.run_step_fn(lambda step_context: step_context.session.run(towers.puts))  # the first inputs
    for _ in range(FLAGS.num_batches):
        value = session.run([mean_loss, step])[0]
    w = session.run(watched)
print("RESULT loss=%.4f w0=%.3f" % (value, w[0, 0]), flush=True)
