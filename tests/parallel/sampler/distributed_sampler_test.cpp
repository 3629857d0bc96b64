#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/sampler/distributed_sampler.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;
using sinew::test::ScratchFolder;
using Numbers = std::vector<std::int64_t>;

/// The samplers of all ranks, and what they give together.
class Ranks {
 public:
  Ranks(const SamplerOptions& options, int ranks) {
    for (int r = 0; r < ranks; ++r) of_rank_.emplace_back(options, r, ranks);
  }

  /// The next global batch, or empty at the end of the epoch. Parts differ in length by one at most.
  Numbers next() {
    Numbers all;
    std::vector<std::size_t> lengths;
    std::int64_t padding = 0, of_all = 0;
    for (DistributedSampler& sampler : of_rank_) {
      const std::optional<SampleBatch> batch = sampler.next();
      if (!batch) continue;
      EXPECT_EQ(batch->after, sampler.state());
      all.insert(all.end(), batch->samples.begin(), batch->samples.end());
      lengths.push_back(batch->samples.size());
      padding += batch->padding;
      of_all = batch->of_all;
    }
    EXPECT_TRUE(lengths.empty() || lengths.size() == of_rank_.size()) << "some ranks are at the end of the epoch";
    if (!lengths.empty()) {
      EXPECT_LE(std::ranges::max(lengths) - std::ranges::min(lengths), 1U);
      EXPECT_EQ(std::ssize(all), of_all + padding);
    }
    for (const DistributedSampler& sampler : of_rank_) EXPECT_EQ(sampler.state(), of_rank_.front().state());
    return all;
  }
  std::vector<Numbers> rest_of_epoch() {
    std::vector<Numbers> batches;
    for (Numbers batch = next(); !batch.empty(); batch = next()) batches.push_back(batch);
    return batches;
  }
  void set_epoch(std::int64_t epoch) {
    for (DistributedSampler& sampler : of_rank_) sampler.set_epoch(epoch);
  }
  void restore(const SamplerState& state) {
    for (DistributedSampler& sampler : of_rank_) sampler.restore(state);
  }
  const SamplerState& state() const { return of_rank_.front().state(); }
  std::int64_t batches_left() const { return of_rank_.front().batches_left(); }

 private:
  std::vector<DistributedSampler> of_rank_;
};

Numbers joined(const std::vector<Numbers>& batches) {
  Numbers all;
  for (const Numbers& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

Numbers all_numbers(std::int64_t count) {
  Numbers all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(DistributedSampler, GivesTheSameBatchesToAnyNumberOfRanks_EachSampleOnceInAnEpoch) {
  constexpr std::int64_t kSamples = 101;
  for (const std::int64_t batch : {1, 7, 16, 101}) {
    for (const LastBatch last : {LastBatch::Drop, LastBatch::Uneven}) {
      const SamplerOptions options{.samples = kSamples, .global_batch = batch, .seed = 3, .last = last};
      std::vector<Numbers> first_epoch;
      for (int ranks = 1; ranks <= 8; ++ranks) {
        Ranks samplers(options, ranks);
        for (const std::int64_t epoch : {0, 1}) {
          samplers.set_epoch(epoch);
          const std::vector<Numbers> batches = samplers.rest_of_epoch();
          Numbers used = joined(batches);
          if (epoch == 0 && ranks == 1) first_epoch = batches;
          EXPECT_EQ(batches == first_epoch, epoch == 0) << ranks << " ranks, epoch " << epoch;
          const bool drops = last == LastBatch::Drop;
          EXPECT_EQ(std::ssize(batches), drops ? kSamples / batch : (kSamples + batch - 1) / batch);
          EXPECT_EQ(std::ssize(used), drops ? kSamples / batch * batch : kSamples);
          std::ranges::sort(used);
          EXPECT_EQ(std::ranges::unique(used).begin(), used.end()) << "a sample was given twice";
          EXPECT_TRUE(used.front() >= 0 && used.back() < kSamples);
        }
      }
    }
  }
}

TEST(DistributedSampler, FillsTheLastBatchUp_WithTheFirstSamplesOfTheEpoch) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Ranks samplers({.samples = 10, .global_batch = 8, .seed = 5, .last = LastBatch::Pad}, ranks);
    const std::vector<Numbers> batches = samplers.rest_of_epoch();
    ASSERT_EQ(batches.size(), 2U);
    ASSERT_EQ(batches[1].size(), 8U);
    EXPECT_TRUE(std::equal(batches[0].begin(), batches[0].begin() + 6, batches[1].begin() + 2));
    Numbers used = batches[0];
    used.insert(used.end(), batches[1].begin(), batches[1].begin() + 2);
    std::ranges::sort(used);
    EXPECT_EQ(used, all_numbers(10));
  }
  Ranks few({.samples = 3, .global_batch = 8, .shuffle = false, .last = LastBatch::Pad}, 2);
  EXPECT_EQ(few.next(), (Numbers{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(DistributedSampler, KeepsTheOrderOfNumbers_WithoutShuffling) {
  Ranks samplers({.samples = 7, .global_batch = 3, .shuffle = false, .last = LastBatch::Uneven}, 2);
  for (const std::int64_t epoch : {0, 1}) {
    samplers.set_epoch(epoch);
    EXPECT_EQ(samplers.batches_left(), 3);
    EXPECT_EQ(joined(samplers.rest_of_epoch()), all_numbers(7));
    EXPECT_EQ(samplers.batches_left(), 0);
  }
}

TEST(DistributedSampler, GoesOnInTheMiddleOfAnEpoch_WithAnyNumberOfRanks) {
  const SamplerOptions options{.samples = 1000, .global_batch = 24, .seed = 11, .last = LastBatch::Uneven};
  for (const int before : {1, 2, 3, 8}) {
    for (const int after : {1, 2, 5, 8}) {
      Ranks whole(options, 4), stopped(options, before);
      for (Ranks* samplers : {&whole, &stopped}) {
        samplers->set_epoch(2);
        for (int i = 0; i < 17; ++i) (void)samplers->next();
      }
      SamplerOptions others = options;
      others.seed = 999;  // that of the state counts
      Ranks resumed(others, after);
      resumed.restore(stopped.state());
      EXPECT_EQ(resumed.rest_of_epoch(), whole.rest_of_epoch());
      for (Ranks* samplers : {&whole, &resumed}) samplers->set_epoch(3);
      EXPECT_EQ(resumed.rest_of_epoch(), whole.rest_of_epoch());
    }
  }
}

TEST(DistributedSampler, GoesOnWithTheNextSample_WithAnotherBatch) {
  SamplerOptions options{.samples = 50, .global_batch = 8, .seed = 1, .last = LastBatch::Uneven};
  Ranks whole(options, 1), stopped(options, 2);
  const Numbers order = joined(whole.rest_of_epoch());
  (void)stopped.next();
  options.global_batch = 5;
  Ranks resumed(options, 3);
  resumed.restore(stopped.state());
  EXPECT_EQ(joined(resumed.rest_of_epoch()), Numbers(order.begin() + 8, order.end()));
}

TEST(DistributedSampler, StateGoesThroughACheckpoint) {
  ScratchFolder folder;
  const SamplerOptions options{.samples = 333, .global_batch = 12, .seed = ~std::uint64_t{0}};
  on_threads(3, only("inproc"), [&](World& world) {
    DistributedSampler sampler(options, world.rank(), world.size());
    sampler.set_epoch(4);
    for (int i = 0; i < 5; ++i) (void)sampler.next();
    save_checkpoint(world.communicator(), folder / "c", {}, {.step = 1, .sampler = sampler.state()});
    save_checkpoint(world.communicator(), folder / "c", {}, {.step = 2});
    const std::string differ = complaint([&] {
      if (world.rank() == 1) (void)sampler.next();
      save_checkpoint(world.communicator(), folder / "c", {}, {.step = 3, .sampler = sampler.state()});
    });
    require_part(differ, "sampler at 60 of 333 samples of epoch 4");
    require_part(differ, "rank 1 ");
    SamplerState wrong = sampler.state();
    wrong.position = 334;
    require_part(
        complaint([&] { save_checkpoint(world.communicator(), folder / "c", {}, {.step = 3, .sampler = wrong}); }),
        "position 334, expected 0 to 333");
  });
  on_threads(2, only("inproc"), [&](World& world) {
    const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder / "c", 1), {});
    require(loaded.metadata.sampler.has_value(), "is saved");
    DistributedSampler sampler(options, world.rank(), world.size());
    sampler.restore(*loaded.metadata.sampler);
    require(sampler.state().epoch == 4 && sampler.state().position == 60, sampler.state().to_string());
    require(!load_checkpoint(world.communicator(), step_folder(folder / "c", 2), {}).metadata.sampler,
            "none was saved");
  });
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  const auto refusal = [](const SamplerOptions& options, int rank, int ranks) {
    return complaint([&] { DistributedSampler(options, rank, ranks); });
  };
  const auto expect_part = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_part(refusal({.samples = 0, .global_batch = 1}, 0, 1), "0 samples, expected 1 to 2^62");
  expect_part(refusal({.samples = 5, .global_batch = 0}, 0, 1), "a global batch of 0 samples");
  expect_part(refusal({.samples = 5, .global_batch = 6}, 0, 1),
              "a global batch of 6 of 5 samples, expected at most all");
  expect_part(refusal({.samples = 5, .global_batch = 5}, 2, 2), "rank 2 of 2 ranks");
  DistributedSampler sampler({.samples = 5, .global_batch = 2}, 0, 1);
  expect_part(complaint([&] { sampler.set_epoch(-1); }), "epoch -1");
  expect_part(complaint([&] { sampler.restore({.samples = 6}); }), "has 6 samples, shuffled, this one has 5, shuffled");
  expect_part(complaint([&] { sampler.restore({.samples = 5, .shuffled = false}); }), "expected the same order");
  expect_part(complaint([&] { sampler.restore({.samples = 5, .position = 6}); }), "position 6, expected 0 to 5");
}

}  // namespace
}  // namespace sinew::parallel
