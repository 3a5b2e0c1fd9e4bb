# SPDX-License-Identifier: Apache-2.0
"""All-reduce of float32 between processes of this host: Thalweg beside OpenMPI and, if it is installed, gloo (PyTorch).

    python3 bench/all_reduce.py [--tcp] [--ranks 2,4] [--bytes 1024,...] [--rounds N] [--seconds S] [--pytorch PYTHON]

The systems take turns, several rounds. A line has the median time of an all-reduce and, behind it, the CPU time of all
processes per all-reduce, in microseconds, both medians of the rounds, and Thalweg's times divided by the other's. MPI
spins while it waits. `copied`: values that do not lie in the memory that the processes share. With --tcp, all systems
use TCP over loopback (gloo always does).

OpenMPI comes with `apt-get install openmpi-bin libopenmpi-dev`, PyTorch with `python3 -m venv build/pytorch &&
build/pytorch/bin/pip install torch numpy`.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(FOLDER, "..", "build", "release", "bin", "bench", "all_reduce")
PYTORCH = os.path.join(FOLDER, "..", "build", "pytorch", "bin", "python")

GLOO = """
import os, resource, statistics, sys, time
import torch, torch.distributed as dist
rank, ranks, store, seconds, sizes = sys.argv[1:6]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank), world_size=int(ranks))
def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (u.ru_utime + u.ru_stime)
for size in map(int, sizes.split(",")):
    x = torch.zeros(size // 4)
    for _ in range(3):
        dist.all_reduce(x)
    dist.barrier()
    times, before, start, go_on = [], cpu(), time.perf_counter(), torch.ones(1)
    while go_on.item():
        for _ in range(50 if size <= 1 << 16 else 1):
            begin = time.perf_counter()
            dist.all_reduce(x)
            times.append(1e6 * (time.perf_counter() - begin))
        go_on[0] = float(rank == "0" and time.perf_counter() - start < float(seconds))
        dist.all_reduce(go_on)
    used = torch.tensor([(cpu() - before) / len(times)])
    dist.all_reduce(used)
    if rank == "0":
        print(size, statistics.median(times), used.item(), flush=True)
"""


def parse(text):
    return {int(line.split()[0]): tuple(map(float, line.split()[1:])) for line in text.splitlines()}


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    return parse(result.stdout)


def thalweg(args, ranks, folder, *options):
    return run([args.program, f"--ranks={ranks}", f"--bytes={args.bytes}", f"--seconds={args.seconds}", *options])


def openmpi(args, ranks, folder):
    program = os.path.join(folder, "all_reduce_mpi")
    if not os.path.exists(program):
        subprocess.run(["mpicc", "-O2", os.path.join(FOLDER, "all_reduce_mpi.c"), "-o", program], check=True)
    transport = ["--mca", "btl", "tcp,self"] if args.tcp else []
    return run(["mpirun", "--allow-run-as-root", "--oversubscribe", *transport, "-np", str(ranks), program,
                str(args.seconds), *args.bytes.split(",")])


def torch_processes(python, program, ranks, folder, seconds, sizes):
    """Runs a program for PyTorch as `ranks` processes, which meet in a file. Returns what the first one has printed."""
    store = tempfile.mktemp(dir=folder)
    processes = [subprocess.Popen([python, "-c", program, str(rank), str(ranks), store, str(seconds), sizes],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
    outputs = [process.communicate(timeout=600) for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            sys.exit(f"PyTorch: exit code {process.returncode}\n{errors}")
    return parse(outputs[0][0])


def gloo(args, ranks, folder):
    return torch_processes(args.pytorch, GLOO, ranks, folder, args.seconds, args.bytes)


def has_torch(python):
    return bool(shutil.which(python)) and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--bytes", default="1024,65536,1048576,16777216,104857600")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--tcp", action="store_true", help="use TCP in place of shared memory")
    parser.add_argument("--program", default=BENCH, help="the program of bench/all_reduce.cc")
    parser.add_argument("--pytorch", default=PYTORCH, help="the Python that has PyTorch")
    args = parser.parse_args()
    if args.tcp:
        systems = {"thalweg": lambda *a: thalweg(*a, "--tcp")}
    else:
        systems = {"thalweg": thalweg, "copied": lambda *a: thalweg(*a, "--arena=false")}
    if shutil.which("mpicc") and shutil.which("mpirun"):
        systems["openmpi"] = openmpi
    else:
        print("OpenMPI is not installed: not compared", flush=True)
    if has_torch(args.pytorch):
        systems["gloo"] = gloo
    else:
        print("PyTorch is not installed: gloo is not compared", flush=True)
    others = [name for name in systems if name not in ("thalweg", "copied")]
    print(f"{'ranks':>5} {'bytes':>10}" + "".join(f" {name + ' us':>12} {'(CPU)':>10}" for name in systems) +
          "".join(f" {'/ ' + name:>10}" for name in others), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, args.ranks.split(",")):
            rounds = [{name: measure(args, ranks, folder) for name, measure in systems.items()}
                      for _ in range(args.rounds)]
            for size in map(int, args.bytes.split(",")):
                line = f"{ranks:>5} {size:>10}"
                for name in systems:
                    time, cpu = (statistics.median(r[name][size][i] for r in rounds) for i in (0, 1))
                    line += f" {time:>12.1f} {f'({cpu:.0f})':>10}"
                for name in others:
                    ratio = statistics.median(r["thalweg"][size][0] / r[name][size][0] for r in rounds)
                    line += f" {ratio:>10.2f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
