// What a communicator keeps when every collective has run, short and long. One line of JSON from each rank.
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/topology/format/json/json_object.hpp>

namespace {

void run_all(sinew::Communicator& all, std::uint64_t count) {
  const auto ranks = static_cast<std::uint64_t>(all.size());
  std::vector<float> one(count), other(count), many(ranks * count), others(ranks * count);
  const std::vector<std::uint64_t> counts(ranks, count);
  const std::span<float> small(one);
  const std::span<float> large(many);
  all.all_reduce(small, std::span(other)).get();
  all.all_gather(small, large).get();
  all.all_gather_v(small, large, {counts}).get();
  all.reduce_scatter(large, small).get();
  all.reduce_scatter_v(large, small, {counts}).get();
  all.all_to_all(large, std::span(others)).get();
  all.all_to_all_v(large, std::span(others), {counts}, {counts}).get();
  all.broadcast(small, 0).get();
  all.reduce(small, std::span(other), 0).get();
  all.gather(small, all.rank() == 0 ? large : std::span<float>(), 0).get();
  all.scatter(all.rank() == 0 ? large : std::span<float>(), small, 0).get();
  all.barrier().get();
}

}  // namespace

int main() {
  auto world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();
  for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{4} << 10, std::uint64_t{2} << 20})
    run_all(all, count);
  std::puts(sinew::json_object({{"rank", world.rank()}, {"memory_bytes", all.memory_bytes()}}).c_str());
}
