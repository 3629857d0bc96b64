#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::in_processes;
using sinew::test::only;
using sinew::test::require;
using test::Small;

constexpr int kRanks = 4;
constexpr std::int64_t kBlocks = 6, kElements = 4096 * 3;  // cut by 4 ranks into lines of 64 bytes
constexpr std::uint64_t kBytes = kBlocks * kElements * sizeof(float);

/// Of a step, from this rank to all others.
std::uint64_t sent_in_a_step(World& world, const std::string& row, const GradientWire& wire = {},
                             Reshard reshard = Reshard::AfterForward) {
  std::vector<DataParameter> list;
  for (int i = 0; i < kBlocks; ++i) {
    const std::string unit = std::to_string(i);
    list.push_back({.path = std::string("blocks.") + unit, .elements = kElements, .unit = unit});
  }
  DataParallelOptions how{};
  how.rebuild_buckets = false;
  how.wire = wire;
  how.step.reshard = reshard;
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
  return sent() - before;
}

/// Bytes that a rank sends, with P bytes of parameters on N ranks, by rings: what the papers say of each row, to the
/// byte.
void expect_theory(World& world) {
  const auto expect_blocks = [&](const std::string& row, Reshard reshard, std::uint64_t blocks) {
    const std::uint64_t found = sent_in_a_step(world, row, {}, reshard);
    const std::uint64_t theory = blocks * (kBytes / kBlocks) * (kRanks - 1) / kRanks;
    require(found == theory, row + " sends " + std::to_string(found) + ", theory says " + std::to_string(theory));
  };
  for (const char* row : {"ddp", "zero1", "zero2"}) expect_blocks(row, Reshard::AfterForward, 2 * kBlocks);
  expect_blocks("zero3", Reshard::AfterForward, 3 * kBlocks - 1);  // all but the last are gathered twice
  expect_blocks("zero3", Reshard::AfterBackward, 2 * kBlocks);
}

const std::vector<std::string> kRings = {"all_reduce:0-1GiB:ring", "reduce_scatter:0-1GiB:ring",
                                         "all_gather:0-1GiB:ring"};

TEST(Traffic, IsThatOfTheTheory_OverTcp) {
  WorldOptions options = only("tcp");
  options.config.tune = kRings;
  options.count_sent = true;
  in_processes(kRanks, options, expect_theory);
}

TEST(Traffic, IsThatOfTheTheory_BetweenVirtualHosts) {
  WorldOptions options;
  options.config.tune = kRings;
  run_virtual_ranks(make_virtual_world(virtual_cluster_from("xeon-2s:1+1+1+1")), options, expect_theory);
}

/// The gradients' two passes of ddp; parameters travel as they are.
TEST(Traffic, IsAsMuchLessAsTheCodecSays) {
  WorldOptions options = only("tcp");
  options.config.tune = kRings;
  options.count_sent = true;
  in_processes(kRanks, options, [](World& world) {
    const std::uint64_t plain = sent_in_a_step(world, "ddp");
    require(sent_in_a_step(world, "ddp", {.codec = Codec::F16}) * 2 == plain, "f16 sends half");
    const std::uint64_t blocks = sent_in_a_step(world, "ddp", {.codec = Codec::Int8, .error_feedback = true});
    require(blocks * 256 * 4 == plain * (256 + 4), "int8 sends a byte for each element and a scale for each block");
    const std::uint64_t block = sent_in_a_step(world, "zero3") / (3 * kBlocks - 1);
    require(sent_in_a_step(world, "zero3", {.codec = Codec::Bf16}) == (2 * kBlocks - 1) * block + kBlocks * block / 2,
            "bf16 of the gradients");
  });
}

}  // namespace
}  // namespace sinew::parallel
