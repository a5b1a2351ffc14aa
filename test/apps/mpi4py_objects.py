# SPDX-License-Identifier: BSD-3-Clause
"""Point-to-point and collectives of mpi4py, on Python objects and numpy arrays, each result checked.  For mpi4py.sh."""

import random

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size


def pickled(owner, length):
    """An object that differs by rank, and is the same wherever it is computed."""
    generator = random.Random(owner * 1000003 + length)
    return {
        "owner": owner,
        "numbers": [generator.random() for _ in range(length)],
        "nested": {"text": "ä" * length, "none": None, "pair": (owner, length)},
        "bytes": bytes(generator.randrange(256) for _ in range(length)),
    }


def test_ring_of_objects():
    for length in (0, 1, 100, 5000, 100000):
        assert comm.sendrecv(pickled(rank, length), dest=right, sendtag=length % 7, source=left, recvtag=length % 7) == \
            pickled(left, length)


def test_objects_from_any_source():
    """Everyone sends to rank 0, which probes, and learns from the message who it was."""
    requests = [comm.isend(pickled(rank, 50 * tag), dest=0, tag=tag) for tag in range(10)]
    if rank == 0:
        left_over = {(source, tag) for source in range(size) for tag in range(10)}
        status = MPI.Status()
        while left_over:
            message = comm.mprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
            source, tag = status.source, status.tag
            assert message.recv() == pickled(source, 50 * tag)
            left_over.remove((source, tag))
    MPI.Request.waitall(requests)


def test_order_of_objects():
    requests = [comm.isend((rank, i), dest=right, tag=3) for i in range(500)]
    assert [comm.recv(source=left, tag=3) for _ in range(500)] == [(left, i) for i in range(500)]
    MPI.Request.waitall(requests)


def test_arrays():
    for dtype in ("i1", "i4", "i8", "f4", "f8", "c16"):
        for count in (0, 1, 7, 1000, 300001):
            source = (np.arange(count) * 3 + rank).astype(dtype)
            got = np.full(count, -1, dtype)
            request = comm.Irecv(got, source=left, tag=count % 100)
            comm.Send(source, dest=right, tag=count % 100) if size == 1 else comm.Ssend(source, dest=right, tag=count % 100)
            request.Wait()
            assert np.array_equal(got, (np.arange(count) * 3 + left).astype(dtype))


def test_column_of_matrix():
    """A derived datatype: a column of a matrix to a row of another one."""
    n = 400
    matrix = np.arange(n * n, dtype="f8").reshape(n, n) + rank
    row = np.empty(n)
    column = MPI.DOUBLE.Create_vector(n, 1, n).Commit()
    request = comm.Irecv(row, source=left)
    comm.Send([matrix.ravel()[5:], 1, column], dest=right)
    request.Wait()
    column.Free()
    assert np.array_equal(row, np.arange(n) * n + 5.0 + left)


def test_persistent():
    count = 2000
    out, got = np.empty(count), np.empty(count)
    requests = [comm.Recv_init(got, source=left, tag=9), comm.Send_init(out, dest=right, tag=9)]
    for i in range(50):
        out[:] = rank + i
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        assert np.all(got == left + i)
    for request in requests:
        request.Free()


def test_collectives_of_objects():
    objects = [pickled(i, 200) for i in range(size)]
    assert comm.bcast(pickled(0, 3000) if rank == 0 else None) == pickled(0, 3000)
    assert comm.scatter(objects if rank == size - 1 else None, root=size - 1) == objects[rank]
    assert comm.allgather(objects[rank]) == objects
    assert comm.alltoall([(rank, i) for i in range(size)]) == [(i, rank) for i in range(size)]
    assert comm.allreduce([rank]) == list(range(size))
    assert comm.reduce(rank + 1, op=MPI.MAX) == (size if rank == 0 else None)
    assert comm.exscan(1) == (rank if rank > 0 else None)
    gathered = comm.gather(objects[rank])
    assert gathered == (objects if rank == 0 else None)


def test_collectives_of_arrays():
    for count in (1, 33, 70000):
        mine = np.arange(count, dtype="f8") + rank
        result = np.empty(count)
        comm.Allreduce(mine, result)
        assert np.array_equal(result, np.arange(count) * size + size * (size - 1) / 2)
        everything = np.empty((size, count))
        comm.Allgather(mine, everything)
        assert np.array_equal(everything, np.arange(count) + np.arange(size)[:, None])
        out = np.repeat(np.arange(size) + 10 * rank, count).astype("i4")
        got = np.empty(size * count, "i4")
        comm.Alltoall(out, got)
        assert np.array_equal(got, np.repeat(10 * np.arange(size) + rank, count))
        request = comm.Ibcast(mine, root=size - 1)
        request.Wait()
        assert np.array_equal(mine, np.arange(count) + size - 1)


def test_split_communicators():
    """Many communicators at once: a message of one never matches a receive of another."""
    parts = [comm.Split(color=rank % 2, key=-rank) for _ in range(20)]
    requests = [part.isend((i, part.rank), dest=(part.rank + 1) % part.size, tag=1) for i, part in enumerate(parts)]
    for i, part in reversed(list(enumerate(parts))):
        assert part.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG) == (i, (part.rank - 1) % part.size)
    MPI.Request.waitall(requests)
    for part in parts:
        part.Free()


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            if rank == 0:
                print(name, flush=True)
            test()
            comm.Barrier()
    if rank == 0:
        print(f"{size} ranks: all right", flush=True)


main()
