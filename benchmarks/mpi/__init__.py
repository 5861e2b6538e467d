"""Real MPI programs with a recorder, from which the recordings in `tests/recordings` were made.

`python -m benchmarks.mpi FOLDER [NAME ...]` compiles `programs.c` with `recorder.c` (`MPICC`, by default mpicc), runs
each program (`MPIEXEC`, by default mpiexec), and writes `FOLDER/NAME.txt.gz`: the recordings of all processes, with
times since the first event. The tests make OTF2 archives of them (`tests/support/mpi_recordings.py`). The recordings
are of MPICH 4.0.2, except that of `spawn`: MPI_Comm_spawn of that installation failed, so it is of Open MPI 4.1.4
(`MPIEXEC="mpiexec --oversubscribe --mca mpi_yield_when_idle 1"`); all processes shared one
core. The package does not contain these programs.
"""
