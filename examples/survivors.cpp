// The last rank dies at work; the others learn its name and go on without it.
// Try: sinew-run -n 4 --on-failure continue build/release/bin/survivors_example
#include <array>
#include <csignal>
#include <cstdio>

#include <sinew/collectives/world.hpp>

int main() try {
  auto world = sinew::World::from_environment();
  const bool last = world.size() > 1 && world.rank() == world.size() - 1;

  std::array<float, 1> sum = {};
  for (int step = 0; step < 3;) {
    if (last && step == 1) std::raise(SIGKILL);
    try {
      sum = {1};
      world.communicator().all_reduce(sum).get();
      ++step;
    } catch (const sinew::Error& e) {
      if (e.code() != sinew::Code::PeerLost) throw;
      std::printf("rank %d: %s\n", world.rank(), e.what());
      world = world.shrink();  // the ranks are numbered anew, in their order
      step = 1;                // some may have ended the step that others could not: go back to what all have
    }
  }
  std::printf("rank %d of %d: the sum is %g\n", world.rank(), world.size(), sum[0]);
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "survivors_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
