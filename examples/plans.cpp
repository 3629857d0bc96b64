// One call made again and again: planned once, on memory that peers read without copies.
// Try: sinew-run -n 2 build/release/bin/plans_example
#include <algorithm>
#include <cstdio>

#include <sinew/collectives/world.hpp>

int main() try {
  auto world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();

  constexpr std::size_t kCount = 1 << 16;
  const sinew::Memory memory = world.allocate(kCount * sizeof(float));
  const auto gradients = memory.as<float>();

  const sinew::Plan plan =
      all.plan({.collective = sinew::Collective::AllReduce, .dtype = sinew::DType::F32, .count = kCount});
  if (all.rank() == 0) std::printf("%s", plan.explain().c_str());  // what runs, what loses, what cannot, and why

  for (int step = 0; step < 3; ++step) {
    std::ranges::fill(gradients, 1.0F);
    all.run(plan, gradients, gradients).get();
    if (gradients.back() != static_cast<float>(all.size())) return 1;
  }
  std::printf("rank %d ran it three times on %s\n", all.rank(), memory.known_as().c_str());
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "plans_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
