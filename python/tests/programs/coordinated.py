# SPDX-License-Identifier: Apache-2.0
"""Coordinators whose threads are blocked: queue runners on a full queue, and others on an empty one."""

import argparse
import os
import threading
import time

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--part", required=True, choices=["noise", "grace"])
parser.add_argument("--stop", help="part noise goes on when this file exists")
FLAGS = parser.parse_args()

server = tf.train.Server.create_local_server()
full = tf.FIFOQueue(1, tf.int32, shapes=[[]], name="full")
empty = tf.FIFOQueue(1, tf.int32, shapes=[[]], name="empty")
fill = full.enqueue(1, name="fill")
take = empty.dequeue(name="take_from_empty")
put = empty.enqueue(2)


def wait_until_full(session):
    while session.run(full.size()) < 1:
        pass


if FLAGS.part == "noise":
    # A runner blocks before the step that takes from the empty queue, which the server logs after 10 s.
    tf.train.add_queue_runner(tf.train.QueueRunner(full, [fill] * 2))
    with tf.Session(server.target) as session:
        coord = tf.train.Coordinator()
        runners = tf.train.start_queue_runners(session, coord)
        wait_until_full(session)
        waiting = threading.Thread(target=session.run, args=[take])
        waiting.start()
        print("waiting", flush=True)
        while not os.path.exists(FLAGS.stop):
            time.sleep(0.1)
        session.run(put)
        waiting.join()
        coord.request_stop()
        coord.join(runners)
else:
    for _ in range(2):
        with tf.Session(server.target) as session:
            coord = tf.train.Coordinator()
            stuck = threading.Thread(target=lambda: take_all(session))

            def take_all(session):
                try:
                    session.run(take)
                except tf.errors.CancelledError:
                    print("cancelled", flush=True)

            stuck.start()
            coord.request_stop()
            try:
                coord.join([stuck])
            except RuntimeError as error:
                print("threads are left:", "Coordinator stopped with threads still running" in str(error), flush=True)
        stuck.join()
print("end", flush=True)
