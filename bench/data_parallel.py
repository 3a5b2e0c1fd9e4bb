# SPDX-License-Identifier: Apache-2.0
"""Training without parameter servers between processes of this host, beside PyTorch's DistributedDataParallel (gloo).

    python3 bench/data_parallel.py [--pytorch PYTHON] [--ranks 2,4] [--rounds N] [--seconds S]

The first table has the median time of an all-reduce of float32: as a step of a session (`step`), the collective itself
(`collective`, see bench/all_reduce.py), OpenMPI's and gloo's. A step also copies the variable that it reduces. The second
table has steps per second of the tutorial's MLP (784-500-500-10, Adam), each process with a batch of its own.

The systems take turns, several rounds. All figures are medians of the rounds. The CPU time of all processes for one
all-reduce or step stands behind each figure, in microseconds. OpenMPI spins while it waits. Every process computes with
one thread. A ratio is the median of the rounds' ratios, and says how many times faster Thalweg's step is.

OpenMPI comes with `apt-get install openmpi-bin libopenmpi-dev`, PyTorch with `python3 -m venv build/pytorch &&
build/pytorch/bin/pip install torch numpy`. The first line says so if one of them is missing.
"""

import argparse
import os
import shutil
import statistics
import tempfile

import all_reduce

BENCH = os.path.join(all_reduce.FOLDER, "..", "build", "release", "bin", "bench", "data_parallel")

DDP = """
import resource, sys, time
import torch, torch.distributed as dist
from torch import nn
rank, ranks, store, seconds, batches = sys.argv[1:6]
rank, ranks = int(rank), int(ranks)
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (u.ru_utime + u.ru_stime)
for batch in map(int, batches.split(",")):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10))
    net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    loss_of = nn.CrossEntropyLoss()
    x = (torch.arange(batch * 784, dtype=torch.int64) + rank).mul(7919).remainder(1000).float().div(1000)
    x, y = x.reshape(batch, 784), (torch.arange(batch) + rank) % 10
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    for _ in range(20):
        step()
    dist.barrier()
    steps, before, start, go_on = 0, cpu(), time.perf_counter(), torch.ones(1)
    while go_on.item():
        for _ in range(20):
            step()
        steps += 20
        go_on[0] = float(rank == 0 and time.perf_counter() - start < float(seconds))
        dist.all_reduce(go_on)
    rate = steps / (time.perf_counter() - start)
    used = torch.tensor([(cpu() - before) / steps])
    dist.all_reduce(used)
    if rank == 0:
        print(batch, rate, used.item(), flush=True)
"""


def measure_table(title, systems, rounds, ranks, ours, others, faster):
    """Runs all systems in turn. Prints a line per size with every system's figure, and the ratios to `ours`."""
    print(f"{'ranks':>5} {title:>10}" + "".join(f" {name:>12} {'(CPU us)':>10}" for name in systems) +
          "".join(f" {'vs ' + name:>11}" for name in others), flush=True)
    for n in ranks:
        results = [{name: measure(n) for name, measure in systems.items()} for _ in range(rounds)]
        for size in results[0][ours]:
            line = f"{n:>5} {size:>10}"
            for name in systems:
                figure, cpu = (statistics.median(r[name][size][i] for r in results) for i in (0, 1))
                line += f" {figure:>12.1f} {f'({cpu:.0f})':>10}"
            for name in others:
                line += f" {statistics.median(faster(r[ours][size][0], r[name][size][0]) for r in results):>10.2f}x"
            print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4", help="numbers of processes of the all-reduce; the MLP has 2")
    parser.add_argument("--bytes", default="1024,1048576,16777216,104857600")
    parser.add_argument("--batch", default="32,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--pytorch", default=all_reduce.PYTORCH, help="the Python that has PyTorch")
    # The functions of bench/all_reduce.py read these two options as well.
    parser.set_defaults(tcp=False, program=all_reduce.BENCH)
    args = parser.parse_args()
    with_openmpi = bool(shutil.which("mpicc") and shutil.which("mpirun"))
    with_torch = all_reduce.has_torch(args.pytorch)
    if not with_openmpi:
        print("OpenMPI is NOT COMPARED: it is not installed (apt-get install openmpi-bin libopenmpi-dev)", flush=True)
    if not with_torch:
        print(f"gloo and DDP are NOT COMPARED: {args.pytorch} has no PyTorch (python3 -m venv build/pytorch && "
              "build/pytorch/bin/pip install torch numpy)", flush=True)

    def ours(ranks, *flags):
        return all_reduce.run([BENCH, f"--ranks={ranks}", f"--seconds={args.seconds}", *flags])

    with tempfile.TemporaryDirectory() as folder:
        reduces = {"step": lambda n: ours(n, f"--bytes={args.bytes}"),
                   "collective": lambda n: all_reduce.thalweg(args, n, folder)}
        trainings = {"thalweg": lambda n: ours(n, f"--batch={args.batch}")}
        if with_openmpi:
            reduces["openmpi"] = lambda n: all_reduce.openmpi(args, n, folder)
        if with_torch:
            reduces["gloo"] = lambda n: all_reduce.gloo(args, n, folder)
            trainings["ddp"] = lambda n: all_reduce.torch_processes(args.pytorch, DDP, n, folder, args.seconds, args.batch)
        print("Median time of an all-reduce, in microseconds")
        measure_table("bytes", reduces, args.rounds, map(int, args.ranks.split(",")), "step",
                      [name for name in reduces if name in ("openmpi", "gloo")], lambda own, other: other / own)
        print("Steps per second of the MLP")
        measure_table("batch", trainings, args.rounds, [2], "thalweg", [name for name in trainings if name != "thalweg"],
                      lambda own, other: own / other)


if __name__ == "__main__":
    main()
