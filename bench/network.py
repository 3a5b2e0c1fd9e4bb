# SPDX-License-Identifier: Apache-2.0
"""All-reduce between hosts with a given bandwidth and delay, beside the formulas of the ring and of parameter servers.

    sudo python3 bench/network.py [--hosts 2,4,8] [--gbits 1,10] [--delays 0.1,1] [--bytes 16777216] [--seconds S]
                                  [--per_host N]

Every host is a network namespace of this machine with a link to a bridge. `tc` limits what a host sends to the bandwidth
and holds it back for the delay (in milliseconds, one way). A kernel without netem can only limit the bandwidth: delays are
then left out, with a message. A line has the median time of an all-reduce of float32 values over
TCP (bench/all_reduce.cc, one process per host) in milliseconds, the CPU time of all processes, and what the formulas say:

    ring   2 (n - 1) / n * bytes / bandwidth + 2 (n - 1) * delay
    ps     2 (n - 1) / n * bytes / bandwidth + 2 * delay, n workers with one of n parameter servers on each host
    1 ps   2 n * bytes / bandwidth + 2 * delay, one parameter server on a host of its own

With --per_host, N processes run on each host. The formulas are those of n hosts: processes of a host merge their values
in shared memory first. `flat ms` is the time of a ring over all processes, without shared memory.

With --slack, fails if the ring takes more than that times what its formula says. All processes share the cores of this
machine: with many hosts and a high bandwidth they are the limit, not the network (the CPU time shows it).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(FOLDER, "..", "build", "release", "bin", "bench", "all_reduce")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr.strip()}")


class Network:
    """Hosts as network namespaces, 10.77.0.1 and so on. Use it as a context manager."""

    def __init__(self, hosts, gbits, delay_ms):
        self.prefix = f"tw{os.getpid()}"
        self.hosts, self.gbits, self.delay_ms = hosts, gbits, delay_ms

    def name(self, host):
        return f"{self.prefix}h{host}"

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def command(self, host, *command):
        return ["ip", "netns", "exec", self.name(host), *command]

    def __enter__(self):
        try:
            self.start()
        except SystemExit:
            self.__exit__()
            raise
        return self

    def start(self):
        hub = f"{self.prefix}hub"
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "bridge", "up")
        for host in range(self.hosts):
            name = self.name(host)
            run("ip", "netns", "add", name)
            run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{host}", "netns", hub)
            run("ip", "-n", hub, "link", "set", f"port{host}", "master", "bridge", "up")
            run("ip", "-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "tbf", "rate", f"{self.gbits}gbit",
                "burst", "256kb", "latency", "100ms")
            if self.delay_ms > 0:
                run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "parent", "1:", "netem", "delay",
                    f"{self.delay_ms}ms", "limit", "100000")

    def __exit__(self, *_):
        for name in [self.name(host) for host in range(self.hosts)] + [f"{self.prefix}hub"]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def can_delay():
    name = f"tw{os.getpid()}try"
    run("ip", "netns", "add", name)
    result = subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
                            capture_output=True)
    run("ip", "netns", "delete", name)
    return result.returncode == 0


def all_reduce(program, network, size, seconds, per_host=1, two_levels=False):
    """Returns the median time of an all-reduce and the CPU time of all processes per all-reduce, in milliseconds."""
    with tempfile.TemporaryDirectory() as meet:
        processes = [
            subprocess.Popen(network.command(rank // per_host, program, "--tcp", f"--ranks={network.hosts * per_host}",
                                             f"--rank={rank}", f"--host={network.address(rank // per_host)}",
                                             f"--meet={meet}", f"--bytes={size}", f"--seconds={seconds}",
                                             f"--two_levels={two_levels}"),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(network.hosts * per_host)
        ]
        outputs = [process.communicate(timeout=300) for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            sys.exit(f"{program}: exit code {process.returncode}\n{errors}")
    _, micros, cpu = map(float, outputs[0][0].split())
    return micros / 1000, cpu / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="2,4,8")
    parser.add_argument("--gbits", default="1,10")
    parser.add_argument("--delays", default="0.1,1", help="one way, in milliseconds")
    parser.add_argument("--bytes", default="16777216")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--per_host", type=int, default=1, help="processes on each host")
    parser.add_argument("--slack", type=float, default=0, help="fail if a ring takes more than this times its formula; 0: never")
    parser.add_argument("--program", default=BENCH, help="the program of bench/all_reduce.cc")
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("tc") or not shutil.which("ip"):
        sys.exit("network.py needs root, ip and tc: network namespaces are its hosts")
    delays = sorted(set(map(float, args.delays.split(","))))
    if any(delays) and not can_delay():
        print("This kernel has no netem: only the bandwidth is limited", flush=True)
        delays = [0.0]
    slow = []
    print(f"{'hosts':>5} {'Gb/s':>5} {'ms':>5} {'bytes':>10} {'ring ms':>9} {'(CPU)':>8} {'formula':>8} {'ratio':>6} "
          f"{'ps formula':>10} {'1 ps':>8}" + (f" {'flat ms':>9} {'(CPU)':>8}" if args.per_host > 1 else ""), flush=True)
    for gbits in map(float, args.gbits.split(",")):
        for delay in delays:
            for hosts in map(int, args.hosts.split(",")):
                for size in map(int, args.bytes.split(",")):
                    with Network(hosts, gbits, delay) as network:
                        time, cpu = all_reduce(args.program, network, size, args.seconds, args.per_host, args.per_host > 1)
                        flat = all_reduce(args.program, network, size, args.seconds, args.per_host) if args.per_host > 1 else ()
                    transfer = size * 8 / gbits / 1e6  # milliseconds to send all values once
                    ring = 2 * (hosts - 1) / hosts * transfer + 2 * (hosts - 1) * delay
                    ps = 2 * (hosts - 1) / hosts * transfer + 2 * delay
                    one_ps = 2 * hosts * transfer + 2 * delay
                    print(f"{hosts:>5} {gbits:>5g} {delay:>5g} {size:>10} {time:>9.1f} {f'({cpu:.0f})':>8} {ring:>8.1f} "
                          f"{time / ring:>6.2f} {ps:>10.1f} {one_ps:>8.1f}" +
                          (f" {flat[0]:>9.1f} {f'({flat[1]:.0f})':>8}" if flat else ""), flush=True)
                    if args.slack and time > args.slack * ring:
                        slow.append((hosts, gbits, delay, size))
    if slow:
        sys.exit(f"slower than {args.slack} times the formula: {slow}")


if __name__ == "__main__":
    main()
