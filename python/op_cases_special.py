"""Cases of compare_test.py: Bessel functions, integrals and the incomplete gamma function."""

import numpy as np
from op_cases import array, numbers

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


FAMILIES = (functions,)
