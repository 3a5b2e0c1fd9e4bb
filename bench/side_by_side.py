# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks that compare Thalweg with TensorFlow and PyTorch.

Each side runs in a process of its own; they take turns, several rounds, so that what else the machine does
meets all of them. The rates are medians, and the ratios medians of the rounds' ratios. A benchmark says how a
step is made in TensorFlow and, if it can, in PyTorch:

    def tensorflow(args):    # or pytorch(args)
      ...
      return step            # a function of the number of the step

    side_by_side.main(__doc__, unit="steps", tensorflow=tensorflow, ...)

PyTorch is looked for in --pytorch PYTHON; without it its column stays empty.
"""

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import time

# Where `python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy` puts it.
PYTORCH = "build/pytorch/bin/python"


@dataclasses.dataclass
class Row:
  """One line of the table: a form of the program under a name, on so many cores."""
  cores: int
  name: str = ""
  flags: tuple = ()  # flags that all sides get
  forms: dict = dataclasses.field(default_factory=lambda: {"": ()})  # of Thalweg: name -> flags
  limit: tuple = None  # flags of Thalweg's benchmark that shows what is possible


def session_step(tf, args, train_op, loss, placeholders, feeds):
  """A step of a TensorFlow 1 session; `feeds(i)` gives the values of the placeholders."""
  config = tf.ConfigProto(intra_op_parallelism_threads=args.threads, inter_op_parallelism_threads=args.threads)
  session = tf.Session(config=config)
  session.run(tf.global_variables_initializer())
  run = session.make_callable([train_op, loss], placeholders)
  return lambda i: run(*feeds(i))


def import_tensorflow():
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  import tensorflow.compat.v1 as tf
  tf.disable_v2_behavior()
  return tf


def import_torch(args):
  import torch
  torch.set_num_threads(args.threads)
  torch.set_num_interop_threads(args.threads)
  return torch


def rate(step, seconds, per_step, warm_up):
  for i in range(warm_up):
    step(i)
  start, steps = time.monotonic(), 0
  while time.monotonic() - start < seconds:
    step(warm_up + steps)
    steps += 1
  return steps * per_step / (time.monotonic() - start)


def run(command, cores, unit):
  if cores == 1:
    command = ["taskset", "-c", "0"] + command
  result = subprocess.run(command, capture_output=True, text=True)
  if result.returncode != 0:
    sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
  return float(result.stdout.split(f"{unit}_per_second")[1].split()[0])


def find_torch(python):
  """The command if it has PyTorch; otherwise None, having said so."""
  command = [python, "-c", "import torch; print(torch.__version__)"]
  try:
    version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
  except (OSError, subprocess.CalledProcessError):
    print(f"PyTorch is not there ({python} has no torch): compared with TensorFlow only. To have it:\n"
          f"  python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy", flush=True)
    return None
  print(f"PyTorch {version}")
  return python


def main(doc, unit, rows, tensorflow, pytorch=None, seconds=2., per_step=lambda args: 1, warm_up=30, arguments=None):
  """Runs the benchmark, or one of the sides if the command line says so. `arguments`: of all sides, with defaults."""
  script = sys.modules["__main__"].__file__
  name = os.path.splitext(os.path.basename(script))[0]
  parser = argparse.ArgumentParser(description=doc.splitlines()[0])
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--seconds", type=float, default=seconds)
  parser.add_argument("--bench", default=f"build/release/bin/bench/{name}")
  parser.add_argument("--pytorch", default=PYTORCH, help="the Python that has PyTorch")
  parser.add_argument("--side", choices=["tensorflow", "pytorch"], help=argparse.SUPPRESS)
  parser.add_argument("--threads", type=int, default=0, help=argparse.SUPPRESS)
  for argument, default in (arguments or {}).items():
    parser.add_argument(f"--{argument}", type=type(default), default=default)
  args = parser.parse_args()
  if args.side:
    step = (tensorflow if args.side == "tensorflow" else pytorch)(args)
    print(f"{unit}_per_second", rate(step, args.seconds, per_step(args), warm_up))
    return

  others = {"tensorflow": sys.executable}
  if pytorch is not None and find_torch(args.pytorch):
    others["pytorch"] = args.pytorch
  header = "".join(f" {other:>10} {'ratio':>6}" for other in others)
  print(f"{'cores':>5} {'':<12} {'thalweg':>9}{header}   {args.rounds} rounds of {args.seconds} s, medians of {unit}/s",
        flush=True)
  for row in rows:
    ours, theirs, limits = {form: [] for form in row.forms}, {other: [] for other in others}, []
    for _ in range(args.rounds):
      common = [*row.flags, f"--threads={row.cores}", f"--seconds={args.seconds}"]
      for form, flags in row.forms.items():
        ours[form].append(run([args.bench, *common, *flags], row.cores, unit))
      for other, python in others.items():
        theirs[other].append(run([python, script, f"--side={other}", *common], row.cores, unit))
      if row.limit is not None:
        limits.append(run([args.bench, *row.limit, f"--seconds={args.seconds}"], row.cores, unit))
    for form, rates in ours.items():
      line = f"{row.cores:>5} {row.name + form:<12} {statistics.median(rates):>9.0f}"
      for rates_of_other in theirs.values():
        ratio = statistics.median(x / y for x, y in zip(rates, rates_of_other))
        line += f" {statistics.median(rates_of_other):>10.0f} {ratio:>6.2f}"
      if limits:
        share = statistics.median(rates) / statistics.median(limits)
        line += f"   {share:.2f} of the limit of GEMM + Adam alone ({statistics.median(limits):.0f})"
      print(line, flush=True)
