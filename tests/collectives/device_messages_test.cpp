// Messages between device memory and any memory, of all lengths, between threads and between processes.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/transfers/card.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

#include "fakes/fake_device.hpp"
#include "support/fake_devices.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using Bodies = std::function<void(World&, const OnDevice&)>;

/// A World of processes. Each has a fake accelerator, and no rank can read the device memory of another one.
void on_devices_of_processes(int ranks, const std::string& transports, const Bodies& body) {
  run_as_processes(ranks, [&](const Exchange& exchange) {
    fake::Device device(ranks);
    WorldOptions options = only(transports);
    options.device_runtime = &device;
    World world = World::create(exchange, std::move(options));
    const OnDevice where{device, device.make_stream(world.rank())};
    body(world, where);
    device.release(where.stream);
  });
}

constexpr std::size_t kLong = 3 * kPieceBytes + 4 * 333;

std::vector<std::uint32_t> counting(std::size_t bytes, std::uint32_t first) {
  std::vector<std::uint32_t> values(bytes / 4);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// As write(), and also for no values.
Buffer device_memory(const OnDevice& where, std::vector<std::uint32_t>& values) {
  if (values.empty()) return where.runtime.allocate(64, {MemoryKind::Device, where.stream.device});
  return write(where, values);
}

enum class Side { Host, Device };

/// Rank 0 sends messages of all lengths to rank 1.
void pass_all_lengths(World& world, const OnDevice& where, Side from, Side to) {
  Communicator& all = world.communicator();
  std::uint32_t tag = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, kWholeBytes - 4, kWholeBytes, kWholeBytes + 4,
                                  kPieceBytes, kPieceBytes + 4, kLong}) {
    const std::string what = fmt::format("{} bytes", bytes);
    std::vector<std::uint32_t> sent = counting(bytes, ++tag);
    if (world.rank() == 0) {
      if (from == Side::Host) {
        all.send(sent, 1, tag).get();
        continue;
      }
      const Buffer memory = device_memory(where, sent);
      all.send(memory.part(0, bytes), 1, tag, {.after = where.stream}).get();
      where.runtime.release(memory);
    } else {
      std::vector<std::uint32_t> got(bytes / 4, 1);
      if (to == Side::Host) {
        all.recv(got, 0, tag).get();
      } else {
        const Buffer memory = device_memory(where, got);
        all.recv(memory.part(0, bytes), 0, tag, {.after = where.stream}).get();
        if (bytes != 0) got = read<std::uint32_t>(where, memory.part(0, bytes));
        where.runtime.release(memory);
      }
      require(got == sent, what);
    }
  }
}

void pass_between_all_memories(World& world, const OnDevice& where) {
  pass_all_lengths(world, where, Side::Device, Side::Device);
  pass_all_lengths(world, where, Side::Device, Side::Host);
  pass_all_lengths(world, where, Side::Host, Side::Device);
}

TEST(DeviceMessages, ArriveWhole_BetweenThreads) {
  for (const char* transport : {"inproc", "shm", "tcp"}) on_devices(2, transport, pass_between_all_memories);
}

TEST(DeviceMessages, ArriveWhole_BetweenProcesses) {
  for (const char* transport : {"shm", "tcp"}) on_devices_of_processes(2, transport, pass_between_all_memories);
}

/// The short message leaves when its copy is through, and the card must not overtake it.
void pass_in_order(World& world, const OnDevice& where) {
  Communicator& all = world.communicator();
  const std::vector<std::size_t> lengths{4000, kLong, 8, kPieceBytes, 4000};
  std::vector<Work> works;
  std::vector<Buffer> memory;
  std::vector<std::vector<std::uint32_t>> values;
  values.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool sends = world.rank() == 0;
    values.push_back(counting(lengths[i], sends ? static_cast<std::uint32_t>(100 * i) : 0));
    memory.push_back(write(where, values.back()));
    const CallOptions options{.after = where.stream};
    works.push_back(sends ? all.send(memory.back(), 1, 5, options) : all.recv(memory.back(), 0, 5, options));
  }
  for (Work& w : works) w.get();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto expected = counting(lengths[i], static_cast<std::uint32_t>(100 * i));
    require(read<std::uint32_t>(where, memory[i]) == expected, fmt::format("message {}", i));
    where.runtime.release(memory[i]);
  }
}

TEST(DeviceMessages, MatchInTheOrderOfTheirSends_BetweenThreads) { on_devices(2, "shm", pass_in_order); }

TEST(DeviceMessages, MatchInTheOrderOfTheirSends_BetweenProcesses) { on_devices_of_processes(2, "shm", pass_in_order); }

/// More messages each way than there is pinned memory for, all at once.
void exchange_in_a_group(World& world, const OnDevice& where) {
  constexpr std::size_t kMessages = 10;
  const int other = 1 - world.rank();
  std::vector<Message> messages;
  std::vector<std::vector<std::uint32_t>> values;
  std::vector<Buffer> arrived;
  values.reserve(2 * kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    values.push_back(counting(kLong, 10 * i + static_cast<std::uint32_t>(world.rank())));
    messages.push_back(Message::send(write(where, values.back()), other, i));
    values.push_back(std::vector<std::uint32_t>(kLong / 4));
    arrived.push_back(write(where, values.back()));
    messages.push_back(Message::recv(arrived.back(), other, i));
  }
  world.communicator().group(messages, {.after = where.stream}).get();
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    const auto expected = counting(kLong, 10 * i + static_cast<std::uint32_t>(other));
    require(read<std::uint32_t>(where, arrived[i]) == expected, fmt::format("message {}", i));
  }
  for (const Message& m : messages) where.runtime.release(m.memory);
}

TEST(DeviceMessages, PassEachOther_BetweenThreads_WhenBothDirectionsAreFull) {
  on_devices(2, "shm", exchange_in_a_group);
}

TEST(DeviceMessages, PassEachOther_BetweenProcesses_WhenBothDirectionsAreFull) {
  for (const char* transport : {"shm", "tcp"}) on_devices_of_processes(2, transport, exchange_in_a_group);
}

TEST(DeviceMessages, AreFound_ByAReceiveFromAnyRank) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    if (world.rank() != 0) {
      auto values = counting(kLong, static_cast<std::uint32_t>(world.rank()));
      const Buffer memory = write(where, values);
      all.send(memory, 0, 9, {.after = where.stream}).get();
      where.runtime.release(memory);
      return;
    }
    int sum = 0;
    for (int i = 0; i < 2; ++i) {
      std::vector<std::uint32_t> got(kLong / 4);
      Work work = all.recv_any(got, 9);
      work.get();
      sum += work.source();
      require(got == counting(kLong, static_cast<std::uint32_t>(work.source())), "the message");
    }
    require(sum == 3, "one message of each rank");
  });
}

TEST(DeviceMessages, ReachTheirOwnRank) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    auto values = counting(kLong, 3);
    std::vector<std::uint32_t> nothing(kLong / 4);
    const Buffer from = write(where, values);
    const Buffer to = write(where, nothing);
    Work receive = world.communicator().recv(to, world.rank(), 1, {.after = where.stream});
    world.communicator().send(from, world.rank(), 1, {.after = where.stream}).get();
    receive.get();
    require(read<std::uint32_t>(where, to) == values, "the message");
    where.runtime.release(from);
    where.runtime.release(to);
  });
}

void receive_with_too_little_room(World& world, const OnDevice& where) {
  Communicator& all = world.communicator();
  auto values = counting(kLong, 3);
  const Buffer memory = write(where, values);
  for (const std::size_t room : {std::size_t{4000}, kLong - 4}) {
    if (world.rank() == 0) {
      all.send(memory, 1, 1, {.after = where.stream}).get();
    } else {
      const Status end = all.recv(memory.part(0, room), 0, 1, {.after = where.stream}).wait();
      require(end.code() == Code::Truncated, std::string(end.message()));
      require_part(std::string(end.message()), fmt::format("{} bytes", kLong));
    }
  }
  require(read<std::uint32_t>(where, memory) == values, "nothing is written");
  where.runtime.release(memory);
}

TEST(DeviceMessages, EndTruncated_BetweenThreads_WhenTheReceiveIsTooShort) {
  on_devices(2, "shm", receive_with_too_little_room);
}

TEST(DeviceMessages, EndTruncated_BetweenProcesses_WhenTheReceiveIsTooShort) {
  on_devices_of_processes(2, "shm", receive_with_too_little_room);
}

/// Ranks whose hosts have no accelerator receive from ranks with one, and send to them.
TEST(DeviceMessages, ReachARankWithoutADevice) {
  run_as_threads(2, [](const Exchange& exchange) {
    fake::Device device(exchange.rank == 0 ? 1 : 0);
    WorldOptions options = only("shm");
    options.device_runtime = &device;
    World world = World::create(exchange, std::move(options));
    Communicator& all = world.communicator();
    auto values = counting(kLong, 3);
    if (world.rank() == 0) {
      const OnDevice where{device, device.make_stream(0)};
      std::vector<std::uint32_t> nothing(kLong / 4);
      const Buffer from = write(where, values);
      const Buffer to = write(where, nothing);
      all.send(from, 1, 1, {.after = where.stream}).get();
      all.recv(to, 1, 2, {.after = where.stream}).get();
      require(read<std::uint32_t>(where, to) == values, "what came back");
      device.release(from);
      device.release(to);
      device.release(where.stream);
    } else {
      std::vector<std::uint32_t> got(kLong / 4);
      all.recv(got, 0, 1).get();
      require(got == values, "what came");
      all.send(got, 0, 2).get();
    }
  });
}

TEST(DeviceMessages, EndOnBothSides_BetweenProcesses_WhenTheCommunicatorIsAborted) {
  on_devices_of_processes(2, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator lasting = all.split(0);
    auto values = counting(kLong, 3);
    const Buffer memory = write(where, values);
    auto open = std::make_shared<std::atomic<bool>>(false);
    const StreamRef late = where.runtime.make_stream(world.rank());
    fake::enqueue(late.stream, [open] { return open->load(); });
    Work work = world.rank() == 0 ? all.send(memory, 1, 1, {.after = late}) : all.recv(memory, 0, 1);
    require(work.wait(Deadline::after(std::chrono::milliseconds(50))).code() == Code::Pending, "the stream stands");
    lasting.barrier().get();  // or rank 1 ends the message before rank 0 has looked
    if (world.rank() == 1) all.abort("enough");
    const Status end = work.wait();
    require(end.code() == Code::Aborted, fmt::format("{}: {}", name_of(end.code()), end.message()));
    open->store(true);
    static_cast<void>(read<std::uint32_t>(where, memory));
    where.runtime.release(late);
    where.runtime.release(memory);
  });
}

/// The killed rank has announced its message, or has found the other's, and its stream stands. The other one waits.
void lose(int killed) {
  const std::vector<int> ends = fork_ranks(2, [killed](const Exchange& exchange) {
    fake::Device device(2);
    WorldOptions options = only("shm");
    options.device_runtime = &device;
    World world = World::create(exchange, std::move(options));
    const OnDevice where{device, device.make_stream(world.rank())};
    auto values = counting(kLong, 3);
    const Buffer memory = write(where, values);
    const StreamRef late = device.make_stream(world.rank());
    const bool dies = world.rank() == killed;
    fake::enqueue(late.stream, [dies] { return !dies; });
    Communicator& all = world.communicator();
    Work work = world.rank() == 0 ? all.send(memory, 1, 1, {.after = late}) : all.recv(memory, 0, 1, {.after = late});
    if (dies) {
      static_cast<void>(work.wait(Deadline::after(std::chrono::milliseconds(100))));
      ::raise(SIGKILL);
    }
    const Status end = work.wait();
    require(end.code() == Code::PeerLost, fmt::format("{}: {}", name_of(end.code()), end.message()));
    require_part(std::string(end.message()), fmt::format("rank {}", killed));
    device.release(late);
    device.release(where.stream);
  });
  EXPECT_TRUE(WIFSIGNALED(ends[static_cast<std::size_t>(killed)]));
  const int other = ends[static_cast<std::size_t>(1 - killed)];
  EXPECT_TRUE(WIFEXITED(other) && WEXITSTATUS(other) == 0) << "wait status " << other;
}

TEST(DeviceMessages, EndPeerLost_BetweenProcesses_WhenTheSenderIsKilled) { lose(0); }
TEST(DeviceMessages, EndPeerLost_BetweenProcesses_WhenTheReceiverIsKilled) { lose(1); }

}  // namespace
}  // namespace sinew::test
