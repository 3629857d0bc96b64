#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <support/error_shape.hpp>
#include <support/log_guard.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

// How errors name the ranks and the communicators of a mesh.
namespace sinew::parallel {
namespace {

using sinew::test::fault_of_error;
using sinew::test::fork_ranks;
using sinew::test::only;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr int kRanks = 8, kLast = 7;

/// The group of World rank 7 along an axis. Its number in the group is 1.
struct Along {
  const char* axis;
  std::vector<int> world_ranks;
};

/// What happens in the group.
enum class Event { Mismatch, Timeout, Thrown, PeerLost };

std::vector<std::string> parts_of(Event event, const Along& along) {
  const std::string last = fmt::format("rank 7 (1 in {})", along.axis), name = fmt::format("{} of 2", along.axis);
  switch (event) {
    case Event::Mismatch:
      return {fmt::format("call 1 on {} is not the same on all ranks: ", name), last + ": barrier("};
    case Event::Timeout: return {"deadline passed: ", fmt::format(", call 1 on {}: {} is late: it ", name, last)};
    case Event::Thrown: return {last + " aborted the world: scan of the data: no more files"};
    case Event::PeerLost: return {fmt::format(" on {}: rank 7 (host ", name), "killed by signal 9", last};
  }
  return {};
}

Code code_of(Event event) {
  switch (event) {
    case Event::Mismatch: return Code::Mismatch;
    case Event::Timeout: return Code::Timeout;
    case Event::Thrown: return Code::Aborted;
    case Event::PeerLost: return Code::PeerLost;
  }
  return Code::Ok;
}

Status end_of(Work work) { return work.wait(Deadline::after(seconds(20))); }

/// What the other rank of the group does.
Status other_does(Event event, Communicator& group) {
  std::array<float, 4> data{};
  const auto patience = event == Event::Timeout ? milliseconds(300) : milliseconds(20000);
  const Status first = end_of(group.all_reduce(data, ReduceOp::Sum, {.deadline = Deadline::after(patience)}));
  return first.ok() ? end_of(group.barrier()) : first;
}

/// What rank 7 does.
Status last_does(Event event, Communicator& group) {
  switch (event) {
    case Event::Mismatch: break;
    case Event::Timeout: return other_does(event, group);
    case Event::Thrown:
      try {
        run_user_code(
            group, [] { return std::string("scan of the data"); }, [] { throw std::string("no more files"); });
      } catch (const std::string&) {
      }
      break;
    case Event::PeerLost: ::kill(::getpid(), SIGKILL);
  }
  const Status first = end_of(group.barrier());
  return first.ok() ? end_of(group.barrier()) : first;
}

void meet(Event event, const Along& along) {
  const std::vector<int> ends = fork_ranks(kRanks, [&](const Exchange& exchange) {
    World world = World::create(exchange, only("shm"));
    JobMesh mesh(world.communicator(), {.tp = 2, .dp = 2, .pp = 2});
    Communicator& group = mesh.dense().along(along.axis);
    world.communicator().barrier().get();
    static_cast<void>(exchange.all_gather({}));
    const auto end_round = [&] {
      if (event != Event::PeerLost) static_cast<void>(exchange.all_gather({}));
    };
    const bool is_last = world.rank() == kLast;
    if (!is_last && world.rank() != along.world_ranks.front()) return end_round();
    if (is_last && event == Event::Timeout) end_round();
    const auto begin = Clock::now();
    const Status end = is_last ? last_does(event, group) : other_does(event, group);
    const std::string text = fmt::format("{}, rank {}: {}", along.axis, world.rank(), end.message());
    EXPECT_EQ(end.code(), code_of(event)) << text;
    EXPECT_LT(Clock::now() - begin, seconds(2)) << text;
    EXPECT_EQ(fault_of_error(end.message(), along.world_ranks, ""), "") << text;
    for (const std::string& part : parts_of(event, along)) EXPECT_THAT(std::string(end.message()), HasSubstr(part));
    if (!is_last || event != Event::Timeout) end_round();
  });
  for (int r = 0; r < kRanks; ++r) {
    const int status = ends[static_cast<std::size_t>(r)];
    const bool dies = event == Event::PeerLost && r == kLast;
    EXPECT_TRUE(dies || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << along.axis << ", rank " << r;
  }
}

TEST(MeshErrorTexts, NameTheAxisAndBothNumbersOfARank) {
  for (const Along& along : {Along{"tp", {6, 7}}, Along{"dp", {5, 7}}, Along{"pp", {3, 7}}}) {
    for (const Event event : {Event::Mismatch, Event::Timeout, Event::Thrown, Event::PeerLost}) meet(event, along);
  }
}

TEST(MeshErrorTexts, NameTheGroupsOfAMesh) {
  sinew::test::on_threads(4, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"cp", 2}, {"dp", 2}}), {"cp", "dp", "cp-dp"});
    sinew::test::require(mesh.along("cp").name() == "cp of 2", mesh.along("cp").name());
    sinew::test::require(mesh.along("cp-dp").name() == "cp-dp of 4", mesh.along("cp-dp").name());
    sinew::test::require(mesh.rank_text(3) == "rank 3", mesh.rank_text(3));
  });
}

}  // namespace
}  // namespace sinew::parallel
