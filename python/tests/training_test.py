# SPDX-License-Identifier: Apache-2.0
"""Tests that TensorFlow reads the files of a training (checkpoints and their list, graphs, events), and the reverse."""

import glob
import os
import subprocess
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorboard.backend.event_processing import event_accumulator
from tensorflow_testlib import PROGRAM

v1 = tf.compat.v1
REGRESSION = os.path.join(os.environ["THALWEG_BIN"], "examples", "regression")


class TrainingTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(tf.Graph().as_default())

    def train(self, last_step, *flags):
        out = subprocess.run([REGRESSION, f"--checkpoint_dir={self.folder}", f"--last_step={last_step}", *flags],
                             capture_output=True, text=True, timeout=120)
        self.assertEqual(out.returncode, 0, out.stderr)
        return out.stdout

    def variables(self):
        """The variables of the example, in a graph of TensorFlow."""
        v1.train.get_or_create_global_step()
        names = ("slope", "offset")
        made = [v1.get_variable(name, [], use_resource=False, initializer=tf.zeros_initializer()) for name in names]
        v1.train.AdamOptimizer(0.1).minimize(tf.square(made[0] + made[1]), global_step=v1.train.get_global_step())
        return dict(zip(names, made))

    def test_tensorflow_restores_ours_and_we_restore_tensorflows(self):
        self.assertIn("step 200: y = 2.0", self.train(200))
        state = tf.train.get_checkpoint_state(self.folder)
        self.assertEqual(state.model_checkpoint_path, os.path.join(self.folder, "model.ckpt-200"))
        self.assertEqual([os.path.basename(p) for p in state.all_model_checkpoint_paths],
                         ["model.ckpt-0", "model.ckpt-200"])
        variables = self.variables()
        saver = v1.train.Saver()
        with v1.Session() as session:
            saver.restore(session, tf.train.latest_checkpoint(self.folder))
            slope, offset, step = session.run([variables["slope"], variables["offset"], v1.train.get_global_step()])
            self.assertAlmostEqual(float(slope), 2, delta=0.1)
            self.assertAlmostEqual(float(offset), 1, delta=0.1)
            self.assertEqual(step, 200)
            # Back: what TensorFlow saves at step 300 is where the next run starts.
            session.run(v1.assign(variables["slope"], 2.0))
            session.run(v1.assign(v1.train.get_global_step(), 300))
            saver.save(session, os.path.join(self.folder, "model.ckpt"), global_step=300)
        self.assertIn("step 300: y = 2.00 x + ", self.train(300))
        self.assertIn("step 310: y = ", self.train(310))
        verify = subprocess.run([PROGRAM, "checkpoint", "verify", self.folder,
                                 os.path.join(self.folder, "model.ckpt-300")], capture_output=True, text=True)
        self.assertEqual(verify.returncode, 0, verify.stderr)

    def test_sharded_checkpoints_of_tensorflow(self):
        """A training continues from a sharded checkpoint with a partitioned variable that TensorFlow wrote."""
        with tf.device("/cpu:0"):
            self.variables()
        values = np.arange(12, dtype=np.float32).reshape(6, 2)
        parts = list(v1.get_variable("table", [6, 2], use_resource=False, partitioner=v1.fixed_size_partitioner(2)))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run([v1.assign(parts[0], values[:3]), v1.assign(parts[1], values[3:])])
            path = v1.train.Saver(sharded=True).save(session, os.path.join(self.folder, "model.ckpt"), global_step=5)
        show = subprocess.run([PROGRAM, "checkpoint", "show", path, "--tensor=table"], capture_output=True, text=True)
        self.assertEqual(show.stdout, "table: float [6,2] [0 1 2 3 4 5 6 7 8 9 10 11]\n", show.stderr)
        self.train(1)  # what the graph does not have does not disturb it

    def test_tensorflow_imports_the_graph(self):
        self.train(10)
        saver = v1.train.import_meta_graph(os.path.join(self.folder, "model.ckpt-10.meta"))
        with v1.Session() as session:
            saver.restore(session, os.path.join(self.folder, "model.ckpt-10"))
            self.assertEqual(session.run("global_step:0"), 10)
            self.assertEqual({v.op.name for v in v1.trainable_variables()}, {"slope", "offset"})
            # Its own nodes save, too.
            saved = saver.save(session, os.path.join(self.folder, "again"))
        self.assertTrue(os.path.exists(saved + ".index"))

    def test_tensorboard_reads_the_events(self):
        self.train(100)
        (path,) = glob.glob(os.path.join(self.folder, "events.out.tfevents.*"))
        losses, histograms, others = {}, {}, []
        for event in v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "loss":
                    losses[event.step] = value.simple_value
                elif value.tag == "error":
                    histograms[event.step] = value.histo.num
            others.append(event.WhichOneof("what"))
        self.assertEqual(sorted(losses), list(range(1, 101, 10)))
        self.assertLess(losses[91], losses[1])
        self.assertEqual(set(histograms.values()), {32})
        self.assertEqual(others[:2], ["file_version", "graph_def"])
        graph = v1.GraphDef()
        with open(os.path.join(self.folder, "graph.pbtxt"), encoding="utf8") as text:
            text_format.Parse(text.read(), graph)
        self.assertIn("slope", [node.name for node in graph.node])
        # The next run has a file of its own.
        self.train(120)
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "events.out.tfevents.*"))), 2)

    def test_tensorboard_reads_images_and_histograms(self):
        out = subprocess.run([os.path.join(os.path.dirname(REGRESSION), "cifar10_train"), "--generated", "--steps=2",
                              "--batch_size=4", "--checkpoint_dir=" + self.folder],
                             capture_output=True, text=True, timeout=120)
        self.assertEqual(out.returncode, 0, out.stderr)
        events = event_accumulator.EventAccumulator(self.folder)
        events.Reload()
        for i in range(3):
            (image,) = events.Images("images/image/%d" % i)
            self.assertEqual((image.step, image.height, image.width), (1, 24, 24))
            with v1.Session() as session:
                pixels = session.run(tf.io.decode_png(image.encoded_image_string))
            self.assertEqual(pixels.shape, (24, 24, 3))
            self.assertGreater(pixels.std(), 10)
        weights = events.Histograms("conv2d/kernel/values")[0].histogram_value
        self.assertEqual(weights.num, 5 * 5 * 3 * 64)
        self.assertEqual(sum(weights.bucket), weights.num)
        self.assertLess(weights.max, 0.2)  # twice the deviation of 0.05, and two steps
        self.assertAlmostEqual(events.Scalars("learning_rate")[0].value, 0.1, places=6)
        self.assertIn("conv2d/kernel", [node.name for node in v1.GraphDef.FromString(
            events.Graph().SerializeToString()).node])


if __name__ == "__main__":
    v1.disable_eager_execution()
    unittest.main()
