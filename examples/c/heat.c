/* Heat flows along a rod that the ranks share: neighbours exchange their borders, and a plan sums what has changed. The
   result is the same on 1, 2, 3 and 4 ranks. Try: sinew-run -n 4 build/release/bin/c_heat_example */
#include <math.h>
#include <sinew.h>
#include <stdio.h>
#include <string.h>

enum { kCells = 120, kSteps = 2000, kToLeft = 1, kToRight = 2 };

static int failed(const char* call) {
  fprintf(stderr, "%s: %s\n", call, sinew_last_error_message());
  return 1;
}
#define TRY(call) \
  if ((call) != SINEW_OK) return failed(#call)

/* Cells 1 to `cells` are this rank's own. Cells 0 and cells + 1 are copies of the neighbours' borders. A rank at an end
   of the rod has one neighbour: the message of the other is left out, where MPI has MPI_PROC_NULL. */
static sinew_status exchange_borders(sinew_communicator all, int rank, int size, double* heat, int cells) {
  sinew_message messages[4] = {{0}};
  size_t count = 0;
  if (rank > 0) {
    messages[count++] = (sinew_message){1, rank - 1, &heat[1], sizeof(double), kToLeft, SINEW_HOST, 0, 0};
    messages[count++] = (sinew_message){0, rank - 1, &heat[0], sizeof(double), kToRight, SINEW_HOST, 0, 0};
  }
  if (rank < size - 1) {
    messages[count++] = (sinew_message){1, rank + 1, &heat[cells], sizeof(double), kToRight, SINEW_HOST, 0, 0};
    messages[count++] = (sinew_message){0, rank + 1, &heat[cells + 1], sizeof(double), kToLeft, SINEW_HOST, 0, 0};
  }
  return sinew_group(all, messages, count, SINEW_OPTIONS(.label = "borders"), NULL);
}

int main(void) {
  sinew_world world;
  sinew_communicator all;
  int rank;
  int size;
  TRY(sinew_world_from_environment(NULL, &world));
  TRY(sinew_world_communicator(world, &all));
  TRY(sinew_communicator_rank(all, &rank));
  TRY(sinew_communicator_size(all, &size));
  if (kCells % size != 0) {
    fprintf(stderr, "c_heat_example: there are %d ranks, expected a number that divides %d\n", size, kCells);
    return 2;
  }
  const int cells = kCells / size;
  double heat[kCells + 2] = {0};
  double next[kCells + 2] = {0};
  if (rank == 0) heat[0] = 100; /* this end of the rod is kept hot */

  sinew_call_description description = SINEW_CALL_DESCRIPTION_INIT;
  description.collective = SINEW_ALL_REDUCE;
  description.dtype = SINEW_F64;
  description.op = SINEW_MAX;
  description.count = 1;
  sinew_plan largest;
  TRY(sinew_communicator_plan(all, &description, &largest));

  double change = 0;
  for (int step = 0; step < kSteps; ++step) {
    TRY(exchange_borders(all, rank, size, heat, cells));
    double own_change = 0;
    for (int i = 1; i <= cells; ++i) {
      next[i] = heat[i] + 0.25 * (heat[i - 1] - 2 * heat[i] + heat[i + 1]);
      own_change = fmax(own_change, fabs(next[i] - heat[i]));
    }
    memcpy(&heat[1], &next[1], (size_t)cells * sizeof(double));
    TRY(sinew_run(all, largest, &own_change, &change, SINEW_OPTIONS(.label = "largest change"), NULL));
  }

  double rod[kCells] = {0};
  TRY(sinew_gather(all, &heat[1], rod, (size_t)cells, SINEW_F64, 0, SINEW_OPTIONS(), NULL));
  if (rank == 0) printf("after %d steps: %.6f in the middle, last change %.6f\n", kSteps, rod[kCells / 2], change);
  TRY(sinew_plan_free(&largest));
  TRY(sinew_world_free(&world));
  return 0;
}
