#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/imagined/imagined_world.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::require;
using test::Small;

/// Bytes that a rank sends in a step, with P bytes of parameters on N ranks, each a host of its own, by rings: what the
/// papers say of each row, to the byte.
TEST(Traffic, IsThatOfTheTheory) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kBlocks = 6, kElements = 4096 * 3;  // cut by 4 ranks into lines of 64 bytes
  constexpr std::uint64_t kBytes = kBlocks * kElements * sizeof(float);
  WorldOptions options;
  options.config.tune = {"all_reduce:0-1GiB:ring", "reduce_scatter:0-1GiB:ring", "all_gather:0-1GiB:ring"};
  const auto hosts = imagine(imagined_cluster("xeon-2s:1+1+1+1"));
  for (const auto& [row, passes] : {std::pair{"ddp", 2U}, {"zero1", 2U}, {"zero2", 2U}, {"zero3", 3U}}) {
    run_imagined(hosts, options, [&](World& world) {
      std::vector<DataParameter> list;
      for (int i = 0; i < kBlocks; ++i) {
        const std::string unit = std::to_string(i);
        list.push_back({.path = std::string("blocks.") + unit, .elements = kElements, .unit = unit});
      }
      DataParallelOptions how{};
      how.rebuild_buckets = false;
      Small small(world, row, list, how);
      DataParallel& data = *small.data;
      const auto sent = [&] {
        const std::vector<std::uint64_t> all = world.sent_bytes();
        return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
      };
      const std::uint64_t before = sent();
      for (int u = 0; u < kBlocks; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = kBlocks; u-- > 0;) {
        data.before_backward(u);
        data.gradient(u).data[0] = {};
        data.gradient_ready(u);
        data.after_backward(u);
      }
      (void)data.finish_backward();
      data.updated();
      const std::uint64_t found = sent() - before;
      const std::uint64_t theory = passes * kBytes * (kRanks - 1) / kRanks;
      require(found == theory,
              std::string(row) + " sends " + std::to_string(found) + ", theory says " + std::to_string(theory));
    });
  }
}

}  // namespace
}  // namespace sinew::parallel
