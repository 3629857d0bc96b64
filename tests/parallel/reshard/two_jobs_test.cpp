#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/members.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/reshard/placed_part.hpp>
#include <sinew/parallel/reshard/reshard.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

// Two jobs, each with a World of its own, meet in a third World of their members.
namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::fork_ranks;
using sinew::test::only;
using sinew::test::require;
using ::testing::HasSubstr;

const std::vector<std::string> kTrainers{"trainer 0", "trainer 1"};
const std::vector<std::string> kInference{"inference 0", "inference 1", "inference 2"};

Bytes secret_of(const std::string& name) { return Bytes(32, static_cast<std::byte>(name.size())); }

World world_of(const std::string& name, const std::vector<std::string>& list, const std::string& self,
               std::uint16_t port) {
  WorldOptions options = only("tcp");
  options.secret = secret_of(name);
  const Members members{name, list, self, "127.0.0.1:" + std::to_string(port), options.secret};
  return World::create(exchange_of_members(members, options.config), options);
}

/// The weights of one step: element e is e + step.
struct Weights {
  Weights(Placements placements, const Factorisation& mesh, int rank, float step)
      : tensor{{"w", DType::F32, {30, 20}, std::move(placements)}, {}} {
    values.resize(local_bytes(tensor, mesh, rank) / sizeof(float));
    tensor.buffer = {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
    part = placed_part(tensor, mesh, rank);
    if (step > 0) fill(step);
  }
  float value(std::size_t k, float step) const {
    const std::int64_t number = number_in_whole(tensor.shape, part.extent.box, static_cast<std::int64_t>(k));
    return static_cast<float>(number) + step;
  }
  void fill(float step) {
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = value(k, step);
  }
  bool are_of(float step) const {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] != value(k, step)) return false;
    }
    return !values.empty();
  }

  Tensor tensor;
  std::vector<float> values;
  CheckpointPart part;
};

float sum_of_ones(World& world) {
  std::array<float, 1> sum{1};
  world.communicator().all_reduce(sum).get();
  return sum[0];
}

/// The rank that dies waits until all others are ready for it.
void die_when_all_are_ready(Communicator& all) {
  for (int r = 0; r < all.size(); ++r) {
    std::array<int, 1> ready{};
    if (r != all.rank()) all.recv(ready, r).get();
  }
  std::raise(SIGKILL);
}

/// A call that a lost rank ends.
void require_lost(Communicator& all, int rank) {
  Error end(Code::Ok, "no error");
  try {
    const std::array<int, 1> ready{1};
    all.send(ready, rank).get();
    all.barrier().get();
  } catch (const Error& e) {
    end = e;
  }
  require(end.code() == Code::PeerLost && end.rank() == rank, end.what());
}

/// Both trainers have a copy of the weights. Trainer 1 dies after the first step. Trainer 0 shrinks its job and meets
/// the inference job again.
void trainer(int rank, std::uint16_t port, const std::vector<std::string>& all, const std::vector<std::string>& left) {
  const std::string self = kTrainers[static_cast<std::size_t>(rank)];
  World job = world_of("trainer", kTrainers, self, port);
  const Factorisation mesh({{"dp", 2}});
  Weights weights({}, mesh, rank, 1);
  World both = world_of("both", all, self, port);
  reshard(both.communicator(), {&weights.part, 1}, {});
  require(sum_of_ones(job) == 2, "the job's own World");
  if (rank == 1) die_when_all_are_ready(both.communicator());
  require_lost(both.communicator(), 1);
  World alone = job.shrink();
  require(alone.size() == 1, "the survivors of this job");
  weights.fill(2);
  World again = world_of("again", left, self, port);
  reshard(again.communicator(), {&weights.part, 1}, {});
  again.communicator().barrier().get();
}

void inference(int rank, std::uint16_t port, const std::vector<std::string>& all,
               const std::vector<std::string>& left) {
  const std::string self = kInference[static_cast<std::size_t>(rank)];
  World job = world_of("inference", kInference, self, port);
  const Factorisation mesh({{"tp", 3}});
  const Weights weights(Placements({{"tp", Shard{1, {}}}}), mesh, rank, 0);
  World both = world_of("both", all, self, port);
  reshard(both.communicator(), {}, {&weights.part, 1});
  require(weights.are_of(1), "the weights of step 1");
  require_lost(both.communicator(), 1);
  require(weights.are_of(1), "the weights stay");
  require(sum_of_ones(job) == 3, "this job goes on");
  World again = world_of("again", left, self, port);
  reshard(again.communicator(), {}, {&weights.part, 1});
  require(weights.are_of(2), "the weights of step 2");
  again.communicator().barrier().get();
}

TEST(ReshardOfTwoJobs, GoesOn_WhenOneJobShrinks) {
  std::vector<std::string> all = kTrainers, left{kTrainers[0]};
  all.insert(all.end(), kInference.begin(), kInference.end());
  left.insert(left.end(), kInference.begin(), kInference.end());
  const std::vector<int> ends = fork_ranks(5, [&](const Exchange& e) {
    std::vector<std::unique_ptr<MemberStore>> stores;
    std::uint16_t port = 0;
    if (e.rank == 0) {
      const Config config = only("tcp").config;
      for (const auto& [name, members] :
           {std::pair("trainer", 2), std::pair("inference", 3), std::pair("both", 5), std::pair("again", 4)})
        stores.push_back(std::make_unique<MemberStore>(name, members, secret_of(name), 0, config));
      port = stores[0]->port();
    }
    Bytes mine(sizeof(port));
    std::memcpy(mine.data(), &port, sizeof(port));
    std::memcpy(&port, e.all_gather(mine)[0].data(), sizeof(port));
    if (e.rank < 2) trainer(e.rank, port, all, left);
    if (e.rank >= 2) inference(e.rank - 2, port, all, left);
  });
  for (std::size_t r = 0; r < ends.size(); ++r)
    EXPECT_TRUE(r == 1 ? WIFSIGNALED(ends[r]) : WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == 0) << r;
}

TEST(Members, AreNamedWhereTheyAreWrong) {
  const Bytes secret(32, std::byte{1});
  const auto fault = [&](const Members& members) {
    return complaint([&] { static_cast<void>(exchange_of_members(members, only("tcp").config)); });
  };
  EXPECT_THAT(fault({"w", {"a", "b"}, "c", "127.0.0.1:7000", secret}),
              HasSubstr("'c' is 0 times in the list of members [a, b], expected once"));
  EXPECT_THAT(fault({"w", {"a", "a"}, "a", "127.0.0.1:7000", secret}), HasSubstr("'a' is 2 times"));
  EXPECT_THAT(fault({"w", {"a"}, "a", "127.0.0.1", secret}), HasSubstr("at '127.0.0.1', expected host:port"));
  EXPECT_THAT(fault({"w", {"a"}, "a", "127.0.0.1:7000", Bytes(3)}), HasSubstr("has 3 bytes, expected at least 16"));
}

TEST(PlacedPart, RefusesASumThatIsNotMade) {
  const Tensor sum{{"w", DType::F32, {8}, Placements({{"dp", Partial{}}})}, {nullptr, 32}};
  EXPECT_THAT(complaint([&] {
                static_cast<void>(placed_part(sum, Factorisation({{"dp", 2}}), 0));
              }),
              HasSubstr("'w' (f32 [8]) is dp: Partial(sum); expected Replicate or Shard"));
}

}  // namespace
}  // namespace sinew::parallel
