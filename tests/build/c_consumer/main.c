#include <sinew.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc != 2 || strcmp(sinew_version(), argv[1]) != 0) {
    fprintf(stderr, "sinew_version() is %s\n", sinew_version());
    return 1;
  }
  sinew_world world;
  sinew_communicator all;
  float data[3] = {1, 2, 3};
  if (sinew_world_from_environment(NULL, &world) != SINEW_OK || sinew_world_communicator(world, &all) != SINEW_OK ||
      sinew_all_reduce(all, data, data, 3, SINEW_F32, SINEW_SUM, SINEW_OPTIONS(), NULL) != SINEW_OK ||
      sinew_world_free(&world) != SINEW_OK) {
    fprintf(stderr, "%s\n", sinew_last_error_message());
    return 1;
  }
  printf("sinew %s in C: %g %g %g\n", sinew_version(), data[0], data[1], data[2]);
  return data[0] == 1 && data[1] == 2 && data[2] == 3 ? 0 : 1;
}
