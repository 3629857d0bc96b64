// Each rank sends every other a number of tokens of its own, as a router of experts does: counts first, then tokens.
// Try: sinew-run -n 4 build/release/bin/tokens_example
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include <sinew/collectives/world.hpp>

int main() try {
  auto world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();
  const auto ranks = static_cast<std::size_t>(all.size());
  const auto me = static_cast<std::uint64_t>(all.rank());

  std::vector<std::uint64_t> to(ranks);
  std::vector<std::uint64_t> from(ranks);
  for (std::size_t r = 0; r < ranks; ++r) to[r] = (me + r) % 3;  // none for some
  all.all_to_all(to, from).get();

  const std::vector<float> tokens(std::accumulate(to.begin(), to.end(), std::size_t{0}), static_cast<float>(me));
  std::vector<float> arrived(std::accumulate(from.begin(), from.end(), std::size_t{0}));
  // In `arrived` the tokens of rank 0 come first, then those of rank 1. A bound on any rank's buffer, the same on all
  // ranks, is all that the choice of an algorithm can go by: counts are known to their ranks alone.
  sinew::CallOptions options{.largest_bytes = 2 * ranks * sizeof(float)};
  all.all_to_all_v(tokens, arrived, {to}, {from}, options).get();

  std::size_t at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::uint64_t t = 0; t < from[r]; ++t) {
      if (arrived[at++] != static_cast<float>(r)) return 1;
    }
  }
  std::printf("rank %d sent %zu tokens and has %zu\n", all.rank(), tokens.size(), arrived.size());
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "tokens_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
