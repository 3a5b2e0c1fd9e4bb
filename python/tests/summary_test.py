# SPDX-License-Identifier: Apache-2.0
"""Summaries of images, and event files that ops write.

The pixels of the PNG files must be the same; their compressed bytes may differ.
"""

import glob
import itertools
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import summary_pb2
from tensorflow.core.util import event_pb2
from tensorflow_testlib import Failure, Step, difference, run_tensorflow, run_thalweg

v1 = tf.compat.v1


class SummaryTest(unittest.TestCase):

    def images(self, summary):
        """Tags and pixels."""
        values = summary_pb2.Summary.FromString(summary.item()).value
        with tf.Graph().as_default(), v1.Session() as session:
            return [(v.tag, v.image.height, v.image.width, v.image.colorspace,
                     session.run(tf.io.decode_png(v.image.encoded_image_string))) for v in values]

    def test_images(self):
        random = np.random.RandomState(1)
        steps = []
        with tf.Graph().as_default() as graph:
            for depth in (1, 3, 4):
                for low, high in ((0, 255), (-3, 5), (0, 1e-9)):
                    values = random.uniform(low, high, (4, 5, 6, depth)).astype(np.float32)
                    values[1, 2, 3, 0] = np.nan
                    values[2, 0, 0, 0] = np.inf
                    for images in (values, values.astype(np.float16), values.astype(np.float64)):
                        steps.append(Step(fetches=[v1.summary.image("x", images).name]))
                with np.errstate(invalid="ignore"):
                    steps.append(Step(fetches=[v1.summary.image("x", values.astype(np.uint8), max_outputs=1).name]))
            color = tf.make_tensor_proto([1, 2, 3, 4], tf.uint8)
            summary = tf.raw_ops.ImageSummary(tag="x", tensor=values, max_images=2, bad_color=color)
            steps.append(Step(fetches=[summary.name]))
        for ours, theirs in zip(run_thalweg(graph, steps), run_tensorflow(graph, steps)):
            a, b = self.images(ours[0]), self.images(theirs[0])
            self.assertEqual([x[:4] for x in a], [x[:4] for x in b])
            for x, y in zip(a, b):
                self.assertIsNone(difference(x[4], y[4]), x[0])

    def writers(self, folder):
        """A graph that writes one event of each kind, and its steps."""
        steps, random = [], np.random.RandomState(1)
        raw = tf.raw_ops
        with tf.Graph().as_default() as graph:
            writer = raw.SummaryWriter(shared_name="w", container="")

            def step(op):
                steps.append(Step(targets=[op.name]))
            step(raw.FlushSummaryWriter(writer=writer))  # nobody opened it
            step(raw.CreateSummaryFileWriter(writer=writer, logdir=folder, max_queue=2, flush_millis=1000,
                                             filename_suffix=".end"))
            at = dict(writer=writer, step=tf.constant(7, tf.int64))
            for dtype in (tf.float32, tf.int32, tf.float16):
                step(raw.WriteScalarSummary(tag="s", value=tf.cast(3.5, dtype), **at))
            step(raw.WriteHistogramSummary(tag="h", values=random.uniform(-3, 3, 50).astype(np.float32), **at))
            step(raw.WriteHistogramSummary(tag="h", values=[True, False, True], **at))
            metadata = summary_pb2.SummaryMetadata(display_name="d").SerializeToString()
            for value in ([1., 2.], ["a", "b"]):
                step(raw.WriteSummary(tensor=value, tag="t", summary_metadata=metadata, **at))
            step(raw.WriteAudioSummary(tag="a", tensor=random.uniform(-1, 1, (2, 9)).astype(np.float32),
                                       sample_rate=8000., **at))
            step(raw.WriteImageSummary(tag="i", tensor=random.uniform(0, 255, (2, 3, 4, 1)).astype(np.float32),
                                       bad_color=tf.constant([255, 0, 0, 255], tf.uint8), **at))
            step(raw.WriteGraphSummary(tensor=tf.Graph().as_graph_def().SerializeToString(), **at))
            summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="r", simple_value=2)])
            step(raw.WriteRawProtoSummary(tensor=[summary.SerializeToString()] * 2, **at))
            event = event_pb2.Event(step=3, wall_time=4, summary=summary)
            step(raw.ImportEvent(writer=writer, event=event.SerializeToString()))
            step(raw.ImportEvent(writer=writer, event="no event"))
            step(raw.WriteRawProtoSummary(tensor="no summary", **at))
            step(raw.CloseSummaryWriter(writer=writer))
            step(raw.CloseSummaryWriter(writer=writer))
        return graph, steps

    def events(self, folder):
        (path,) = glob.glob(folder + "/events.out.tfevents.*.end")
        for event in v1.train.summary_iterator(path):
            if event.wall_time != 4:
                self.assertGreater(event.wall_time, 1e9)
                event.ClearField("wall_time")
            event.ClearField("source_metadata")
            for value in event.summary.value:
                if value.HasField("image"):
                    value.image.encoded_image_string = b""
                elif value.HasField("tensor"):  # packed or not
                    value.tensor.CopyFrom(tf.make_tensor_proto(tf.make_ndarray(value.tensor)))
            yield event

    def test_writers(self):
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            results = [run(*self.writers(folder))
                       for run, folder in ((run_thalweg, ours), (run_tensorflow, theirs))]
            codes = [[r.code if isinstance(r, Failure) else 0 for r in steps] for steps in results]
            self.assertEqual(codes[0], codes[1])
            self.assertGreater(codes[0].count(0), 10)
            for a, b in itertools.zip_longest(self.events(ours), self.events(theirs)):
                self.assertEqual(a, b)


if __name__ == "__main__":
    v1.disable_eager_execution()
    unittest.main()
