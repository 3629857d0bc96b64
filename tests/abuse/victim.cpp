#include "victim.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

#include "board.hpp"

namespace sinew::abuse {
namespace {

/// In the moment for ever: what ends it is an error.
[[noreturn]] void stay_idle(World& world, const Board& board) {
  std::array<std::int64_t, 4> data{};
  for (;;) {
    while (board.killed_ns == 0) {
      world.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    world.communicator().all_reduce(data).get();
  }
}

[[noreturn]] void call(World& world) {
  std::vector<float> data(1 << 18);
  for (std::size_t i = 0;; i = (i * 7 + 1) % data.size())
    world.communicator().all_reduce(std::span(data).first(i % 5 == 0 ? data.size() : i % 512)).get();
}

[[noreturn]] void split(World& world) {
  for (int i = 0;; ++i) {
    Communicator half = world.communicator().split(world.rank() % 2, i % 3);
    // A half that the dead rank is not in goes on until somebody shrinks; the next split names the dead.
    const Status status = half.barrier().wait(Deadline::after(std::chrono::seconds(20)));
    if (status.code() != Code::Aborted) status.require();
  }
}

[[noreturn]] void train(World& world) {
  namespace sp = parallel;
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"dp", world.size()}}));
  std::vector<sp::DataParameter> parameters;
  for (const char* name : {"a", "b", "c", "d"}) parameters.push_back({.path = name, .elements = 20000, .unit = name});
  const sp::InitialValues zeros = [](const sp::InitialPart& part) {
    std::fill_n(part.into.data, part.into.bytes, std::byte{0});
  };
  sp::DataParallel data(mesh, std::move(parameters), zeros, sp::data_row("zero2", {"dp"}),
                        [&world](std::size_t bytes) { return world.allocate(bytes); });
  for (;;) {
    for (std::int32_t p = 3; p >= 0; --p) {
      const Buffer g = data.gradient(p);
      std::fill_n(reinterpret_cast<float*>(g.data), g.bytes / sizeof(float), 1.0F);
      data.gradient_ready(p);
    }
    static_cast<void>(data.finish_backward());
    data.updated();
  }
}

/// All ranks have a World. Whoever shrinks it sooner ends this in others.
void come(World& world, Moment moment) {
  const Status status = world.communicator().barrier().wait(Deadline::after(std::chrono::seconds(20)));
  if (moment != Moment::Shrink || status.code() != Code::Aborted) status.require();
}

/// Where there never was a World: a rank that ends is one more that is lost to those who still wait.
void wait_for_others(const Board& board, int ranks) {
  const auto knows = [&](const RankLine& line) { return line.returned_ns != 0; };
  for (int i = 0; i < 5000 && std::ranges::count_if(board.ranks, knows) < ranks - 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Until one is missing. Who is not there any more is told by who is.
World shrink_until_one_is_lost(World world) {
  for (const int all = world.size(); world.size() == all;) world = world.shrink();
  return world;
}

int right_sums(World& world) {
  int right = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::int64_t> data(1 + static_cast<std::size_t>(i * i * i) % 5000, world.rank() + i);
    world.communicator().all_reduce(data).get();
    const int n = world.size();
    const bool is_right = std::ranges::all_of(data, [&](std::int64_t x) { return x == n * (n - 1) / 2 + n * i; });
    right += is_right ? 1 : 0;
  }
  return right;
}

void stay(World& world, Moment moment, const Board& board) {
  switch (moment) {
    case Moment::Start:
    case Moment::Idle: stay_idle(world, board);
    case Moment::Collective: call(world);
    case Moment::Split: split(world);
    case Moment::Step: train(world);
    case Moment::Shrink: break;
  }
}

}  // namespace

int run_victim(const std::string& file, Moment moment) {
  Board& board = map_board(file, false);
  const int rank = std::atoi(std::getenv("RANK"));
  RankLine& line = board.ranks[static_cast<std::size_t>(rank)];
  line.lost = -1;
  line.pid = ::getpid();
  if (moment == Moment::Start) line.in_moment = 1;
  std::optional<World> world;
  try {
    world.emplace(World::from_environment());
    come(*world, moment);
    if (moment == Moment::Shrink) {
      line.in_moment = 1;
      world = shrink_until_one_is_lost(std::move(*world));
      line.returned_ns = now_ns();
    } else {
      line.in_moment = 1;
      stay(*world, moment, board);
    }
  } catch (const Error& e) {
    tell(line, e);
    if (!world) {
      wait_for_others(board, std::atoi(std::getenv("WORLD_SIZE")));
      return 3;
    }
    world = world->shrink();
  }
  line.shrunk = world->size();
  line.right = right_sums(*world);
  return 0;
}

}  // namespace sinew::abuse
