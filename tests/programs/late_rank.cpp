// Sums in which rank 1 comes only when all others have told it that they are there. --die: rank 1 is killed instead of
// coming to the last one.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include <sinew/collectives/world.hpp>

int main(int count, char** arguments) try {
  const bool dies = count > 1 && std::strcmp(arguments[1], "--die") == 0;
  sinew::World world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();
  constexpr int kCalls = 20;
  for (int call = 1; call <= kCalls; ++call) {
    std::vector<float> data(1000, 1);
    std::vector<std::byte> here(1);
    if (all.rank() == 1) {
      for (int r = 0; r < all.size(); ++r) {
        if (r != 1) all.recv(here, r).get();
      }
      if (dies && call == kCalls) ::raise(SIGKILL);
      all.all_reduce(data).get();
    } else {
      sinew::Work sum = all.all_reduce(data);
      all.send(here, 1).get();
      sum.get();
    }
  }
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "late_rank: %s\n", e.what());
  return 1;
}
