# SPDX-License-Identifier: Apache-2.0
"""Images and labels from IDX files, plain or compressed, and batches of them."""

import gzip
import os

import numpy as np


def read_idx(folder, name):
    for path, opener in ((os.path.join(folder, name + ".gz"), gzip.open), (os.path.join(folder, name), open)):
        if os.path.exists(path):
            with opener(path, "rb") as file:
                data = file.read()
            rank = data[3]
            shape = np.frombuffer(data, ">i4", rank, 4)
            return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)
    raise IOError("no %s in %s" % (name, folder))


class Images(object):

    def __init__(self, folder, prefix, seed):
        self.images = read_idx(folder, prefix + "-images-idx3-ubyte").reshape(-1, 784)
        self.labels = read_idx(folder, prefix + "-labels-idx1-ubyte").astype(np.int32)
        self._random = np.random.RandomState(seed)

    def next_batch(self, n):
        rows = self._random.randint(0, len(self.labels), n)
        return self.images[rows].astype(np.float32) / 255, self.labels[rows]
