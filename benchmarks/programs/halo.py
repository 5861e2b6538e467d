"""A halo exchange on a three-dimensional grid, with random imbalance, and a reduction every step."""

from __future__ import annotations

from benchmarks.programs import kernels as k
from benchmarks.programs.script import Script, Topology, coordinates_of, grid, rank_at

SIZES = (4, 3, 2, 1)
"""Numbers of steps of a turn; every fourth step completes its requests one by one."""
FACES = ((8_192, k.EAGER), (65_536, k.RENDEZVOUS), (1_024, k.EAGER))


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Post receives, compute the inner points, send, compute, wait for all, reduce."""
    s = Script("halo", n_processes, n_threads)
    sizes = grid(n_processes, 3)
    comm = s.comm("halo grid", list(range(n_processes)))
    places = [coordinates_of(p, sizes) for p in range(n_processes)]
    s.topologies.append(Topology("halo grid", comm.number, sizes, [int(periodic)] * 3, places))
    s.begin("MPI_Cart_create")
    step = s.function("step", 20)
    for p in s.processes:
        mean = 50_000 + 4_000 * (p.number * 7 % 5)
        for number in range(size):
            p.step(k.ENTER, step)
            p.work("stencil", 40, mean)
            neighbours = []
            for axis, (n_bytes, mode) in enumerate(FACES):
                for direction in (-1, 1):
                    place = list(places[p.number])
                    place[axis] += direction
                    neighbour = rank_at(place, sizes, periodic)
                    if neighbour >= 0 and neighbour != p.number:
                        tag = 10 * axis + (direction > 0)
                        back = 10 * axis + (direction < 0)
                        neighbours.append((neighbour, tag, back, n_bytes, mode))
            for neighbour, _, back, n_bytes, _ in neighbours:
                p.irecv(neighbour, comm, back, n_bytes)
            for neighbour, tag, _, n_bytes, mode in neighbours:
                p.isend(neighbour, comm, tag, n_bytes, mode)
            if number == 3:
                p.wait_each()
            else:
                p.waitall()
            p.step(k.EXIT, step)
            p.collective("allreduce", s.world, 8)
    s.end()
    return s
