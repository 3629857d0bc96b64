#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::ScratchFolder;
using test::Lying;
using test::parts_of_rank;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Lying kLyings[] = {Lying::Copies, Lying::Flat, Lying::Rows, Lying::Columns, Lying::FlatOfColumns};

void save_as(const std::string& folder, Lying how, int ranks, std::int64_t step = 1) {
  on_threads(ranks, only("inproc"), [&](World& world) {
    const auto parts = parts_of_rank(how, world.rank(), ranks, true);
    save_checkpoint(world.communicator(), folder, parts.all, {.step = step, .seed = 7, .layout = "any"});
  });
}

TEST(Checkpoint, LoadsUnderEveryLayoutAndNumberOfRanks_WhateverItWasSavedUnder) {
  for (std::size_t s = 0; s < std::size(kLyings); ++s) {
    for (int saved_on = 1; saved_on <= 5; saved_on += 2) {
      ScratchFolder folder;
      save_as(folder / "all", kLyings[s], saved_on);
      for (const Lying to : kLyings) {
        const int ranks = 1 + (saved_on + static_cast<int>(to) * 2) % 5;
        on_threads(ranks, only("inproc"), [&](World& world) {
          auto parts = parts_of_rank(to, world.rank(), ranks, false);
          require(world.size() > 1 || parts.wrong_bytes() > 0, "the test's memory is right before anything is read");
          const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder / "all", 1), parts.all);
          require(parts.wrong_bytes() == 0, "other bytes than were saved");
          require(loaded.unread.empty() && loaded.metadata.seed == 7 && loaded.metadata.layout == "any", "metadata");
        });
      }
    }
  }
}

/// Scales that need all digits, also of numbers that are no power of two. A training without a scaler has none.
TEST(Checkpoint, KeepsTheStateOfALossScaler) {
  const std::optional<LossScaleState> states[] = {LossScaleState{65536, 1999, 3}, LossScaleState{0.1 + 0.2, 0, 0},
                                                  LossScaleState{5e-324, std::int64_t{1} << 62, 1}, std::nullopt};
  for (const std::optional<LossScaleState>& state : states) {
    ScratchFolder folder;
    on_threads(2, only("inproc"), [&](World& world) {
      const auto parts = parts_of_rank(Lying::Rows, world.rank(), 2, true);
      save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 1, .loss_scale = state});
    });
    EXPECT_EQ(read_contents(step_folder(folder / "c", 1)).metadata.loss_scale, state);
    on_threads(3, only("inproc"), [&](World& world) {
      const auto parts = parts_of_rank(Lying::Flat, world.rank(), 3, false);
      const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder / "c", 1), parts.all);
      require(loaded.metadata.loss_scale == state, "on all ranks");
    });
  }
}

/// Ranks that see different folders would load different steps, or none.
TEST(Checkpoint, IsTheLatestThatAllRanksSee) {
  ScratchFolder folder;
  for (const std::int64_t step : {1, 5}) save_as(folder / "all", Lying::Copies, 1, step);
  save_as(folder / "stale", Lying::Copies, 1, 1);
  std::ofstream(folder / "file") << "no folder";
  on_threads(3, only("inproc"), [&](World& world) {
    Communicator& all = world.communicator();
    const auto latest = [&](const std::string& of_rank_1) {
      return latest_step(all, folder / (world.rank() == 1 ? of_rank_1 : "all"));
    };
    require(latest("all") == 5, "the same folder");
    require(latest("stale") == 1, "an older view");
    require(!latest("nothing"), "a folder that one does not see");
    try {
      static_cast<void>(latest("file"));
      require(false, "a folder that cannot be read");
    } catch (const Error& e) {
      require(e.code() == Code::System && e.rank() == 1, e.what());
    }
    require_folder_for_checkpoints(all, folder / "new");
    require(!latest_step(all, folder / "new"), "nothing is in it");
    const std::string said =
        complaint([&] { require_folder_for_checkpoints(all, folder / (world.rank() == 2 ? "file/deep" : "new")); });
    require(said.find("rank 2 on ") != std::string::npos && said.find("Not a directory") != std::string::npos, said);
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder / "new"));
}

TEST(Checkpoint, WritesCopiesOnce_AndAboutAsMuchOnEachRank) {
  ScratchFolder folder;
  on_threads(4, only("inproc"), [&](World& world) {
    test::Parts parts;
    for (int i = 0; i < 40; ++i) {
      const CheckpointItem item{fmt::format("p{}", i), DType::F32, {1000 + 37 * i}};
      parts.add(item, whole_of(item), true);
    }
    save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 3});
  });
  std::vector<std::uintmax_t> bytes;
  for (const auto& entry : std::filesystem::directory_iterator(step_folder(folder / "c", 3)))
    if (entry.path().extension() == ".safetensors") bytes.push_back(entry.file_size());
  ASSERT_EQ(bytes.size(), 4U);
  std::uintmax_t sum = 0;
  for (const auto b : bytes) sum += b;
  const std::uintmax_t data = 4 * (40 * 1000 + 37 * 39 * 40 / 2);
  EXPECT_GE(sum, data);
  EXPECT_LT(sum, data + 4 * 4096U);
  for (const auto b : bytes)
    EXPECT_NEAR(static_cast<double>(b), static_cast<double>(sum) / 4, static_cast<double>(sum) / 40);
}

/// Three holders, of which each has its copy cut among two ranks, the last one elsewhere: as beside unequal shards.
TEST(Checkpoint, WritesCopiesOnce_ThatAreCutDifferently) {
  ScratchFolder folder;
  const CheckpointItem flat{"flat", DType::F32, {1000}}, wide{"wide", DType::F64, {16, 30}};
  const Box columns{{2, 5}, {14, 25}};
  on_threads(6, only("inproc"), [&](World& world) {
    const auto half_of = [&](std::int64_t last, std::int64_t cut) {
      return world.rank() % 2 == 0 ? std::pair<std::int64_t, std::int64_t>(0, cut) : std::pair(cut, last);
    };
    test::Parts parts;
    const auto [first, last] = half_of(1000, world.rank() < 4 ? 500 : 517);
    parts.add(flat, range_of(flat, first, last), true);
    // Cut in a row, and where a row begins.
    const auto [begin, end] = half_of(columns.elements(), world.rank() < 4 ? 127 : 140);
    parts.add(wide, {columns, begin, end}, true);
    if (world.rank() == 0) {
      parts.add(wide, box_of({{0, 0}, {2, 30}}), true);
      parts.add(wide, box_of({{14, 0}, {16, 30}}), true);
      parts.add(wide, box_of({{2, 0}, {14, 5}}), true);
      parts.add(wide, box_of({{2, 25}, {14, 30}}), true);
    }
    save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 3});
  });
  on_threads(1, only("inproc"), [&](World& world) {
    test::Parts parts;
    for (const CheckpointItem& item : {flat, wide}) parts.add(item, whole_of(item), false);
    load_checkpoint(world.communicator(), step_folder(folder / "c", 3), parts.all);
    require(parts.wrong_bytes() == 0, "bytes");
  });
}

TEST(Checkpoint, TellsWhatNobodyRead_AndWhatIsInIt) {
  ScratchFolder folder;
  save_as(folder / "c", Lying::Rows, 2, 12);
  const CheckpointContents contents = read_contents(step_folder(folder / "c", 12));
  EXPECT_EQ(contents.ranks, 2);
  EXPECT_EQ(contents.items.size(), test::several_items().size());
  on_threads(2, only("inproc"), [&](World& world) {
    test::Parts parts;  // one rank reads this, the other that
    const auto items = test::several_items();
    for (std::size_t i = 0; i + 2 < items.size(); ++i)
      if (static_cast<int>(i % 2) == world.rank()) parts.add(items[i], whole_of(items[i]), false);
    const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder / "c", 12), parts.all);
    require(parts.wrong_bytes() == 0, "bytes");
    require(loaded.unread == std::vector<std::string>{"large", "wide"}, "what nobody wanted");
  });
}

TEST(Checkpoint, FindsTheHighestStep_AndIgnoresWhatIsNone) {
  ScratchFolder folder;
  EXPECT_EQ(latest_step(folder / "none"), std::nullopt);
  save_as(folder / "c", Lying::Flat, 2, 9);
  save_as(folder / "c", Lying::Flat, 2, 1000000);
  save_as(folder / "c", Lying::Flat, 2, 10);
  for (const char* other : {"/step-x", "/step-00002000000", "/.partial-3000000-1"})
    std::filesystem::create_directory(folder / "c" + other);
  EXPECT_EQ(latest_step(folder / "c"), 1000000);
  std::filesystem::create_directory(folder / "c/step-2000000");
  EXPECT_EQ(latest_step(folder / "c"), 2000000) << "a checkpoint that has lost its index is not passed over in silence";
}

TEST(Checkpoint, TakesThePlaceOfOneOfTheSameStep) {
  ScratchFolder folder;
  save_as(folder / "c", Lying::Flat, 3, 5);
  save_as(folder / "c", Lying::Rows, 2, 5);
  EXPECT_EQ(read_contents(step_folder(folder / "c", 5)).ranks, 2);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "c")) left.push_back(entry.path().filename());
  EXPECT_THAT(left, ElementsAre("step-000005"));
}

/// What save says on every rank, all alike, where rank r passes parts(r).
std::string refusal(int ranks, const std::function<void(test::Parts&, int)>& parts,
                    CheckpointMetadata metadata = {.step = 1}) {
  ScratchFolder folder;
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  on_threads(ranks, only("inproc"), [&](World& world) {
    test::Parts mine;
    parts(mine, world.rank());
    std::string& text = said[static_cast<std::size_t>(world.rank())];
    text = complaint([&] { save_checkpoint(world.communicator(), folder / "c", mine.all, metadata); });
    std::array<int, 1> one{1};
    world.communicator().all_reduce(one).get();  // the job goes on
    require(one[0] == ranks, "an all_reduce after the refusal");
  });
  for (const std::string& text : said) EXPECT_EQ(text, said[0]);
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
  return said[0];
}

TEST(Checkpoint, NamesHolesOverlapsAndWhatDiffers_OnAllRanksAlike) {
  const CheckpointItem item{"w", DType::F32, {10}};
  EXPECT_THAT(refusal(2, [&](test::Parts& p, int r) { p.add(item, range_of(item, r * 6, r * 4 + 4 + r * 2), true); }),
              AllOf(HasSubstr("'w' (f32 [10])"), HasSubstr("[4, 6) are in no part")));
  EXPECT_THAT(
      refusal(3, [&](test::Parts& p,
                     int r) { p.add(item, range_of(item, r == 0 ? 0 : 3 * r, r == 2 ? 10 : 3 * r + 4), true); }),
      AllOf(HasSubstr("[3, 4) are in parts of rank 0 and of rank 1"), HasSubstr("'w'")));
  EXPECT_THAT(refusal(2, [&](test::Parts& p, int r) { p.add(item, range_of(item, 0, r == 0 ? 10 : 9), true); }),
              HasSubstr("in parts of rank 0 and of rank 1"));
  EXPECT_THAT(refusal(2, [&](test::Parts& p, int) { p.add(item, range_of(item, 0, 9), true); }),
              HasSubstr("[9, 10) are in no part"));
  EXPECT_THAT(refusal(2,
                      [&](test::Parts& p, int r) {
                        const CheckpointItem other{"w", r == 0 ? DType::F32 : DType::F64, {10}};
                        p.add(other, whole_of(other), true);
                      }),
              AllOf(HasSubstr("rank 0 has 'w' (f32 [10])"), HasSubstr("rank 1 'w' (f64 [10])")));
  EXPECT_THAT(refusal(2,
                      [&](test::Parts& p, int r) {
                        p.add(item, whole_of(item), true);
                        if (r == 1) p.all.back().buffer.bytes = 39;
                      }),
              AllOf(HasSubstr("rank 1 on"), HasSubstr("39 bytes, expected 40")));
  EXPECT_THAT(refusal(1, [&](test::Parts& p, int) { p.add(item, whole_of(item), true); }, {.step = -1}),
              HasSubstr("step -1, expected 0 or more"));
  for (const double scale : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(refusal(2, [&](test::Parts& p, int) { p.add(item, whole_of(item), true); },
                        {.step = 1, .loss_scale = LossScaleState{scale, 0, 0}}),
                HasSubstr("expected a finite number above 0"));
  }
  EXPECT_THAT(refusal(1, [&](test::Parts& p, int) { p.add(item, whole_of(item), true); }, {.layout = "\xff"}),
              HasSubstr("UTF-8"));
}

TEST(Checkpoint, RefusesMetadataThatDiffer) {
  ScratchFolder folder;
  on_threads(3, only("inproc"), [&](World& world) {
    const auto parts = parts_of_rank(Lying::Rows, world.rank(), 3, true);
    const std::string said = complaint([&] {
      save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 4, .seed = world.rank() == 1 ? 8U : 9U});
    });
    require(said.find("seed 8") != std::string::npos && said.find("rank 1") != std::string::npos, said);
    const LossScaleState scaling{world.rank() == 2 ? 4.0 : 2.0, 0, 0};
    const std::string scales = complaint(
        [&] { save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 4, .loss_scale = scaling}); });
    require(scales.find("loss scale 4") != std::string::npos && scales.find("rank 2") != std::string::npos, scales);
  });
}

TEST(Checkpoint, NamesWhatIsWantedAndNotThere) {
  ScratchFolder folder;
  save_as(folder / "c", Lying::Rows, 2);
  const auto refused = [&](const CheckpointItem& item) {
    std::vector<std::string> said(2);
    on_threads(2, only("inproc"), [&](World& world) {
      test::Parts parts;
      if (world.rank() == 1) parts.add(item, whole_of(item), false);
      said[static_cast<std::size_t>(world.rank())] = complaint(
          [&] { static_cast<void>(load_checkpoint(world.communicator(), step_folder(folder / "c", 1), parts.all)); });
    });
    EXPECT_EQ(said[0], said[1]);
    return said[0];
  };
  EXPECT_THAT(refused({"no", DType::F32, {2}}),
              AllOf(HasSubstr("'no' (f32 [2]) is not among the 8"), HasSubstr("rank 1")));
  EXPECT_THAT(refused({"a", DType::F64, {7, 5}}), HasSubstr("has 'a' (f32 [7, 5]), expected 'a' (f64 [7, 5])"));
  EXPECT_THAT(refused({"a", DType::F32, {5, 7}}), HasSubstr("expected 'a' (f32 [5, 7])"));
}

}  // namespace
}  // namespace sinew::parallel
