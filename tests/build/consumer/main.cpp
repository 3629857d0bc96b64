#include <array>
#include <cstdio>
#include <string_view>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/version.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>

int main(int argc, char** argv) {
  const std::string_view version = sinew::version();
  if (argc != 2 || version != argv[1]) {
    std::fprintf(stderr, "sinew::version() is %s\n", version.data());
    return 1;
  }
  sinew::World world = sinew::World::create(sinew::exchange_alone());
  std::array<float, 3> data = {1, 2, 3};
  sinew::parallel::JobMesh job(world.communicator(), {});
  job.dense().along("dp").all_reduce(data).get();
  std::printf("sinew %s, world of %d: %g %g %g\n", version.data(), world.size(), data[0], data[1], data[2]);
  return data == std::array<float, 3>{1, 2, 3} ? 0 : 1;
}
