# SPDX-License-Identifier: Apache-2.0
"""The cases of compare_test.py, one module per family of ops."""

from cases import core, images, io, linalg, more, nn, protos, quantize, rarer, sparse, special, trainers
from cases.case_builder import Cases


def build(registered):
    """All cases in one graph. `registered` is the set of op names that Thalweg has."""
    c = Cases(registered)
    with c.graph.as_default():
        for module in (core, io, images, linalg, more, nn, protos, quantize, rarer, sparse, special, trainers):
            for family in module.FAMILIES:
                family(c)
    return c
