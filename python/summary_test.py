"""Summaries of images: what is in the PNG files must be the same, whatever the compressor made of it."""

import unittest

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import summary_pb2
from tensorflow_testlib import Step, difference, run_tensorflow, run_thalweg

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


if __name__ == "__main__":
    v1.disable_eager_execution()
    unittest.main()
