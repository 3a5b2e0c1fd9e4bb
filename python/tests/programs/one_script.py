# SPDX-License-Identifier: Apache-2.0
"""A whole job in one script, whose tasks are processes of multiprocessing."""

import argparse
import multiprocessing
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--method", default="spawn")


def task(job, index, hosts):
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    cluster = tf.train.ClusterSpec(hosts)
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    with tf.device("/job:ps/task:0"):
        counter = tf.get_variable("counter", [], tf.int32, use_resource=False)
        count = tf.cond(tf.is_variable_initialized(counter), lambda: tf.assign_add(counter, 1),
                        lambda: tf.assign(counter, 1))
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % index])
    session = tf.Session(server.target, config=config)
    print("counted to %d" % session.run(count), flush=True)


if __name__ == "__main__":
    FLAGS = parser.parse_args()
    hosts = {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    context = multiprocessing.get_context(FLAGS.method)
    tasks = [context.Process(target=task, args=(job, i, hosts)) for job in hosts for i in range(len(hosts[job]))]
    for process in tasks:
        process.start()
    for process in tasks:
        process.join()
    codes = [process.exitcode for process in tasks]
    print("codes", codes, flush=True)
    sys.exit(any(codes))
