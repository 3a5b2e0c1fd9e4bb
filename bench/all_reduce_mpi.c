/* The all-reduce of MPI, measured as bench/all_reduce.cc measures ours:
 *
 *   mpicc -O2 bench/all_reduce_mpi.c -o all_reduce_mpi
 *   mpirun -np 2 all_reduce_mpi SECONDS BYTES...
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double cpu_micros(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return 1e6 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double seconds = atof(argv[1]);
  const int most = 10000000;
  double *micros = malloc(sizeof(double) * most);
  for (int arg = 2; arg < argc; ++arg) {
    const long bytes = atol(argv[arg]), n = bytes / (long)sizeof(float);
    float *values = calloc(n, sizeof(float));
    for (int i = 0; i < 3; ++i) MPI_Allreduce(MPI_IN_PLACE, values, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    const double cpu = cpu_micros(), start = MPI_Wtime();
    int count = 0;
    for (float go_on = 1; go_on != 0;) {
      const int repeats = bytes <= (1 << 16) ? 50 : 1;
      for (int i = 0; i < repeats && count < most; ++i) {
        const double begin = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, values, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        micros[count++] = 1e6 * (MPI_Wtime() - begin);
      }
      go_on = rank == 0 && count < most && MPI_Wtime() - start < seconds;
      MPI_Allreduce(MPI_IN_PLACE, &go_on, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    double used = (cpu_micros() - cpu) / count;
    MPI_Allreduce(MPI_IN_PLACE, &used, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    qsort(micros, count, sizeof(double), compare);
    if (rank == 0) printf("%ld %.2f %.2f\n", bytes, micros[count / 2], used);
    fflush(stdout);
    free(values);
  }
  MPI_Finalize();
  return 0;
}
