#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/numeric/codec.hpp>

#include "support/sanitized.hpp"
#include "support/worlds.hpp"

// Calls whose messages are coded: how far results are from the exact ones, and that all ranks have the same.
namespace sinew::test {
namespace {

using ::testing::HasSubstr;

/// What a rank gives: by turns of 300 elements small and large.
std::vector<float> given(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<float> in(-1, 1);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = in(random) * (i / 300 % 2 == 0 ? 1.0f : 1000.0f);
  return values;
}

struct Judged {
  double worst = 0;  ///< error, in parts of what is stated
  std::string where;

  void add(double found, double exact, double error, std::size_t element) {
    const double share = std::abs(found - exact) / error;
    if (share <= worst) return;  // a NaN is worse than anything
    worst = share;
    where = fmt::format("element {}: {} for {}, stated {}", element, found, exact, error);
  }
};

/// Of the sum over ranks of the elements [first, first + found.size()) of `count`. Blocks of a chunk begin anywhere: an
/// element's is within 256 elements of it.
Judged judge(std::span<const float> found, std::size_t first, std::size_t count, int ranks, Codec codec, int codings,
             double factor = 1) {
  std::vector<double> exact(count), magnitude(count);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> theirs = given(r, count);
    for (std::size_t i = 0; i < count; ++i) {
      exact[i] += factor * theirs[i];
      magnitude[i] += factor * (has_scales(codec) ? 1000 : std::abs(theirs[i]));
    }
  }
  Judged judged;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = coding_error(codec, codings, magnitude[first + i]) + 1e-6 * magnitude[first + i];
    judged.add(found[i], exact[first + i], error, first + i);
  }
  return judged;
}

void expect_within(const Judged& judged, std::size_t count, int ranks, const std::string& label) {
  EXPECT_LE(judged.worst, 1) << label << ": " << judged.where;
  // The control: were a fiftieth stated, it would be seen.
  if (count >= 1000 && ranks > 1) {
    EXPECT_GT(judged.worst, 0.02) << label;
  }
}

/// The bits are the same on all ranks.
void expect_same(Communicator& all, std::span<const float> mine, const std::string& label) {
  std::vector<std::uint32_t> least(mine.size());
  if (!mine.empty()) std::memcpy(least.data(), mine.data(), mine.size_bytes());
  std::vector<std::uint32_t> most = least;
  all.all_reduce(least, ReduceOp::Min).get();
  all.all_reduce(most, ReduceOp::Max).get();
  EXPECT_TRUE(least == most) << label;
}

class CodedCalls : public ::testing::TestWithParam<const char*> {
 protected:
  /// On 1, 2, 3, 5 and, where nothing slows it down, 8 ranks, by whatever is selected and by the user's choice.
  static void each(const std::vector<std::string>& algorithms, const std::string& collective,
                   const std::function<void(Communicator&, Codec, const std::string&)>& body) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      if (test::kSanitized && ranks > 5) continue;
      for (const std::string& algorithm : algorithms) {
        if (algorithm == "recursive_doubling" && (ranks & (ranks - 1)) != 0) continue;
        WorldOptions options = only(GetParam());
        if (!algorithm.empty()) options.config.tune = {fmt::format("{}:0-:{}", collective, algorithm)};
        on_threads(ranks, options, [&](World& world) {
          for (const Codec codec : {Codec::Bf16, Codec::F16, Codec::Int8, Codec::F8E4M3}) {
            body(world.communicator(), codec,
                 fmt::format("{} by '{}' in {} on {} ranks", collective, algorithm, name_of(codec), ranks));
          }
        });
      }
    }
  }
};

/// Several segments on few ranks; on more, what each rank's judging in the square of them allows.
std::size_t many(const Communicator& all) { return all.size() <= 3 && !test::kSanitized ? 300'000 : 12'000; }

TEST_P(CodedCalls, AllReduce_ErrsByNoMoreThanStated_AndAllRanksHaveTheSame) {
  each(
      {"", "ring", "bidirectional_ring", "halving_doubling", "recursive_doubling", "direct", "double_binary_tree"},
      "all_reduce", [](Communicator& all, Codec codec, const std::string& label) {
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, many(all)}) {
          const std::vector<float> mine = given(all.rank(), count);
          std::vector<float> out(count), in_place = mine;
          all.all_reduce(mine, out, ReduceOp::Sum, {.codec = codec}).get();
          expect_within(judge(out, 0, count, all.size(), codec, all.size()), count, all.size(), label);
          expect_same(all, out, label);
          all.all_reduce(in_place, ReduceOp::Sum, {.codec = codec}).get();
          EXPECT_EQ(in_place, out) << label;
          EXPECT_EQ(mine, given(all.rank(), count)) << label;
        }
      });
}

TEST_P(CodedCalls, Averages_ScaleOnce) {
  each({"", "ring"}, "all_reduce", [](Communicator& all, Codec codec, const std::string& label) {
    std::vector<float> data = given(all.rank(), 1000);
    all.all_reduce(data, ReduceOp::Average, {.codec = codec}).get();
    expect_within(judge(data, 0, 1000, all.size(), codec, all.size(), 1.0 / all.size()), 1000, all.size(), label);
    expect_same(all, data, label);
    std::vector<float> scaled = given(all.rank(), 1000);
    all.all_reduce(scaled, ReduceOp::PreMulSum, {.codec = codec, .pre_multiply = 3}).get();
    expect_within(judge(scaled, 0, 1000, all.size(), codec, all.size(), 3), 1000, all.size(), label);
    expect_same(all, scaled, label);
  });
}

TEST_P(CodedCalls, ReduceScatter_ErrsByNoMoreThanStated) {
  each({"", "ring", "halving_doubling"}, "reduce_scatter",
       [](Communicator& all, Codec codec, const std::string& label) {
         const auto ranks = static_cast<std::size_t>(all.size());
         for (const std::size_t each : {std::size_t{1}, std::size_t{1000}, many(all) / 4}) {
           const std::vector<float> mine = given(all.rank(), each * ranks);
           std::vector<float> out(each);
           all.reduce_scatter(mine, out, ReduceOp::Sum, {.codec = codec}).get();
           const std::size_t first = each * static_cast<std::size_t>(all.rank());
           const Judged judged = judge(out, first, each * ranks, all.size(), codec, std::max(1, all.size() - 1));
           expect_within(judged, each, all.size(), label);
         }
       });
}

TEST_P(CodedCalls, AllGather_IsWhatEachBlockDecodesTo_OnItsOwnerToo) {
  each({"", "ring", "direct"}, "all_gather", [](Communicator& all, Codec codec, const std::string& label) {
    const auto ranks = static_cast<std::size_t>(all.size());
    for (const std::size_t each : {std::size_t{1}, std::size_t{257}, std::size_t{5000}}) {
      const std::vector<float> mine = given(all.rank(), each);
      std::vector<float> out(each * ranks);
      all.all_gather(mine, out, {.codec = codec}).get();
      expect_same(all, out, label);
      for (std::size_t r = 0; r < ranks; ++r) {
        const std::vector<float> theirs = given(static_cast<int>(r), each);
        std::vector<std::byte> coded(wire_bytes(codec, each));
        std::vector<float> decoded = theirs;
        codec_kernels(codec).encode(coded.data(), theirs.data(), each);
        if (ranks > 1) codec_kernels(codec).decode(decoded.data(), coded.data(), each);
        EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), out.begin() + static_cast<std::ptrdiff_t>(r * each)))
            << label << ", block " << r << " of " << each;
      }
    }
  });
}

TEST_P(CodedCalls, VForms_TakePartsOfAnyLength) {
  on_threads(3, only(GetParam()), [](World& world) {
    Communicator& all = world.communicator();
    constexpr std::array<std::uint64_t, 3> kCounts{0, 700, 5};
    constexpr std::size_t kFirst[] = {0, 0, 700};
    constexpr std::size_t kAll = 705;
    const auto me = static_cast<std::size_t>(all.rank());
    for (const Codec codec : {Codec::Bf16, Codec::F16, Codec::Int8, Codec::F8E4M3}) {
      const std::vector<float> mine = given(all.rank(), kAll);
      std::vector<float> sums(kCounts[me]), whole(kAll);
      all.reduce_scatter_v(mine, sums, {kCounts}, ReduceOp::Sum, {.codec = codec}).get();
      EXPECT_LE(judge(sums, kFirst[me], kAll, 3, codec, 2).worst, 1);
      all.all_gather_v(sums, whole, {kCounts}, {.codec = codec}).get();
      EXPECT_LE(judge(whole, 0, kAll, 3, codec, 3).worst, 1);
      expect_same(all, whole, "all_gather_v");
    }
  });
}

TEST_P(CodedCalls, Infinity_IsSeenByAll) {
  on_threads(3, only(GetParam()), [](World& world) {
    Communicator& all = world.communicator();
    for (const Codec codec : {Codec::Bf16, Codec::F16, Codec::Int8, Codec::F8E4M3}) {
      std::vector<float> data(1000, 1.0f);
      if (all.rank() == 1) data[500] = std::numeric_limits<float>::infinity();
      all.all_reduce(data, ReduceOp::Sum, {.codec = codec}).get();
      EXPECT_FALSE(std::isfinite(data[500]));
      EXPECT_NEAR(data[0], 3, 0.1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, CodedCalls, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& i) { return std::string(i.param); });

/// Whole multiples of a scale, another one in each block of the buffer: coded in the same blocks they stay what they
/// are but for what f32 rounds.
float coded_before(std::size_t i) {
  const float scale = std::ldexp(1.0F, static_cast<int>(i / kScaledBlock % 3) * 5);
  return scale * static_cast<float>(i % kScaledBlock == 0 ? 127 : static_cast<int>(i * 37 % 255) - 127);
}

/// What is coded before its call, in blocks from the buffer's begin, is not coded otherwise wherever the buffer is cut.
TEST(CodedCall, TakesWhatIsCodedAlreadyAsItIs) {
  for (const std::size_t count : {1008, 100'003, 3'000'000}) {
    for (const char* algorithm : {"ring", "halving_doubling", "bidirectional_ring"}) {
      WorldOptions options = only("inproc");
      options.config.tune = {fmt::format("all_reduce:0-:{}", algorithm)};
      on_threads(2, options, [&](World& world) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = coded_before(i);
        world.communicator().all_reduce(values, ReduceOp::Sum, {.codec = Codec::Int8}).get();
        std::size_t other = 0;
        for (std::size_t i = 0; i < count; ++i)
          other += std::abs(values[i] - 2 * coded_before(i)) > 1e-5F * coded_before(i / kScaledBlock * kScaledBlock);
        EXPECT_EQ(other, 0U) << algorithm << ", " << count;
      });
    }
  }
}

TEST(CodedCall, IsRefused_WhereItHasNoMeaning) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    std::array<float, 4> data{};
    std::array<double, 4> wide{};
    const CallOptions int8{.codec = Codec::Int8};
    EXPECT_EQ(complaint([&] { all.all_reduce(wide, ReduceOp::Sum, int8).get(); }),
              "all_reduce: codec int8: dtype is f64, expected f32");
    EXPECT_EQ(complaint([&] { all.all_reduce(data, ReduceOp::Max, int8).get(); }),
              "all_reduce: codec int8: operator is max, expected a sum: sum, avg or premulsum");
    EXPECT_EQ(complaint([&] { all.broadcast(data, 0, int8).get(); }),
              "broadcast: codec int8: expected all_reduce, reduce_scatter or all_gather, or a v-form of these");
    EXPECT_THAT(complaint([&] { all.all_to_all(data, data, int8).get(); }), HasSubstr("all_to_all: codec int8: "));
    EXPECT_THAT(complaint([&] { all.send(data, 1 - all.rank(), 0, int8).get(); }), HasSubstr("send: codec int8: "));
    EXPECT_THAT(
        complaint([&] {
          all.all_reduce(data, ReduceOp::Sum, {.determinism = Determinism::Reproducible, .codec = Codec::Bf16}).get();
        }),
        HasSubstr("codec bf16: expected determinism fast"));
    EXPECT_THAT(complaint([&] { all.all_reduce(data, ReduceOp::Sum, {.codec = static_cast<Codec>(9)}).get(); }),
                HasSubstr("codec is 9, expected one of the 5 of Codec"));
    all.barrier().get();
  });
}

TEST(CodedCall, IsExplained) {
  on_threads(2, only("shm"), [](World& world) {
    CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::F32, .codec = Codec::Int8, .count = 1 << 20};
    const Plan plan = world.communicator().plan(desc);
    EXPECT_THAT(plan.explain(), HasSubstr("all_reduce(f32, sum, count 1048576, codec int8) on 2 ranks"));
    EXPECT_THAT(plan.explain(), HasSubstr("messages in int8"));
    EXPECT_THAT(plan.explain(), HasSubstr("it reads what ranks have in memory, where nothing is coded"));
    desc.dtype = DType::I32;
    EXPECT_THAT(complaint([&] { (void)world.communicator().plan(desc); }), HasSubstr("expected f32"));
  });
}

}  // namespace
}  // namespace sinew::test
