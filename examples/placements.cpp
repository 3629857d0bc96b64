// Brings a gradient from where the backward pass leaves it to where an optimizer with sharded state wants it, and shows
// what a forgotten reduction is told.
// Try: sinew-run -n 4 build/release/bin/placements_example
#include <cstdio>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/placement/checked_collectives.hpp>
#include <sinew/parallel/placement/redistribution/redistribute.hpp>

using namespace sinew::parallel;

int main() try {
  auto world = sinew::World::from_environment();
  const int tp = world.size() % 2 == 0 ? 2 : 1;
  Mesh mesh(world.communicator(), Factorisation({{"tp", tp}, {"dp", world.size() / tp}}));

  // Columns over tp, a sum to be made over dp; 1023 rows divide by nothing.
  const TensorSpec gradient{
      "w1.grad", sinew::DType::F32, {1023, 512}, Placements({{"tp", Shard{1, {}}}, {"dp", Partial{}}})};
  const Placements shards({{"tp", Shard{1, {}}}, {"dp", Shard{0, {}}}});
  const Redistribution plan = plan_redistribution(gradient, shards, mesh);

  TensorSpec shard = gradient;
  shard.placements = shards;
  std::vector<float> in(local_bytes(gradient, mesh.shape(), mesh.rank()) / sizeof(float), 1.0F);
  std::vector<float> out(local_bytes(shard, mesh.shape(), mesh.rank()) / sizeof(float));
  redistribute(plan, sinew::const_buffer_of(in), sinew::buffer_of(out), mesh);
  std::printf("rank %d: %zu of %zu elements, each %g\n", world.rank(), out.size(), in.size(), double{out.at(0)});
  if (world.rank() != 0) return 0;

  std::printf("%s", plan.explain().c_str());
  try {
    require(gradient, "dp", Replicate{}, "clip_norm");
  } catch (const sinew::Error& e) {
    std::printf("%s\n", e.what());
  }
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "placements_example: %s\n", e.what());
  return 1;
}
