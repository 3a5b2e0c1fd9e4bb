# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: ops that train a model by themselves."""

import numpy as np
import tensorflow as tf

from cases.case_builder import floats, longs, variable


def scalar(value):
    return np.array(value, np.int64)


def kmeans(c):
    points = floats((40, 3))
    for seed in (0, 7, 1 << 40):
        for retries in (-1, 0, 3):
            c.case("KmeansPlusPlusInitialization", f"{seed} {retries}", points=points, num_to_sample=scalar(5),
                   seed=scalar(seed), num_retries_per_sample=scalar(retries))
        c.case("KMC2ChainInitialization", f"{seed}", distances=np.abs(floats((50,))) + .01, seed=scalar(seed))
    for k in (0, 1, 3, 9):
        c.case("NearestNeighbors", f"{k}", points=points, centers=floats((7, 3), seed=2), k=scalar(k), tolerance=1e-4)
    c.case("NearestNeighbors", "many", points=floats((300, 5)), centers=floats((1500, 5), seed=2), k=scalar(2),
           tolerance=1e-3)
    c.error("KmeansPlusPlusInitialization", "too many", points=points, num_to_sample=scalar(41), seed=scalar(1),
            num_retries_per_sample=scalar(0))
    c.error("KmeansPlusPlusInitialization", "rank", points=floats((4,)), num_to_sample=scalar(1), seed=scalar(1),
            num_retries_per_sample=scalar(0))
    c.error("KMC2ChainInitialization", "none", distances=floats((0,)), seed=scalar(1))
    c.error("NearestNeighbors", "sizes", points=points, centers=floats((7, 2)), k=scalar(1))
    c.error("NearestNeighbors", "none", points=floats((0, 3)), centers=floats((7, 3)), k=scalar(1))


LOSSES = ("logistic_loss", "squared_loss", "hinge_loss", "smooth_hinge_loss", "poisson_loss")


def problem(c, count):
    """Examples without common features, because TensorFlow processes them in any order. It writes to the memory of the
    state that it is given, so every case has one of its own."""
    dense = np.zeros((count, count), np.float32)
    dense[np.arange(count), np.arange(count)] = 1 + np.arange(count)
    state = tf.fill([count, 4], c.feed(np.float32(c.count())) * 0)
    return dict(
        sparse_example_indices=[longs(*range(count)), longs(*range(count))],
        sparse_feature_indices=[longs(*(10 * np.arange(count))), longs(*range(count))],
        sparse_feature_values=[np.linspace(.5, 2, count).astype(np.float32)], dense_features=[dense],
        example_weights=np.linspace(1, 2, count).astype(np.float32),
        example_labels=(np.arange(count) % 2).astype(np.float32),
        sparse_indices=[longs(*(10 * np.arange(count))), longs(*range(count))],
        sparse_weights=[np.linspace(-1, 1, count).astype(np.float32), np.zeros(count, np.float32)],
        dense_weights=[np.linspace(1, -1, count).astype(np.float32)], example_state_data=state)


def sdca(c):
    for op in ("SdcaOptimizer", "SdcaOptimizerV2"):
        for loss in LOSSES:
            for l1, partitions in ((0., 1), (.3, 4)):
                c.case(op, f"{loss} {l1} {partitions}", loss_type=loss, l1=l1, l2=1.5, num_loss_partitions=partitions,
                       num_inner_iterations=1, tolerance=1e-4, **problem(c, 6))
        wrong = problem(c, 6) | dict(example_labels=np.full(6, .5, np.float32))
        c.error(op, "label", loss_type="logistic_loss", l1=0., l2=1., num_loss_partitions=1, num_inner_iterations=1,
                **wrong)
        wrong = problem(c, 6) | dict(example_state_data=np.zeros((5, 4), np.float32))
        c.error(op, "state", loss_type="logistic_loss", l1=0., l2=1., num_loss_partitions=1, num_inner_iterations=1,
                **wrong)
        wrong = problem(c, 6)
        wrong["sparse_feature_indices"][1] = longs(0, 1, 2, 3, 4, 99)
        c.error(op, "feature", loss_type="logistic_loss", l1=0., l2=1., num_loss_partitions=1, num_inner_iterations=1,
                **wrong)
    c.case("SdcaFprint", input=np.array(["", "a", "hello"], object))
    c.error("SdcaFprint", "rank", input=np.array([["a"]], object))
    weights = [variable(c, np.float32([-2, -.1, 0, .1, 2])), variable(c, floats((3,)))]
    with tf.control_dependencies(c.apply("SdcaShrinkL1", weights=weights, l1=.5, l2=1.)):
        c.add("SdcaShrinkL1", [tf.identity(w) for w in weights])


FAMILIES = (kmeans, sdca)
