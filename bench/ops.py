#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares common ops at small, medium and large sizes with TensorFlow, side by side.

For every op and size TensorFlow builds a graph of many copies of the op, each on
variables of its own, so that neither side merges them and the price of a call does
not count. Both run the same graph through their local sessions, in two processes
that take turns, several rounds; the ratio is TensorFlow's time to ours. Usage:

    build/tensorflow/bin/python bench/ops.py [--rounds N] [--seconds S] [--cores N] [--only Conv2D,MatMul]
                                             [--sizes medium,large] [--below 0.8] [--cpu_time] [--fastest]
                                             [--bench build/release/bin/bench/graph]

On a machine that others use too, --fastest compares the fastest steps instead of the medians: those that met
nobody. At the end it names those that are slower than 0.8 of TensorFlow's; `--only` takes these names.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TENSORFLOW = "--as-tensorflow"
# Copies of an op in a step, by size.
COPIES = {"small": 100, "medium": 20, "large": 4}
# The least ratio that an op should have.
TARGET = 0.8


def import_tensorflow():
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  import tensorflow.compat.v1 as tf
  tf.disable_v2_behavior()
  return tf


def ops(tf):
  """{name: (function of variables, [shapes by size])}; a shape with an int is of int32s below that."""
  elementwise = [[[64]], [[128, 256]], [[1024, 1024]]]
  pairs = [[[64]] * 2, [[128, 256]] * 2, [[1024, 1024]] * 2]
  matrix = [[[8, 16]], [[128, 256]], [[1024, 1024]]]
  images = [[[1, 8, 8, 4]], [[8, 16, 16, 32]], [[32, 24, 24, 64]]]

  def filters(n):
    return [[[1, 8, 8, 4], [3, 3, 4, 4]], [[8, 16, 16, 32], [3, 3, 32, 32]], [[n, 24, 24, 64], [5, 5, 64, 64]]]

  def unary(function):
    return function, elementwise

  def binary(function):
    return function, pairs

  # A batch of small matrices, and two of larger ones. The values are drawn from (0.1, 1), which leaves a matrix
  # regular as good as always; a heavy diagonal makes it positive definite.
  squares = [[[1000, 4, 4]], [[100, 100]], [[400, 400]]]

  def square(function):
    return function, squares

  def system(function):
    return function, [shape * 2 for shape in squares]

  def definite(x):
    n = int(x.shape[-1])
    return x + tf.linalg.matrix_transpose(x) + 2. * n * tf.eye(n)

  def batch_norm(x):
    channels = int(x.shape[3])
    return tf.nn.fused_batch_norm(x, tf.ones([channels]), tf.zeros([channels]))[0]

  return {
      "Add": binary(tf.add), "Sub": binary(tf.subtract), "Mul": binary(tf.multiply), "RealDiv": binary(tf.realdiv),
      "Maximum": binary(tf.maximum), "SquaredDifference": binary(tf.math.squared_difference),
      "Less": binary(tf.less), "AddN": (lambda x, y, z: tf.add_n([x, y, z]), [p + p[:1] for p in pairs]),
      "Add, broadcast": (tf.add, [[[8, 16], [16]], [[128, 256], [256]], [[1024, 1024], [1024]]]),
      "Neg": unary(tf.negative), "Square": unary(tf.square), "Sqrt": unary(tf.sqrt), "Rsqrt": unary(tf.rsqrt),
      "Exp": unary(tf.exp), "Log": unary(tf.log), "Tanh": unary(tf.tanh), "Sigmoid": unary(tf.sigmoid),
      "Relu": unary(tf.nn.relu), "Cast": unary(lambda x: tf.cast(x, tf.int32)),
      "Select": (lambda x, y: tf.where(x > 0.5, x, y), pairs),
      "Sum of all": (tf.reduce_sum, matrix), "Sum of rows": (lambda x: tf.reduce_sum(x, 1), matrix),
      "Sum of columns": (lambda x: tf.reduce_sum(x, 0), matrix), "Max of rows": (lambda x: tf.reduce_max(x, 1), matrix),
      "ArgMax": (lambda x: tf.argmax(x, 1), matrix), "Softmax": (tf.nn.softmax, matrix),
      "SparseSoftmaxCrossEntropy": (lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
                                    [[[8, 16], (16, [8])], [[128, 256], (256, [128])], [[1024, 1024], (1024, [1024])]]),
      "BiasAdd": (tf.nn.bias_add, [[[8, 16], [16]], [[128, 256], [256]], [[1024, 1024], [1024]]]),
      "MatMul": (tf.matmul, [[[8, 16], [16, 8]], [[128, 128], [128, 128]], [[512, 512], [512, 512]]]),
      "MatMul, transposed": (lambda x, y: tf.matmul(x, y, transpose_b=True),
                             [[[8, 16], [8, 16]], [[128, 128], [128, 128]], [[512, 512], [512, 512]]]),
      "BatchMatMul": (tf.matmul, [[[4, 8, 8]] * 2, [[16, 64, 64]] * 2, [[32, 128, 128]] * 2]),
      "Conv2D": (lambda x, y: tf.nn.conv2d(x, y, [1, 1, 1, 1], "SAME"), filters(8)),
      "Conv2DBackpropInput": (lambda x, y: tf.nn.conv2d_backprop_input(tf.shape(x), y, x, [1, 1, 1, 1], "SAME"),
                              filters(8)),
      "Conv2DBackpropFilter": (lambda x, y: tf.nn.conv2d_backprop_filter(x, tf.shape(y), x, [1, 1, 1, 1], "SAME"),
                               filters(8)),
      "Cholesky": square(lambda x: tf.linalg.cholesky(definite(x))),
      "MatrixInverse": square(tf.linalg.inv), "MatrixDeterminant": square(tf.linalg.det),
      "LogMatrixDeterminant": square(lambda x: tf.linalg.slogdet(x)[1]), "Lu": square(lambda x: tf.linalg.lu(x)[0]),
      "MatrixSolve": system(tf.linalg.solve), "MatrixTriangularSolve": system(tf.linalg.triangular_solve),
      "MatrixSolveLs": system(lambda x, y: tf.linalg.lstsq(x, y, .1)), "Qr": square(lambda x: tf.linalg.qr(x)[0]),
      "Svd": square(lambda x: tf.linalg.svd(x)[0]),
      "Svd, values": square(lambda x: tf.linalg.svd(x, compute_uv=False)),
      "SelfAdjointEig": square(lambda x: tf.linalg.eigh(definite(x))[0]),
      "SelfAdjointEig, values": square(lambda x: tf.linalg.eigvalsh(definite(x))),
      "Eig": square(lambda x: tf.raw_ops.Eig(input=x, Tout=tf.complex64)[0]), "MatrixSquareRoot": square(lambda x: tf.linalg.sqrtm(definite(x))),
      "TridiagonalSolve": (lambda x, y: tf.linalg.tridiagonal_solve(x, y, "compact"),
                           [[[100, 3, 4], [100, 4, 4]], [[3, 1000], [1000, 4]], [[3, 100000], [100000, 4]]]),
      "FFT": (lambda x: tf.signal.fft(tf.complex(x, x)), [[[100, 16]], [[16, 1024]], [[16, 65536]]]),
      "FFT, prime": (lambda x: tf.signal.fft(tf.complex(x, x)), [[[100, 17]], [[16, 1021]], [[4, 65537]]]),
      "FFT2D": (lambda x: tf.signal.fft2d(tf.complex(x, x)), [[[8, 8]], [[128, 128]], [[512, 512]]]),
      "RFFT": (tf.signal.rfft, [[[100, 16]], [[16, 1024]], [[16, 65536]]]),
      "IRFFT": (lambda x: tf.signal.irfft(tf.complex(x, x)), [[[100, 9]], [[16, 513]], [[16, 32769]]]),
      "EncodeBase64": (lambda x: tf.io.encode_base64(tf.as_string(x)), [[[64]], [[4096]], [[65536]]]),
      "MaxPool": (lambda x: tf.nn.max_pool(x, 3, 2, "SAME"), images),
      "AvgPool": (lambda x: tf.nn.avg_pool(x, 3, 2, "SAME"), images),
      "FusedBatchNorm": (batch_norm, images),
      "LRN": (lambda x: tf.nn.lrn(x, 4, 1., 1e-4, .75), images),
      "Concat": (lambda x, y: tf.concat([x, y], 1), [[[8, 16]] * 2, [[128, 256]] * 2, [[1024, 1024]] * 2]),
      "Split": (lambda x: tf.split(x, 4, 1), matrix), "Transpose": (tf.transpose, matrix),
      "Slice": (lambda x: tf.slice(x, [1, 2], [int(d) // 2 for d in x.shape]), matrix),
      "StridedSlice": (lambda x: x[1:, ::2], matrix), "Pad": (lambda x: tf.pad(x, [[1, 1], [2, 2]]), matrix),
      "Tile": (lambda x: tf.tile(x, [2, 1]), matrix), "Pack": (lambda x, y: tf.stack([x, y]), pairs),
      "Gather": (tf.gather, [[[64, 16], (64, [8])], [[5000, 64], (5000, [128])], [[50000, 128], (50000, [4096])]]),
      "UnsortedSegmentSum": (lambda x, y: tf.math.unsorted_segment_sum(x, y, 64),
                             [[[8, 16], (64, [8])], [[128, 256], (64, [128])], [[4096, 256], (64, [4096])]]),
      "OneHot": (lambda y: tf.one_hot(y, 64), [[(64, [8])], [(64, [512])], [(64, [16384])]]),
      "TopK": (lambda x: tf.nn.top_k(x, 5), matrix), "Cumsum": (lambda x: tf.cumsum(x, 1), matrix),
      "RandomUniform": (lambda x: tf.random_uniform(x.shape, seed=1), matrix),
      "RandomNormal": (lambda x: tf.random_normal(x.shape, seed=1), matrix),
      "ApplyGradientDescent": (lambda x, y: tf.raw_ops.ApplyGradientDescent(var=x, alpha=1e-9, delta=y), pairs),
      "ApplyAdam": (lambda x, y, z, g: tf.raw_ops.ApplyAdam(
          var=x, m=y, v=z, beta1_power=.9, beta2_power=.9, lr=1e-9, beta1=.9, beta2=.9, epsilon=1e-3, grad=g),
                    [[[64]] * 4, [[128, 256]] * 4, [[512, 1024]] * 4]),
      "ScatterSub": (lambda x, i, y: tf.scatter_sub(x, i, y),
                     [[[64, 16], (64, [8]), [8, 16]], [[5000, 64], (5000, [128]), [128, 64]],
                      [[50000, 128], (50000, [1024]), [1024, 128]]]),
  }


def build_graph(tf, function, shapes, copies):
  """A GraphDef with the nodes "init" and "run"."""
  with tf.Graph().as_default() as graph:
    runs = []
    for copy in range(copies):
      variables = []
      for shape in shapes:
        if isinstance(shape, tuple):
          value = tf.random_uniform(shape[1], 0, shape[0], tf.int32, seed=copy)
        else:
          value = tf.random_uniform(shape, .1, 1., seed=copy)
        variables.append(tf.Variable(value, use_resource=False))
      result = function(*variables)
      runs += [r.op for r in (result if isinstance(result, (list, tuple)) else [result])]
    tf.group(*runs, name="run")
    tf.group(tf.global_variables_initializer(), name="init")
    return graph.as_graph_def()


def serve_as_tensorflow(threads, cpu_time, fastest):
  """Answers requests as bench/graph.cc does."""
  clock = time.process_time if cpu_time else time.perf_counter
  tf = import_tensorflow()
  sessions = {}
  for line in sys.stdin:
    path, seconds = line.split()
    if path not in sessions:
      with tf.Graph().as_default() as graph:
        definition = tf.GraphDef()
        with open(path, "rb") as f:
          definition.ParseFromString(f.read())
        tf.import_graph_def(definition, name="")
        config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        # It would drop ops whose results nobody reads.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        session = tf.Session(config=config)
        session.run("init")
        step = session.make_callable(graph.get_operation_by_name("run"))
        sessions[path] = session, step
        for _ in range(3):
          step()
    step = sessions[path][1]
    times, start = [], clock()
    now = start
    while now - start < float(seconds) or len(times) < 3:
      step()
      end = clock()
      times.append(end - now)
      now = end
    print(f"{(min if fastest else statistics.median)(times) * 1e6:.3f}", flush=True)


class Server:
  """A process that measures graphs on request."""

  def __init__(self, command, cores):
    if cores == 1:
      command = ["taskset", "-c", str(os.cpu_count() - 1)] + command
    self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

  def measure(self, path, seconds):
    self.process.stdin.write(f"{path} {seconds}\n")
    self.process.stdin.flush()
    answer = self.process.stdout.readline()
    if not answer or answer.startswith("error"):
      raise RuntimeError(f"{path}: {answer or 'the process ended'}")
    return float(answer)

  def close(self):
    self.process.stdin.close()
    self.process.wait()


def chosen(names, known):
  """The names in a list like that of --only. A comma before a space is part of a name: "Add, broadcast"."""
  result = set(filter(None, re.split(r",(?! )", names)))
  if not result <= set(known):
    sys.exit(f"not known: {'; '.join(result - set(known))}. There are: {'; '.join(known)}")
  return result


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--seconds", type=float, default=0.1)
  parser.add_argument("--cores", type=int, default=os.cpu_count())
  parser.add_argument("--only", default="", help="names of ops, separated by commas")
  parser.add_argument("--sizes", default=",".join(COPIES), help="some of small, medium and large")
  parser.add_argument("--below", type=float, default=0, help="show only ratios below this")
  parser.add_argument("--bench", default="build/release/bin/bench/graph")
  parser.add_argument(TENSORFLOW, action="store_true", help=argparse.SUPPRESS)
  parser.add_argument("--threads", type=int, default=0, help=argparse.SUPPRESS)
  parser.add_argument("--cpu_time", action="store_true", help="the processor's time: for a machine that others use")
  parser.add_argument("--fastest", action="store_true", help="the fastest steps instead of the medians, likewise")
  args = parser.parse_args()
  if args.as_tensorflow:
    serve_as_tensorflow(args.threads, args.cpu_time, args.fastest)
    return

  tf = import_tensorflow()
  table = ops(tf)
  only = chosen(args.only, table)
  sizes = chosen(args.sizes, COPIES)
  common = [f"--threads={args.cores}"]
  common += [f"--{flag}" for flag in ("cpu_time", "fastest") if getattr(args, flag)]
  servers = [Server([args.bench] + common, args.cores),
             Server([sys.executable, __file__, TENSORFLOW] + common, args.cores)]
  print(f"{'op':<26} {'size':<7} {'thalweg':>9} {'tensorflow':>10} {'ratio':>6}   us an op, {args.cores} cores, "
        f"{'fastest' if args.fastest else 'medians'} of {args.rounds} rounds of {args.seconds} s")
  worst = []
  with tempfile.TemporaryDirectory() as folder:
    for name, (function, shapes_by_size) in table.items():
      if only and name not in only:
        continue
      for (size, copies), shapes in zip(COPIES.items(), shapes_by_size):
        if size not in sizes:
          continue
        path = os.path.join(folder, f"{name}.{size}".replace(" ", "_"))
        with open(path, "wb") as f:
          f.write(build_graph(tf, function, shapes, copies).SerializeToString())
        ours, theirs = [], []
        for _ in range(args.rounds):
          ours.append(servers[0].measure(path, args.seconds) / copies)
          theirs.append(servers[1].measure(path, args.seconds) / copies)
        if args.fastest:
          ours, theirs = [min(ours)], [min(theirs)]
        ratio = statistics.median(t / o for o, t in zip(ours, theirs))
        worst.append((ratio, name, size))
        if not args.below or ratio < args.below:
          print(f"{name:<26} {size:<7} {statistics.median(ours):>9.2f} {statistics.median(theirs):>10.2f} "
                f"{ratio:>6.2f}", flush=True)
  for server in servers:
    server.close()
  worst.sort()
  below = [w for w in worst if w[0] < TARGET]
  ratio, name, size = worst[0]
  print(f"{len(worst)} measured, {len(below)} below {TARGET}, worst {ratio:.2f} ({name}, {size})")
  for ratio, name, size in below:
    print(f"below {TARGET}: {ratio:.2f} {name}, {size}")


if __name__ == "__main__":
  main()
