/* Each macro of the C API once, in C11 and in C++20. */
#include <sinew.h>

static void add(void* result, const void* a, const void* b, size_t count, const void* context) {
  size_t i;
  (void)context;
  for (i = 0; i < count; ++i) ((float*)result)[i] = ((const float*)a)[i] + ((const float*)b)[i];
}

int main(void) {
  sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
  sinew_call_options call = SINEW_CALL_OPTIONS_INIT;
  sinew_call_description description = SINEW_CALL_DESCRIPTION_INIT;
  sinew_world world;
  sinew_communicator all;
  float number = 1;
  call.reduce = add;
  description.dtype = call.reduce == add ? SINEW_F32 : SINEW_F64;
  if (description.dtype == SINEW_F32) options.threads = SINEW_THREADS_MULTIPLE;
  if (sinew_world_from_environment(&options, &world) != SINEW_OK) return 1;
  if (sinew_world_communicator(world, &all) != SINEW_OK) return 1;
  if (sinew_all_reduce(all, &number, &number, 1, SINEW_F32, SINEW_USER, &call, NULL) != SINEW_OK) return 1;
#ifndef __cplusplus
  if (sinew_barrier(all, SINEW_OPTIONS(), NULL) != SINEW_OK) return 1;
  if (sinew_barrier(all, SINEW_OPTIONS(.deadline_s = 3, .label = "the end"), NULL) != SINEW_OK) return 1;
#endif
  return sinew_world_free(&world) == SINEW_OK ? 0 : 1;
}
