/* Sums one number per rank. Try: sinew-run -n 4 build/release/bin/c_all_reduce_example */
#include <sinew.h>
#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "c_all_reduce_example: %s\n", sinew_last_error_message());
  return sinew_last_error_status() == SINEW_INVALID_ARGUMENT ? 2 : 1;
}

int main(void) {
  sinew_world world;
  sinew_communicator all;
  int rank;
  int size;
  if (sinew_world_from_environment(NULL, &world) != SINEW_OK) return failed();
  if (sinew_world_communicator(world, &all) != SINEW_OK) return failed();
  if (sinew_communicator_rank(all, &rank) != SINEW_OK) return failed();
  if (sinew_communicator_size(all, &size) != SINEW_OK) return failed();

  float gradients[2] = {1.0F, (float)rank};
  if (sinew_all_reduce(all, gradients, gradients, 2, SINEW_F32, SINEW_SUM, SINEW_OPTIONS(), NULL) != SINEW_OK)
    return failed();

  printf("rank %d of %d: %g %g\n", rank, size, gradients[0], gradients[1]);
  return sinew_world_free(&world) == SINEW_OK ? 0 : failed();
}
