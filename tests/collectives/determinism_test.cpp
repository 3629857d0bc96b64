#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/leaf_blocks.hpp>

#include "support/balanced_sum.hpp"
#include "support/reduce_reference.hpp"
#include "support/sanitized.hpp"
#include "support/worlds.hpp"

// Level two and three of docs/design.md, Numbers: the same bits, whatever runs the call, and on however many ranks.
namespace sinew::test {
namespace {

using ::testing::HasSubstr;
using Data = std::vector<std::byte>;

constexpr double kFactor = 0.3;  // of PreMulSum: no power of two, so that where it is applied shows

/// Element i of what a rank gives: of mixed sign and magnitude, so that every order of a sum has other bits.
Data given(int rank, DType dtype, std::size_t count) {
  Data data(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t x = mix(mix(static_cast<std::uint64_t>(rank) + 1, 77), i + 1);
    const double fraction = static_cast<double>(x >> 40) / (1 << 24) - 0.5;
    const double value = std::ldexp(fraction, static_cast<int>(x % 13) - 6);
    put_bits(data.data(), i, dtype, is_integer(dtype) ? x : bits_of(dtype, value));
  }
  return data;
}

/// By the tree of neighbours, element by element; every value here is a number, so scaling is that of the kernels.
Data by_tree(std::vector<Data> parts, DType dtype, ReduceOp op) {
  const std::size_t bytes = parts.front().size();
  if (op == ReduceOp::PreMulSum) {
    for (Data& p : parts) scaler_for(dtype, kFactor)(p.data(), p.data(), bytes);
  }
  Data sum(bytes);
  for (std::size_t i = 0; i < bytes / size_of(dtype); ++i) {
    std::vector<std::uint64_t> bits;
    for (const Data& p : parts) bits.push_back(bits_at(p.data(), i, dtype));
    const std::uint64_t all = balanced_sum(bits, [&](std::uint64_t a, std::uint64_t b) {
      const std::uint64_t pair[] = {a, b};
      return combine_all(op, dtype, {&pair[0], &pair[1]}, 0);
    });
    put_bits(sum.data(), i, dtype, all);
  }
  if (op == ReduceOp::Average)
    scaler_for(dtype, 1.0 / static_cast<double>(parts.size()))(sum.data(), sum.data(), bytes);
  return sum;
}

/// One sum over all ranks, and what it must be.
struct Sum {
  DType dtype;
  ReduceOp op;
  std::size_t count;
  Data expected;

  Sum(DType dtype_, ReduceOp op_, std::size_t count_, int ranks) : dtype(dtype_), op(op_), count(count_) {
    std::vector<Data> parts;
    for (int r = 0; r < ranks; ++r) parts.push_back(given(r, dtype, count));
    expected = by_tree(std::move(parts), dtype, op);
  }
  std::string to_string() const { return fmt::format("{} {} x {}", name_of(op), name_of(dtype), count); }
};

std::vector<Sum> sums(int ranks) {
  std::vector<Sum> all;
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    for (const std::size_t count : {1U, 7U, 1001U, 40'007U}) all.emplace_back(dtype, ReduceOp::Sum, count, ranks);
  }
  for (const ReduceOp op : {ReduceOp::Average, ReduceOp::PreMulSum, ReduceOp::Product}) {
    for (const DType dtype : {DType::F32, DType::BF16}) all.emplace_back(dtype, op, 1001, ranks);
  }
  all.emplace_back(DType::F32, ReduceOp::Max, 1001, ranks);
  all.emplace_back(DType::I32, ReduceOp::Sum, 1001, ranks);
  return all;
}

Buffer buffer(Data& data) { return {data.data(), data.size()}; }
ConstBuffer part(const Data& data, std::size_t first, std::size_t bytes) { return {data.data() + first, bytes}; }

CallOptions at_level(Determinism level) {
  CallOptions options{};
  options.determinism = level;
  options.pre_multiply = kFactor;
  return options;
}

/// Blocks of another length on every rank, some empty.
std::vector<std::uint64_t> uneven(std::size_t count, int ranks) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(ranks), 0);
  for (std::size_t left = count, r = 0; left > 0;
       r = (r + 2) % counts.size(), left -= std::min<std::size_t>(left, 3001))
    counts[r] += std::min<std::size_t>(left, 3001);
  return counts;
}

/// All that reduces, out of place and in place.
void check_all_calls(Communicator& all, const Sum& sum, Determinism level) {
  const CallOptions options = at_level(level);
  const Data mine = given(all.rank(), sum.dtype, sum.count);
  const ConstBuffer in = part(mine, 0, mine.size());
  const std::size_t element = size_of(sum.dtype);
  const std::string what = sum.to_string();

  Data out(mine.size());
  all.all_reduce(in, buffer(out), sum.dtype, sum.op, options).get();
  require(out == sum.expected, "all_reduce of " + what);
  out = mine;
  all.all_reduce(buffer(out), buffer(out), sum.dtype, sum.op, options).get();
  require(out == sum.expected, "all_reduce in place of " + what);

  for (const int root : {0, all.size() - 1}) {
    std::ranges::fill(out, std::byte{});
    all.reduce(in, all.rank() == root ? buffer(out) : Buffer{}, sum.dtype, root, sum.op, options).get();
    require(all.rank() != root || out == sum.expected, fmt::format("reduce to {} of {}", root, what));
  }

  const std::size_t each = sum.count / static_cast<std::size_t>(all.size()) * element;
  const std::size_t first = each * static_cast<std::size_t>(all.rank());
  const Data whole_blocks(mine.begin(),
                          mine.begin() + static_cast<std::ptrdiff_t>(each * static_cast<std::size_t>(all.size())));
  Data block(each);
  all.reduce_scatter(part(whole_blocks, 0, whole_blocks.size()), buffer(block), sum.dtype, sum.op, options).get();
  require(std::ranges::equal(block, std::span(sum.expected).subspan(first, each)), "reduce_scatter of " + what);

  const std::vector<std::uint64_t> counts = uneven(sum.count, all.size());
  std::size_t begin = 0;
  for (int r = 0; r < all.rank(); ++r) begin += counts[static_cast<std::size_t>(r)] * element;
  Data own(counts[static_cast<std::size_t>(all.rank())] * element);
  all.reduce_scatter_v(in, buffer(own), sum.dtype, {counts}, sum.op, options).get();
  require(std::ranges::equal(own, std::span(sum.expected).subspan(begin, own.size())), "reduce_scatter_v of " + what);
}

constexpr Collective kReducing[] = {Collective::AllReduce, Collective::Reduce, Collective::ReduceScatter,
                                    Collective::ReduceScatterV};

/// Of everything that can keep the order on so many ranks, rules that force it: by name.
std::map<std::string, std::vector<std::string>> ways(const std::string& transport, int ranks) {
  std::map<std::string, std::vector<std::string>> all{{"as selected", {}}};
  for (const Algorithm& a : all_algorithms()) {
    if (std::ranges::find(kReducing, a.collective) == std::end(kReducing)) continue;
    const CollectiveDesc desc{
        .collective = a.collective, .dtype = DType::F32, .determinism = Determinism::Reproducible, .count = 1};
    if (a.supports(desc, ranks).ok)
      all[std::string(a.name)].push_back(fmt::format("{}:0-:{}@{}", name_of(a.collective), a.name, transport));
  }
  if (transport == "shm") {
    for (const Collective c : {Collective::AllReduce, Collective::Reduce, Collective::ReduceScatter})
      all["the offload"].push_back(fmt::format("{}:0-:shm@shm", name_of(c)));
  }
  return all;
}

WorldOptions options_with(const std::string& transport, const std::vector<std::string>& rules) {
  WorldOptions options = only(transport);
  options.config.tune = rules;
  options.config.verify_plans = true;
  return options;
}

struct Setting {
  std::string transport;
  int ranks;
};

class Reproducible : public ::testing::TestWithParam<Setting> {};

TEST_P(Reproducible, GivesTheBitsOfTheTree_WhateverRunsTheCall) {
  const auto& [transport, ranks] = GetParam();
  const std::vector<Sum> all = sums(ranks);
  const auto every_way = ways(transport, ranks);
  EXPECT_GE(every_way.size(), 3u);
  for (const auto& [name, rules] : every_way) {
    SCOPED_TRACE(name);
    on_threads(ranks, options_with(transport, rules), [&](World& world) {
      for (const Sum& sum : all) {
        // Rules are for where order shows; what else a way cannot do is not forced.
        if (!rules.empty() && name == "two_shot" && (sum.op == ReduceOp::Max || is_integer(sum.dtype))) continue;
        check_all_calls(world.communicator(), sum, Determinism::Reproducible);
      }
    });
  }
}

/// All numbers of ranks over inproc, and some of them over shm and tcp.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16}) {
    if (test::kSanitized && ranks > 4) continue;
    all.push_back({"inproc", ranks});
    if (ranks == 3 || ranks == 4 || ranks == 16) all.push_back({"shm", ranks});
    if (ranks == 2 || ranks == 7) all.push_back({"tcp", ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, Reproducible, ::testing::ValuesIn(settings()),
                         [](const auto& p) { return fmt::format("{}_{}", p.param.transport, p.param.ranks); });

TEST(Determinism, ReachesProcesses) {
  const std::vector<Sum> all = sums(4);
  for (const char* transport : transports_between_processes()) {
    in_processes(4, options_with(transport, {}), [&](World& world) {
      for (const Sum& sum : all) check_all_calls(world.communicator(), sum, Determinism::Reproducible);
    });
  }
}

/// These data do show an order: two algorithms that are free to choose differ, and so does the tree from both.
TEST(Determinism, MattersForTheseData) {
  for (const int ranks : {3, 5}) {
    const Sum sum(DType::F32, ReduceOp::Sum, 1001, ranks);
    std::map<std::string, Data> results;
    for (const std::string name : {"ring", "chain", "direct", "double_binary_tree"}) {
      const auto rule = fmt::format("all_reduce:0-:{}@inproc", name);
      if (find_algorithm(Collective::AllReduce, name) == nullptr) continue;
      on_threads(ranks, options_with("inproc", {rule}), [&](World& world) {
        Data out = given(world.rank(), sum.dtype, sum.count);
        world.communicator().all_reduce(buffer(out), buffer(out), sum.dtype, sum.op).get();
        if (world.rank() == 0) results[name] = out;
      });
    }
    EXPECT_NE(results.at("ring"), results.at("direct"));
    EXPECT_NE(results.at("ring"), sum.expected);
    EXPECT_NE(results.at("ring"), results.at("double_binary_tree"));
  }
}

TEST(Determinism, CutsWithoutATrace) {
  for (const int ranks : {3, 4}) {
    if (test::kSanitized && ranks > 3) continue;
    const Sum sum(DType::F64, ReduceOp::Sum, 300'007, ranks);  // several segments, several chunks of shared memory
    for (const char* transport : {"inproc", "shm"}) {
      for (const auto& [name, rules] : ways(transport, ranks)) {
        SCOPED_TRACE(name);
        on_threads(ranks, options_with(transport, rules),
                   [&](World& world) { check_all_calls(world.communicator(), sum, Determinism::Reproducible); });
      }
    }
  }
}

TEST(Determinism, OrdersTheUsersOperator) {
  const ReduceFn add = [](void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<float*>(dst)[i] = static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
  };
  const Reducer mine{add, nullptr, sizeof(float)};
  for (const int ranks : {3, 5, 6}) {
    const Sum sum(DType::F32, ReduceOp::Sum, 20'001, ranks);
    for (const char* transport : {"inproc", "shm", "tcp"}) {
      on_threads(ranks, options_with(transport, {}), [&](World& world) {
        CallOptions options = at_level(Determinism::Reproducible);
        options.user = &mine;
        Data out = given(world.rank(), sum.dtype, sum.count);
        world.communicator().all_reduce(buffer(out), buffer(out), sum.dtype, ReduceOp::User, options).get();
        require(out == sum.expected, transport);
      });
    }
  }
}

/// Every block of 64 leaves as if it were a rank's.
TEST(LayoutInvariant, GivesTheSameBits_OnOneTwoFourAndEightRanks) {
  constexpr std::size_t kCount = 5003;
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    std::vector<Data> leaves;
    for (int b = 0; b < kLeafBlocks; ++b) leaves.push_back(given(b, dtype, kCount));
    const Data expected = by_tree(leaves, dtype, ReduceOp::Sum);
    for (const char* transport : {"inproc", "shm", "tcp"}) {
      for (const int ranks : {1, 2, 4, 8}) {
        on_threads(ranks, options_with(transport, {}), [&](World& world) {
          const int blocks = kLeafBlocks / ranks;
          Data mine;
          for (int b = world.rank() * blocks; b < (world.rank() + 1) * blocks; ++b)
            mine.insert(mine.end(), leaves[static_cast<std::size_t>(b)].begin(),
                        leaves[static_cast<std::size_t>(b)].end());
          Data sum(expected.size());
          sum_leaf_blocks(part(mine, 0, mine.size()), buffer(sum), dtype, blocks);
          const CallOptions options = at_level(Determinism::LayoutInvariant);
          world.communicator().all_reduce(buffer(sum), buffer(sum), dtype, ReduceOp::Sum, options).get();
          require(sum == expected, fmt::format("{} over {} on {} ranks", name_of(dtype), transport, ranks));
        });
      }
    }
  }
}

/// The bits of level three are no accident of these data: a left-to-right sum of the leaves has others.
TEST(LayoutInvariant, DiffersFromTheOrderOfTheLeaves) {
  std::vector<float> tree{1e8F, 1.0F, -1e8F, 1.0F};
  float whole = 0;
  sum_leaf_blocks({reinterpret_cast<const std::byte*>(tree.data()), 16}, {reinterpret_cast<std::byte*>(&whole), 4},
                  DType::F32, 4);
  EXPECT_NE(whole, tree[0] + tree[1] + tree[2] + tree[3]);
}

TEST(LayoutInvariant, IsRefused_WhereTheLayoutWouldShow) {
  const CallOptions options = at_level(Determinism::LayoutInvariant);
  on_threads(3, only("inproc"), [&](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> data(4, 1.0F);
    EXPECT_EQ(
        complaint([&] { all.all_reduce(data, ReduceOp::Sum, options).get(); }),
        "all_reduce(f32, sum, count 4, layout_invariant): 3 ranks cannot hold aligned ranges of the 64 leaf blocks of "
        "a layout-invariant sum; expected a power of two of ranks, 64 at most");
    std::vector<std::int32_t> integers(4, 1);
    all.all_reduce(integers, ReduceOp::Sum, options).get();
    require(integers.back() == 3, "integers have the same bits in any order");
    all.all_reduce(data, ReduceOp::Max, options).get();
  });
  on_threads(2, only("inproc"), [&](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> data(4, 1.0F);
    for (const ReduceOp op : {ReduceOp::Average, ReduceOp::PreMulSum})
      EXPECT_THAT(complaint([&] { all.all_reduce(data, op, options).get(); }),
                  HasSubstr("depends on how many ranks share the work"));
  });
}

TEST(Determinism, IsShownByThePlan_WithWhatItRefuses) {
  on_threads(5, only("shm"), [](World& world) {
    const CollectiveDesc desc{.collective = Collective::AllReduce,
                              .dtype = DType::F32,
                              .determinism = Determinism::Reproducible,
                              .count = 1 << 20};
    const std::string text = world.communicator().plan(desc).explain();
    EXPECT_THAT(text, HasSubstr("reproducible"));
    EXPECT_THAT(text, HasSubstr("not by the canonical tree"));
    EXPECT_THAT(text, HasSubstr("the pairs that 5 ranks are folded into"));
  });
}

TEST(Determinism, LeavesNothing_WhereARuleWantsAnotherOrder) {
  on_threads(3, options_with("inproc", {"all_reduce:0-:ring"}), [](World& world) {
    std::vector<float> data(4, 1.0F);
    const CallOptions options = at_level(Determinism::Reproducible);
    EXPECT_THAT(complaint([&] { world.communicator().all_reduce(data, ReduceOp::Sum, options).get(); }),
                HasSubstr("ring@*: adds in an order of its own"));
  });
}

}  // namespace
}  // namespace sinew::test
