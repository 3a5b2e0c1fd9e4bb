# SPDX-License-Identifier: Apache-2.0
"""A script that ends, in one way or another, while its session is open."""

import argparse
import os
import signal
import subprocess
import sys
import threading

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="return")
FLAGS = parser.parse_args()

server = tf.train.Server.create_local_server()
sess = tf.Session(server.target)
queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
print("one is %d" % sess.run(tf.constant(1)), flush=True)
if FLAGS.how == "thread":  # one that nobody will ever wake
    threading.Thread(target=sess.run, args=(queue.dequeue(),), daemon=True).start()
elif FLAGS.how == "crash":
    for child in subprocess.check_output(["pgrep", "-P", str(os.getpid())]).split():
        os.kill(int(child), signal.SIGKILL)
    sess.run(queue.dequeue())
elif FLAGS.how == "raise":
    raise ValueError("on purpose")
elif FLAGS.how == "sys.exit":
    sys.exit(3)
elif FLAGS.how == "exit":
    exit(4)
elif FLAGS.how == "os._exit":
    os._exit(5)
