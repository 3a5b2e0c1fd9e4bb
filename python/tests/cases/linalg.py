# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: linear algebra."""

import numpy as np
import tensorflow as tf

from cases.case_builder import COMPLEX, floats, kernel_types, numbers


def limit(dtype):
    return 5e-2 if dtype in ("float16", "bfloat16") else 2e-4 if dtype in ("float32", "complex64") else None


def definite(dtype, shape):
    a = numbers("complex128" if dtype in COMPLEX else "float64", shape, -1, 1)
    product = a @ np.conj(np.swapaxes(a, -1, -2)) + 2 * np.eye(shape[-1])
    return product.astype(tf.as_dtype(dtype).as_numpy_dtype)


def regular(dtype, shape, seed=1):
    """Far from singular."""
    wide = "complex128" if dtype in COMPLEX else "float64"
    return (numbers(wide, shape, -1, 1, seed) + 3 * np.eye(*shape[-2:])).astype(tf.as_dtype(dtype).as_numpy_dtype)


def each(c, op, build, label="", only=None):
    for t in kernel_types(op, "T"):
        if only is None or t in only:
            c.case(op, f"{t} {label}".strip(), tolerance=limit(t), **build(t))


def solving(c):
    for shape in ((3, 3), (2, 4, 4), (1, 1), (2, 0, 0)):
        each(c, "Cholesky", lambda t: dict(input=definite(t, shape)), f"{shape}")
        each(c, "MatrixDeterminant", lambda t: dict(input=regular(t, shape)), f"{shape}")
        each(c, "LogMatrixDeterminant", lambda t: dict(input=regular(t, shape)), f"{shape}")
        for adjoint in (False, True):
            each(c, "MatrixInverse", lambda t: dict(input=regular(t, shape), adjoint=adjoint), f"{shape} {adjoint}")
            each(c, "MatrixSolve", lambda t: dict(matrix=regular(t, shape), rhs=numbers(t, shape[:-1] + (2,), -1, 1),
                                                  adjoint=adjoint), f"{shape} {adjoint}")
            for lower in (False, True):
                each(c, "MatrixTriangularSolve", lambda t: dict(
                    matrix=regular(t, shape), rhs=numbers(t, shape[:-1] + (2,), -1, 1), adjoint=adjoint, lower=lower),
                    f"{shape} {adjoint} {lower}")
    each(c, "CholeskyGrad", lambda t: dict(l=regular(t, (2, 3, 3)), grad=numbers(t, (2, 3, 3), -1, 1)))
    each(c, "MatrixTriangularSolve", lambda t: dict(matrix=regular(t, (1, 3, 3)), rhs=numbers(t, (4, 3, 2), -1, 1)),
         "broadcast")
    each(c, "Lu", lambda t: dict(input=numbers(t, (2, 4, 4), -4, 4)), only=("float32", "float64") + COMPLEX)
    c.case("MatrixDeterminant", "singular", input=np.zeros((2, 2), np.float32))
    c.case("LogMatrixDeterminant", "singular", input=np.zeros((2, 2), np.float32))
    for adjoint in (False, True):
        for lower in (False, True):
            each(c, "BandedTriangularSolve", lambda t: dict(
                matrix=numbers(t, (2, 3, 5), 1, 4), rhs=numbers(t, (2, 5, 2), -1, 1), adjoint=adjoint, lower=lower),
                f"{adjoint} {lower}", only=("float32", "float64") + COMPLEX)
    for pivot in (False, True):
        each(c, "TridiagonalSolve", lambda t: dict(diagonals=numbers(t, (2, 3, 6), 1, 4), rhs=numbers(t, (2, 6, 2)),
                                                   partial_pivoting=pivot), f"{pivot}")
    each(c, "TridiagonalMatMul", lambda t: dict(
        superdiag=numbers(t, (2, 1, 4)), maindiag=numbers(t, (2, 1, 4), seed=2), subdiag=numbers(t, (2, 1, 4), seed=3),
        rhs=numbers(t, (2, 4, 3), seed=4)))
    flat, zero = floats((2, 3)), np.zeros((3, 3), np.float32)
    for op in ("Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "Lu", "SelfAdjointEigV2",
               "MatrixSquareRoot"):
        c.error(op, "square", input=flat)
        c.error(op, "rank", input=floats((3,)))
    c.error("MatrixInverse", "singular", input=zero)
    c.error("Lu", "singular", input=zero)
    c.error("MatrixSolve", "singular", matrix=zero, rhs=zero)
    c.error("MatrixSolve", "sizes", matrix=zero, rhs=flat)
    c.error("MatrixTriangularSolve", "sizes", matrix=zero, rhs=flat)
    c.error("TridiagonalSolve", "rows", diagonals=flat, rhs=zero)
    c.error("SelfAdjointEigV2", "nan", input=np.full((2, 2), np.nan, np.float32))
    c.error("MatrixSolveLs", "singular", matrix=zero, rhs=zero, l2_regularizer=np.array(0, np.float64))


def large(c):
    """Larger than the blocks that matrices are cut into."""
    for t in ("float32", "float64", "complex64", "complex128"):
        loose = 5e-3 if t in ("float32", "complex64") else 1e-8
        x, b = regular(t, (150, 150)) + 10 * np.eye(150, dtype=t), numbers(t, (150, 70), -1, 1)
        c.case("Cholesky", f"{t} large", input=definite(t, (150, 150)), tolerance=loose)
        c.case("Lu", f"{t} large", input=x, tolerance=loose)
        c.case("MatrixDeterminant", f"{t} large", input=(x / 10).astype(t), tolerance=loose)
        for adjoint in (False, True):
            c.case("MatrixInverse", f"{t} large {adjoint}", input=x, adjoint=adjoint, tolerance=loose)
            c.case("MatrixSolve", f"{t} large {adjoint}", matrix=x, rhs=b, adjoint=adjoint, tolerance=loose)
            for lower in (False, True):
                c.case("MatrixTriangularSolve", f"{t} large {adjoint} {lower}", matrix=x, rhs=b, adjoint=adjoint,
                       lower=lower, tolerance=loose)
        tall = numbers(t, (150, 90), -1, 1)
        c.case("Qr", f"{t} large", input=tall, tolerance=loose)
        for fast in (True, False):
            c.case("MatrixSolveLs", f"{t} large {fast}", matrix=tall, rhs=b, fast=fast,
                   l2_regularizer=np.array(.5 if fast else 0., np.float64), tolerance=loose)
        s, u, v = c.apply("Svd", input=tall)
        c.add(f"Svd {t} large", [s, tf.matmul(u * tf.expand_dims(s, -2), v, adjoint_b=True)], loose)
        hermitian = definite(t, (150, 150)) / 10
        e, v = c.apply("SelfAdjointEigV2", input=hermitian.astype(t))
        c.add(f"SelfAdjointEigV2 {t} large", [e, tf.matmul(v * tf.expand_dims(e, -2), v, adjoint_b=True)], loose)


def decompositions(c):
    shapes = ((4, 3), (3, 4), (2, 3, 3), (3, 0))
    for full in (False, True):
        for shape in shapes:
            each(c, "Qr", lambda t: dict(input=numbers(t, shape, -1, 1), full_matrices=full), f"{shape} {full}")
            for t in kernel_types("Svd", "T"):
                x = numbers(t, shape, -1, 1)
                s, u, v = c.apply("Svd", input=x, full_matrices=full)
                k = min(shape[-2:])
                back = tf.matmul(u[..., :k] * tf.expand_dims(s, -2), v[..., :k], adjoint_b=True)
                ones = [tf.matmul(m, m, adjoint_a=True) for m in (u, v)]
                c.add(f"Svd {t} {shape} {full}", [s, back, *ones], limit(t) or 1e-10)
    c.add("Svd values", c.apply("Svd", input=floats((5, 3)), compute_uv=False)[:1], 1e-5)
    for fast in (True, False):
        for shape in ((4, 3), (3, 4)):
            each(c, "MatrixSolveLs", lambda t: dict(
                matrix=numbers(t, shape, -1, 1), rhs=numbers(t, shape[:1] + (2,), -1, 1, seed=2),
                l2_regularizer=np.array(.5 if fast else 0., np.float64), fast=fast), f"{fast} {shape}",
                only=("float32", "float64") + COMPLEX)
    c.case("MatrixSolveLs", "deficient", matrix=np.float32([[1, 2, 3], [2, 4, 6]]), rhs=floats((2, 1)),
           l2_regularizer=np.array(0, np.float64), fast=False, tolerance=1e-4)
    for t in kernel_types("SelfAdjointEigV2", "T"):
        for shape in ((4, 4), (2, 3, 3)):
            x = numbers(t, shape, -1, 1)
            e, v = c.apply("SelfAdjointEigV2", input=x)
            back = tf.matmul(v * tf.expand_dims(e, -2), v, adjoint_b=True)
            c.add(f"SelfAdjointEigV2 {t} {shape}", [e, back], limit(t) or 1e-10)
    # TensorFlow does not set the outputs for vectors that nobody asks for.
    c.add("SelfAdjointEigV2 values", c.apply("SelfAdjointEigV2", input=floats((5, 5)), compute_v=False)[:1], 1e-4)
    for t in kernel_types("Eig", "T"):
        for shape in ((4, 4), (2, 3, 3)):
            x = numbers(t, shape, -1, 1)
            wide = tf.complex128 if t in ("float64", "complex128") else tf.complex64
            e, v = c.apply("Eig", input=x, Tout=wide)
            rest = tf.abs(tf.matmul(tf.cast(c.feed(x), wide), v) - v * tf.expand_dims(e, -2))
            lengths = tf.reduce_sum(tf.abs(v) ** 2, -2)
            sizes = tf.sort(tf.abs(e), -1)
            c.add(f"Eig {t} {shape}", [sizes, tf.reduce_max(rest) < 1e-4, lengths, tf.reduce_sum(e, -1)], 1e-4)
    for t in kernel_types("MatrixSquareRoot", "T"):
        if t != "float16":
            c.case("MatrixSquareRoot", t, input=regular(t, (2, 3, 3)), tolerance=limit(t) or 1e-9)
    for t in kernel_types("MatrixLogarithm", "T"):
        c.case("MatrixLogarithm", t, input=regular(t, (2, 3, 3)), tolerance=limit(t) or 1e-9)
        c.case("MatrixLogarithm", f"{t} far", input=definite(t, (4, 4)) * 50, tolerance=limit(t) or 1e-9)


FAMILIES = (solving, large, decompositions)
