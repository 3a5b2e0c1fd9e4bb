# SPDX-License-Identifier: Apache-2.0
"""Finds ports for the servers of tests and benchmarks."""

import random
import socket


def free_ports(n):
    """Ports that are free now, below those that the system gives to connections: one of those could be taken before
    the server listens."""
    sockets, ports = [], []
    while len(ports) < n:
        s, port = socket.socket(), random.randrange(10000, 30000)
        sockets.append(s)  # held until all are known, so that they differ
        try:
            s.bind(("", port))
            ports.append(port)
        except OSError:
            pass
    for s in sockets:
        s.close()
    return ports
