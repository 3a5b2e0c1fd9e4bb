# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: Bessel functions, integrals, incomplete gamma and beta, transforms."""

import numpy as np
import tensorflow as tf

from cases.case_builder import array, numbers

UNARY = {
    "BesselI0": (-30, 30), "BesselI1": (-30, 30), "BesselI0e": (-90, 90), "BesselI1e": (-90, 90), "BesselJ0": (-30, 30),
    "BesselJ1": (-30, 30), "BesselK0": (.1, 60), "BesselK1": (.1, 60), "BesselK0e": (.1, 90), "BesselK1e": (.1, 90),
    "BesselY0": (.1, 30), "BesselY1": (.1, 30), "Dawsn": (-8, 8), "Expint": (.1, 40), "FresnelCos": (-9, 9),
    "FresnelSin": (-9, 9), "Spence": (0, 9),
}


def functions(c):
    for op, (low, high) in UNARY.items():
        # The absolute error counts near zeros: TensorFlow's float kernels are approximations.
        c.each(op, lambda t: dict(x=numbers(t, (40,), low, high)), tolerance=2e-4, only=("float32", "float64"))
        c.each(op, lambda t: dict(x=numbers(t, (40,), max(low, 0), 2)), tolerance=1e-4, label="small",
               only=("float32", "float64"))
    c.case("Expint", "ends", x=array("float64", [0., -0., np.nan, 1., -1., -30., -np.inf]), tolerance=1e-5)
    for op in ("Dawsn", "Spence", "BesselI0e", "BesselJ0", "BesselK0", "BesselY0"):
        c.case(op, "ends", x=array("float64", [0., -0., np.nan, 1.]), tolerance=1e-5)
    for op in ("Igamma", "Igammac"):
        c.each(op, lambda t: dict(a=numbers(t, (6, 1), .1, 30), x=numbers(t, (1, 30), 0, 60, seed=2)), tolerance=1e-4,
               only=("float32", "float64"))
        c.case(op, "ends", a=array("float64", [1, 0, -1, 2, 3, np.nan]), x=array("float64", [0, 1, 1, -1, np.inf, 1]),
               tolerance=1e-5)
    for op, names in (("IgammaGradA", ("a", "x")), ("RandomGammaGrad", ("alpha", "sample"))):
        c.each(op, lambda t: dict(zip(names, (numbers(t, (6, 1), .1, 30), numbers(t, (1, 30), .1, 40, seed=2)))),
               tolerance=1e-3, only=("float32", "float64"))
    c.each("Betainc", lambda t: dict(a=numbers(t, (50,), .1, 20), b=numbers(t, (50,), .1, 20, seed=2),
                                     x=numbers(t, (50,), 0, 1, seed=3)), tolerance=1e-4)
    c.case("Betainc", "ends", a=array("float64", [1, 2, 0, 3, 2, np.nan]), b=array("float64", 2),
           x=array("float64", [0, 1, .5, -1, 2, .5]))
    c.error("Betainc", "shapes", a=array("float32", [1, 2]), b=array("float32", [1, 2, 3]), x=array("float32", .5))


def transforms(c):
    shapes = {"": [(7,), (2, 12), (3, 1), (2, 37), (0, 4), (5, 128), (1, 1009)], "2D": [(4, 6), (2, 5, 7), (3, 1, 1)],
              "3D": [(2, 3, 4), (2, 3, 2, 5)]}
    for rank, suffix in enumerate(shapes, 1):
        for shape in shapes[suffix]:
            for op in ("FFT", "IFFT"):
                c.each(op + suffix, lambda t: dict(input=numbers(t, shape)), attr="Tcomplex", label=f"{shape}",
                       tolerance=1e-4)
            for real, pair in (("float32", "complex64"), ("float64", "complex128")):
                lengths = [shape[-rank:], tuple(max(n - 1, 1) for n in shape[-rank:])]
                for length in lengths:
                    c.case("RFFT" + suffix, f"{real} {shape} {length}", input=numbers(real, shape), tolerance=1e-4,
                           fft_length=np.array(length, np.int32), Tcomplex=tf.as_dtype(pair))
                    half = shape[:-1] + (shape[-1] // 2 + 1,)
                    c.case("IRFFT" + suffix, f"{real} {shape} {length}", input=numbers(pair, half), tolerance=1e-4,
                           fft_length=np.array(length, np.int32), Treal=tf.as_dtype(real))
    c.error("FFT2D", "rank", input=numbers("complex64", (3,)))
    c.error("RFFT", "length", input=numbers("float32", (3,)), fft_length=np.array([4], np.int32), Tcomplex=tf.complex64)
    c.error("IRFFT", "length", input=numbers("complex64", (3,)), fft_length=np.array([2, 2], np.int32),
            Treal=tf.float32)
    c.error("RFFT", "negative", input=numbers("float32", (3,)), fft_length=np.array([-1], np.int32),
            Tcomplex=tf.complex64)


def regression(c):
    for source, target in (("float32", "float32"), ("float64", "float64"), ("int32", "float64"), ("int8", "float32")):
        for shape in ((9,), (2, 3, 7), (1,), (3, 0)):
            c.case("IsotonicRegression", f"{source} {shape}", input=numbers(source, shape, -9, 9), tolerance=1e-5,
                   output_dtype=tf.as_dtype(target))


FAMILIES = (functions, transforms, regression)
