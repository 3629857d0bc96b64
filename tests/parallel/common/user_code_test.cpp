#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/job/job.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "../checkpoint/tensors.hpp"
#include "../job/small_engine.hpp"

// Users' callbacks that throw on one rank: the World must end on all ranks.
namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::ScratchFolder;

constexpr int kRanks = 3;

/// A call of a strategy that runs a user's callback.
struct Case {
  const char* name;
  int thrower;  ///< World rank
  /// All ranks make this call. Its callback throws 42 on the ranks where `throws` is true.
  std::function<void(World&, bool throws)> call;
  std::string doing;  ///< the callback's purpose in errors
};

void fill(const InitialPart& part) { std::fill_n(part.into.data, part.into.bytes, std::byte{0}); }

std::vector<DataParameter> one_parameter() { return {{.path = "a", .elements = 50, .unit = "u"}}; }

Case save_case(const char* name, int thrower, SaveStage stage, const ScratchFolder& folder) {
  const auto call = [stage, to = folder / name](World& world, bool throws) {
    test::Parts parts = test::parts_of_rank(test::Lying::Copies, world.rank(), world.size(), true);
    const SaveOptions options{.reached = [&](SaveStage now) {
      if (throws && now == stage) throw 42;
    }};
    save_checkpoint(world.communicator(), to, parts.all, {.step = 3}, options);
  };
  return {name, thrower, call, fmt::format("save of step 3 to {}, reached({})", folder / name, name)};
}

std::vector<Case> cases(const ScratchFolder& folder) {
  std::vector<Case> all{
      {"initial values", 1,
       [](World& world, bool throws) {
         Mesh mesh(world.communicator(), Factorisation({{"dp", kRanks}}));
         const InitialValues initial = [&](const InitialPart& part) {
           if (throws) throw 42;
           fill(part);
         };
         DataParallel(mesh, one_parameter(), initial, data_row("zero3", {"dp"}),
                      [&](std::size_t bytes) { return world.allocate(bytes); });
       },
       "initial values of 'a'"},
      {"allocate", 2,
       [](World& world, bool throws) {
         Mesh mesh(world.communicator(), Factorisation({{"dp", kRanks}}));
         const Allocate allocate = [&](std::size_t bytes) {
           if (throws) throw 42;
           return world.allocate(bytes);
         };
         DataParallel(mesh, one_parameter(), fill, data_row("ddp", {"dp"}), allocate);
       },
       "allocation of 256 bytes for data parallelism"},
      {"parameters of an engine", 0,
       [](World& world, bool throws) {
         EngineFacts engine = test::small_engine();
         engine.parameters = [throws, own = engine.parameters](const JobConfig& config, const RankPlace& place) {
           if (throws) throw 42;
           return own(config, place);
         };
         Job(world, {.global_batch = 18}, engine, fill);
       },
       "parameters of the engine"},
  };
  all.push_back(save_case("Folder", 0, SaveStage::Folder, folder));
  all.push_back(save_case("Written", 2, SaveStage::Written, folder));
  all.push_back(save_case("Indexed", 0, SaveStage::Indexed, folder));
  all.push_back(save_case("InPlace", 0, SaveStage::InPlace, folder));
  return all;
}

TEST(UserCode, EndsTheWorldWithItsText_AndItsRankGetsItsOwnException) {
  const ScratchFolder folder;
  for (const Case& each : cases(folder)) {
    on_threads(kRanks, only("inproc"), [&](World& world) {
      const bool throws = world.rank() == each.thrower;
      const std::string which = fmt::format("{}, rank {}: ", each.name, world.rank());
      const std::string told =
          fmt::format("rank {} aborted the world: {}: an exception of type int was thrown", each.thrower, each.doing);
      const auto begin = std::chrono::steady_clock::now();
      try {
        each.call(world, throws);
        require(!throws, which + "nothing was thrown");
        world.communicator().barrier().get();
        require(false, which + "it ended well");
      } catch (const Error& e) {
        require(!throws && e.code() == Code::Aborted && e.rank() == each.thrower && e.what() == told, which + e.what());
      } catch (int thrown) {
        require(throws && thrown == 42, which + "another rank's exception");
      }
      require(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2), which + "it took too long");
    });
  }
}

}  // namespace
}  // namespace sinew::parallel
