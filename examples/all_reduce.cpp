// Sums one number per rank. Try: sinew-run -n 4 build/release/bin/all_reduce_example
#include <array>
#include <cstdio>

#include <sinew/collectives/world.hpp>

int main() try {
  auto world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();

  std::array<float, 2> gradients = {1.0F, static_cast<float>(all.rank())};
  all.all_reduce(gradients).get();

  std::printf("rank %d of %d: %g %g\n", all.rank(), all.size(), gradients[0], gradients[1]);
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "all_reduce_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
