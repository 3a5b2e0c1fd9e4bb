# SPDX-License-Identifier: Apache-2.0
"""Small data that every program of the catalogue can learn from in seconds."""

import numpy as np


class Digits:
    """Images of ten classes: a pattern for each, and noise."""

    def __init__(self, n=600, size=12, seed=0):
        patterns = np.random.RandomState(7).rand(10, size * size)
        random = np.random.RandomState(seed)
        self.labels = random.randint(10, size=n).astype(np.int32)
        self.images = (patterns[self.labels] + 0.3 * random.randn(n, size * size)).astype(np.float32)
        self.one_hot = np.eye(10, dtype=np.float32)[self.labels]
        self._next = 0

    def next_batch(self, n):
        if self._next + n > len(self.labels):
            self._next = 0
        at = slice(self._next, self._next + n)
        self._next += n
        return self.images[at], self.one_hot[at]


def linear(n=512, width=4, seed=0):
    """y = x w + noise."""
    random = np.random.RandomState(seed)
    x = random.randn(n, width).astype(np.float32)
    truth = np.linspace(-1, 2, width).astype(np.float32)[:, None]
    return x, (x @ truth + 0.01 * random.randn(n, 1)).astype(np.float32)


def words(n=2000, vocabulary=30, seed=0):
    """Numbers of words, each of which mostly follows from the one before."""
    follows = np.random.RandomState(5).permutation(vocabulary)
    random = np.random.RandomState(seed)
    ids = [0]
    for _ in range(n - 1):
        ids.append(int(follows[ids[-1]]) if random.rand() < 0.9 else int(random.randint(vocabulary)))
    return np.array(ids, np.int32)


def ratings(users=40, items=30, n=2000, seed=0):
    """(user, item, rating) of a matrix of rank 2."""
    random = np.random.RandomState(3)
    u, v = random.randn(users, 2), random.randn(items, 2)
    random = np.random.RandomState(seed)
    us, vs = random.randint(users, size=n), random.randint(items, size=n)
    return us.astype(np.int32), vs.astype(np.int32), np.sum(u[us] * v[vs], 1).astype(np.float32)
