#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/tensor/pairs.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

using Values = std::vector<double>;

/// No two alike; the same on all ranks where `rank` is.
Values wave(std::size_t bytes, int seed, int rank) {
  Values all(bytes / sizeof(double));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = std::sin(1.7 * static_cast<double>(i) + 11 * rank + 3 * seed) + 0.1 * rank;
  return all;
}

ConstBuffer bytes_of(const Values& v) { return {reinterpret_cast<const std::byte*>(v.data()), v.size() * 8}; }
Buffer room_of(Values& v) { return {reinterpret_cast<std::byte*>(v.data()), v.size() * 8}; }

Values through(Exchange& exchange, const Values& in) {
  Values out(exchange.out_bytes() / sizeof(double), -7);
  exchange.run({exchange.from(), bytes_of(in)}, room_of(out));
  return out;
}

/// What all ranks hold counts once, everything else is the sum over the ranks.
double product(World& world, const Values& a, const Values& b, bool held_by_all) {
  std::vector<double> sum{0};
  for (std::size_t i = 0; i < a.size(); ++i) sum[0] += a[i] * b[i];
  if (held_by_all) return sum[0];
  world.communicator().all_reduce(sum).get();
  return sum[0];
}

bool is_whole(const Placement& p) { return std::holds_alternative<Replicate>(p); }

/// <f(x), y> and <x, f^T(y)>.
std::pair<double, double> both_sides(World& world, const TensorSpec& tensor, const Pair& pair) {
  PairExchange exchange(world.communicator(), "tp", tensor, pair);
  const auto drawn = [&](std::size_t bytes, int seed, const Placement& value) {
    return wave(bytes, seed, is_whole(value) ? 0 : world.rank() + 1);
  };
  const Values x = drawn(exchange.forward().in_bytes(), 1, pair.value_from);
  const Values y = drawn(exchange.backward().in_bytes(), 2, pair.gradient_from);
  const Values fx = through(exchange.forward(), x), fy = through(exchange.backward(), y);
  return {product(world, fx, y, is_whole(pair.value_to) && is_whole(pair.gradient_from)),
          product(world, x, fy, is_whole(pair.value_from) && is_whole(pair.gradient_to))};
}

std::vector<Pair> all_pairs(int ranks, std::int64_t rows) {
  Shard last_takes_all{0, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 0)};
  last_takes_all.offsets.push_back(rows);
  std::vector<Pair> all{copy_pair(), reduce_pair()};
  for (const Shard& s : {Shard{0, {}}, Shard{1, {}}, last_takes_all}) {
    all.push_back(split_pair(s));
    all.push_back(gather_pair(s));
    all.push_back(gather_for_parts_pair(s));
    all.push_back(reduce_scatter_pair(s));
  }
  all.push_back(transpose_pair(Shard{0, {}}, Shard{1, {}}));
  all.push_back(transpose_pair(Shard{1, {}}, Shard{0, {}}));
  all.push_back(transpose_pair(last_takes_all, Shard{1, {}}));
  return all;
}

TEST(Pairs, AreTransposes_WhateverIsCutHowever) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      for (const auto& [rows, columns] :
           {std::pair<std::int64_t, std::int64_t>{8, 16}, {7, 5}, {3, 11}, {1, 2}, {0, 4}}) {
        for (const Pair& pair : all_pairs(ranks, rows)) {
          const auto [left, right] = both_sides(world, {"x", DType::F64, {rows, columns}, {}}, pair);
          require(std::abs(left - right) <= 1e-12 * (1 + std::abs(left)),
                  fmt::format("{} of {} x {}: {} and {}", pair.name, rows, columns, left, right));
        }
      }
    });
  }
}

/// A rank that goes on in its own way has a gradient of its own: keeping one's part of that forgets all others'.
TEST(Pairs, AreToldFromWhatIsNoTranspose) {
  on_threads(3, only("inproc"), [](World& world) {
    const TensorSpec tensor{"x", DType::F64, {6, 6}, {}};
    PairExchange right(world.communicator(), "tp", tensor, gather_for_parts_pair(Shard{0, {}}));
    PairExchange wrong(world.communicator(), "tp", tensor, gather_pair(Shard{0, {}}));
    const Values x = wave(right.forward().in_bytes(), 1, world.rank()), y = wave(36 * 8, 2, world.rank());
    const double expected = product(world, through(right.forward(), x), y, false);
    const double found = product(world, x, through(right.backward(), y), false);
    const double other = product(world, x, through(wrong.backward(), y), false);
    require(std::abs(found - expected) < 1e-12 && std::abs(other - expected) > 1e-3, "a missing sum must show");
  });
}

TEST(Pairs, MoveWhatTheySay) {
  on_threads(4, only("inproc"), [](World& world) {
    const TensorSpec tensor{"x", DType::F64, {2, 8}, {}};
    PairExchange columns(world.communicator(), "tp", tensor, split_pair(Shard{1, {0, 1, 1, 4, 8}}));
    Values whole(16);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<double>(i);
    const Values part = through(columns.forward(), whole);
    const std::vector<Values> expected{{0, 8}, {}, {1, 2, 3, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}};
    require(part == expected[static_cast<std::size_t>(world.rank())], "this rank's columns");
    require(through(columns.backward(), part) == whole, "all of them again");
    PairExchange sums(world.communicator(), "tp", tensor, reduce_scatter_pair(Shard{0, {}}));
    const Values mine = through(sums.forward(), whole);
    const bool has_row = world.rank() % 2 == 1;  // rows [r * 2 / 4, (r + 1) * 2 / 4)
    require(mine.size() == (has_row ? 8U : 0U), "two rows, four ranks");
    if (has_row) require(mine[3] == 4 * (world.rank() == 1 ? 3 : 11), "a sum of four");
  });
}

TEST(Pairs, SayWhatIsWrong) {
  on_threads(2, only("inproc"), [](World& world) {
    const TensorSpec tensor{"hidden", DType::F64, {4, 6}, {}};
    PairExchange gather(world.communicator(), "tp", tensor, gather_pair(Shard{0, {}}));
    Values part(12), whole(24);
    const auto of = [&](const Placement& placement, const Values& in, Values& out) {
      return complaint([&] { gather.forward().run({placement, bytes_of(in)}, room_of(out)); });
    };
    require(of(Partial{}, part, whole) ==
                fmt::format("gather of 'hidden' (f64 [4, 6]) along tp on rank {}: expected Shard(0), found "
                            "Partial(sum): a sum over the ranks is missing",
                            world.rank()),
            "a placement: " + of(Partial{}, part, whole));
    require(of(Shard{0, {}}, whole, whole).find("an input of 192 bytes, expected 96") != std::string::npos, "bytes in");
    require(of(Shard{0, {}}, part, part).find("an output of 96 bytes, expected 192") != std::string::npos, "bytes out");
    const auto made = [&](const Pair& pair) {
      return complaint([&] { PairExchange(world.communicator(), "tp", tensor, pair); });
    };
    require(made(split_pair(Shard{2, {}})).find("'hidden'") != std::string::npos, made(split_pair(Shard{2, {}})));
    require(made(split_pair(Shard{0, {0, 4}})).find("expected 3 offsets") != std::string::npos, "offsets");
    Pair backwards = reduce_pair();
    std::swap(backwards.value_from, backwards.value_to);
    require(made(backwards).find("there is no way from Replicate to Partial(sum)") != std::string::npos,
            made(backwards));
    auto first = gather.forward().start({Shard{0, {}}, bytes_of(part)}, room_of(whole));
    require(of(Shard{0, {}}, part, whole).find("it is still under way") != std::string::npos, "twice at once");
    first.get();
    require(of(Shard{0, {}}, part, whole) == "no complaint", "and again");
  });
}

}  // namespace
}  // namespace sinew::parallel
