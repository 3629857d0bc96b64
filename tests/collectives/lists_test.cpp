#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/worlds.hpp"

// The forms that take a separate buffer for each rank.
namespace sinew::test {
namespace {

using testing::HasSubstr;

/// A buffer for each rank, in one piece of memory, in the opposite order of the ranks and with gaps of 0x5a bytes that
/// no call may touch.
class Lists {
 public:
  explicit Lists(const std::vector<std::size_t>& counts) {
    std::size_t total = kGap;
    for (const std::size_t c : counts) total += c + kGap;
    memory_.assign(total, kUntouched);
    std::size_t at = total;
    for (const std::size_t c : counts) {
      at -= c + kGap;
      parts_.push_back(std::span(memory_).subspan(at, c));
    }
  }

  std::span<std::int32_t> operator[](int rank) { return parts_[static_cast<std::size_t>(rank)]; }
  std::vector<Buffer> buffers() {
    std::vector<Buffer> all;
    for (const auto& p : parts_) all.push_back(buffer_of(p));
    return all;
  }
  std::vector<ConstBuffer> const_buffers() {
    std::vector<ConstBuffer> all;
    for (const auto& p : parts_) all.push_back(const_buffer_of(p));
    return all;
  }
  bool gaps_are_whole() const {
    std::size_t untouched = 0;
    for (const std::int32_t v : memory_) untouched += v == kUntouched ? 1 : 0;
    return untouched >= kGap * (parts_.size() + 1);
  }

 private:
  static constexpr std::size_t kGap = 3;
  static constexpr std::int32_t kUntouched = 0x5a5a5a5a;

  std::vector<std::int32_t> memory_;
  std::vector<std::span<std::int32_t>> parts_;
};

/// What rank `from` gives to rank `to`, different for each element.
void fill(std::span<std::int32_t> data, int from, int to) {
  std::iota(data.begin(), data.end(), 1'000'000 * from + 100'000 * to);
}
bool is_from(std::span<const std::int32_t> data, int from, int to) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != 1'000'000 * from + 100'000 * to + static_cast<std::int32_t>(i)) return false;
  }
  return true;
}

std::vector<std::vector<std::size_t>> lengths(int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  std::vector<std::vector<std::size_t>> found{std::vector<std::size_t>(all, 5), std::vector<std::size_t>(all, 0),
                                              std::vector<std::size_t>(all, 70'001)};
  std::vector<std::size_t> uneven(all);
  for (std::size_t r = 0; r < all; ++r) uneven[r] = r % 3 == 1 ? 0 : 17 * r + 1;
  found.push_back(uneven);
  return found;
}

class ListCalls : public testing::TestWithParam<const char*> {
 protected:
  static void run(int ranks, const Body& body) { on_threads(ranks, only(GetParam()), body); }
};

TEST_P(ListCalls, AllGather) {
  for (const int ranks : {1, 2, 5}) {
    run(ranks, [ranks](World& world) {
      Communicator& all = world.communicator();
      for (const auto& counts : lengths(ranks)) {
        for (const bool in_place : {false, true}) {
          Lists out(counts);
          std::vector<std::int32_t> mine(counts[static_cast<std::size_t>(all.rank())]);
          const std::span<std::int32_t> in = in_place ? out[all.rank()] : std::span(mine);
          fill(in, all.rank(), 0);
          all.all_gather(const_buffer_of(in), out.buffers(), DType::I32).get();
          for (int r = 0; r < ranks; ++r) require(is_from(out[r], r, 0), fmt::format("rank {}'s part", r));
          require(out.gaps_are_whole(), "a gap was written");
        }
      }
    });
  }
}

TEST_P(ListCalls, ReduceScatter) {
  for (const int ranks : {1, 2, 5}) {
    run(ranks, [ranks](World& world) {
      Communicator& all = world.communicator();
      for (const auto& counts : lengths(ranks)) {
        Lists in(counts);
        for (int r = 0; r < ranks; ++r) fill(in[r], 0, r);
        std::vector<std::int32_t> out(counts[static_cast<std::size_t>(all.rank())]);
        all.reduce_scatter(in.const_buffers(), buffer_of(out), DType::I32, ReduceOp::Sum).get();
        for (std::size_t i = 0; i < out.size(); ++i) {
          require(out[i] == ranks * (100'000 * all.rank() + static_cast<std::int32_t>(i)),
                  fmt::format("element {}", i));
        }
        for (int r = 0; r < ranks; ++r) require(is_from(in[r], 0, r), "an input was written");
        std::span<std::int32_t> own = in[all.rank()];
        all.reduce_scatter(in.const_buffers(), buffer_of(own), DType::I32, ReduceOp::Max).get();
        require(is_from(own, 0, all.rank()), "in place");
      }
    });
  }
}

TEST_P(ListCalls, AllToAll) {
  for (const int ranks : {1, 2, 5}) {
    run(ranks, [ranks](World& world) {
      Communicator& all = world.communicator();
      // Between two ranks as many elements in both directions, but for each pair another number.
      std::vector<std::size_t> counts(static_cast<std::size_t>(ranks));
      for (int r = 0; r < ranks; ++r)
        counts[static_cast<std::size_t>(r)] = static_cast<std::size_t>(r * all.rank() * 900);
      for (const bool in_place : {false, true}) {
        Lists in(counts);
        Lists separate(counts);
        Lists& out = in_place ? in : separate;
        for (int r = 0; r < ranks; ++r) fill(in[r], all.rank(), r);
        all.all_to_all(in.const_buffers(), out.buffers(), DType::I32).get();
        for (int r = 0; r < ranks; ++r) require(is_from(out[r], r, all.rank()), fmt::format("from rank {}", r));
        require(out.gaps_are_whole(), "a gap was written");
      }
    });
  }
}

TEST_P(ListCalls, GatherAndScatter) {
  for (const int ranks : {1, 2, 5}) {
    run(ranks, [ranks](World& world) {
      Communicator& all = world.communicator();
      for (const auto& counts : lengths(ranks)) {
        for (const int root : {0, ranks - 1}) {
          std::vector<std::int32_t> mine(counts[static_cast<std::size_t>(all.rank())]);
          fill(mine, all.rank(), 0);
          Lists list(counts);
          const bool is_root = all.rank() == root;
          all.gather(const_buffer_of(mine), is_root ? list.buffers() : std::vector<Buffer>(), DType::I32, root).get();
          for (int r = 0; r < ranks && is_root; ++r) require(is_from(list[r], r, 0), fmt::format("rank {}'s part", r));
          for (int r = 0; r < ranks; ++r) fill(list[r], 7, r);
          all.scatter(is_root ? list.const_buffers() : std::vector<ConstBuffer>(), buffer_of(mine), DType::I32, root)
              .get();
          require(is_from(mine, 7, all.rank()), "scattered");
          require(list.gaps_are_whole(), "a gap was written");
        }
      }
    });
  }
}

TEST_P(ListCalls, AreRefused_WhenTheirBuffersAreWrong) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::array<std::int32_t, 12> data{};
    const auto part = [&data](std::size_t at, std::size_t count) {
      return buffer_of(std::span(data).subspan(at, count));
    };
    const std::vector<Buffer> one{part(0, 2)};
    const std::vector<Buffer> overlapping{part(0, 4), part(3, 4)};
    const std::vector<Buffer> good{part(0, 4), part(4, 4)};
    const std::vector<Buffer> odd{part(0, 4), {part(4, 4).data + 1, 16, {}}};
    EXPECT_EQ(complaint([&] { all.all_gather(part(8, 2), one, DType::I32).get(); }),
              "all_gather: outs has 1 buffers, expected 2: one per rank");
    EXPECT_THAT(complaint([&] { all.all_gather(part(8, 4), overlapping, DType::I32).get(); }),
                HasSubstr("a buffer that is written overlaps another one"));
    EXPECT_THAT(complaint([&] { all.all_gather(part(8, 3), good, DType::I32).get(); }),
                HasSubstr("this rank's part of in has 3 elements, expected 4, as in outs"));
    EXPECT_THAT(
        complaint([&] { all.all_gather(part(8, 4), odd, DType::I32).get(); }),
        HasSubstr("outs[1] lies 17 bytes behind another buffer of the list; expected a multiple of the 4 bytes"));
    EXPECT_THAT(complaint([&] { all.gather(part(8, 4), good, DType::I32, 2).get(); }), HasSubstr("root is 2"));
    all.barrier().get();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, ListCalls, testing::Values("inproc", "shm", "tcp"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace sinew::test
