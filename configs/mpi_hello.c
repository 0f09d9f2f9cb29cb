/* Every rank says where it is; rank 0 adds up all rank numbers, to show that they can talk. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  int length = 0;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);
  printf("rank %d of %d on %s\n", rank, size, host);
  fflush(stdout);

  int sum = 0;
  MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("the ranks add up to %d, as %d ranks should\n", sum, size);
  MPI_Finalize();
  return sum == size * (size - 1) / 2 || rank != 0 ? 0 : 1;
}
