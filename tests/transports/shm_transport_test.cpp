#include <sched.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/system/process_state.hpp>
#include <sinew/transports/shm/shm.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

Rail make_shm(const Exchange& world) { return open_rail(shm::module(), world); }

/// The control plane of a World watches the processes of a host, and closes the endpoints of those that die.
Subject subject(const char* name, void (*run)(int, const RankBody&)) {
  return {.name = name, .make = make_shm, .run = run, .notices_death = false};
}

INSTANTIATE_TEST_SUITE_P(shm, Conformance,
                         testing::Values(subject("threads", run_threads), subject("processes", run_as_processes)),
                         subject_name);

/// Registered memory is read where it lies, also into a reduction, and also when it is taken back before it is read.
void registered(const Exchange& world) {
  HostPeers host(world, "this host", Deadline::after(std::chrono::seconds(60)));
  const auto fabric = shm::module().open({world.rank, world.size, 0, host, {}});
  constexpr std::size_t kCount = 300'001;
  const Region region = *fabric->allocate(kCount * 4, true);
  auto* values = reinterpret_cast<std::uint32_t*>(region.memory.data);
  for (std::uint32_t i = 0; i < kCount; ++i) values[i] = i + static_cast<std::uint32_t>(world.rank);
  Rank me(world, [&](const Exchange&) { return Rail(shm::make_transport(host, world.rank, 0)); });
  const Reducer add = reducer_for(ReduceOp::Sum, DType::U32);
  std::vector<std::uint32_t> own(kCount, 7);
  const Buffer into{reinterpret_cast<std::byte*>(own.data()), kCount * 4};
  for (const bool reduces : {false, true}) {
    Watched w;
    if (me.rank() == 0) {
      me.peer(1).send(region.memory, user(1), 0, w);
      me.wait(w);
    } else {
      me.peer(0).recv({into, reduces ? &add : nullptr}, user(1), w);
      me.wait(w);
      for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(own[i], reduces ? 2 * i : i);
    }
  }
  Watched gone;
  Watched kept;
  if (me.rank() == 0) {
    me.peer(1).send(region.memory, user(2), 0, gone);
    EXPECT_TRUE(me.peer(1).cancel(gone));
    me.barrier();
    me.peer(1).send({region.memory.data, 40}, user(2), 0, kept);
    me.wait(gone);
    me.wait(kept);
  } else {
    me.barrier();  // a receive posted earlier may have read all of it before it is taken back
    me.peer(0).recv({into}, user(2), kept);
    me.wait(kept);
    EXPECT_EQ(kept.bytes, 40u);
  }
}

TEST(ShmTransport, ReadsRegisteredMemoryWhereItLies_OnThreads) { run_as_threads(2, registered); }
TEST(ShmTransport, ReadsRegisteredMemoryWhereItLies_OnProcesses) { run_as_processes(2, registered); }

/// Every rank sends to the next.
void pass_on(const Exchange& world) {
  Rank me(world, make_shm);
  constexpr std::size_t kBytes = 1'500'003;
  const int next = (me.rank() + 1) % me.size();
  const int previous = (me.rank() + me.size() - 1) % me.size();
  const auto out = pattern(kBytes, static_cast<unsigned>(me.rank()));
  std::vector<std::byte> in(kBytes);
  std::vector<Watched> both(2);
  me.peer(previous).recv({view(in)}, user(1), both[0]);
  me.peer(next).send(view(out), user(1), 0, both[1]);
  if (!me.wait(both)) return;
  EXPECT_TRUE(in == pattern(kBytes, static_cast<unsigned>(previous)));
}

/// Where one core is all that there is, long messages are read through the kernel, if it lets processes do so.
void share_one_core() {
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  int first = 0;
  while (!CPU_ISSET(first, &cores)) ++first;
  CPU_ZERO(&cores);
  CPU_SET(first, &cores);
  ASSERT_EQ(::sched_setaffinity(0, sizeof cores, &cores), 0);
}

bool can_read(pid_t process, std::uint64_t address) {
  std::byte to{};
  const iovec local{&to, 1};
  const iovec remote{reinterpret_cast<void*>(address), 1};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0) == 1;
}

/// Rank 1 is stopped while it reads a message of rank 0's, which takes the message back.
void take_back_from_a_stopped_rank(const Exchange& world) {
  constexpr std::size_t kLong = 12 << 20;  // more than is read in one turn
  share_one_core();
  Rank me(world, make_shm);
  struct Place {
    std::int64_t process;
    std::uint64_t memory;
  };
  auto data = pattern(kLong, 1);
  const Place own{::getpid(), reinterpret_cast<std::uint64_t>(data.data())};
  const auto* first = reinterpret_cast<const std::byte*>(&own);
  const std::vector<Bytes> all = me.gather({first, first + sizeof own});
  Place other{};
  std::memcpy(&other, all[static_cast<std::size_t>(1 - me.rank())].data(), sizeof other);
  const auto process = static_cast<pid_t>(other.process);
  const std::vector<Bytes> readable = me.gather({std::byte{can_read(process, other.memory)}});
  if (readable[1][0] == std::byte{0}) return;
  Watched w;
  static_cast<void>(me.peer(1 - me.rank()));
  if (me.rank() == 0) me.peer(1).send(view(data), user(1), 0, w);
  me.barrier();
  if (me.rank() == 0) {
    while (!is_stopped(state_of_process(process))) me.progress();
    EXPECT_TRUE(me.peer(1).cancel(w));
    me.wait(w);
    EXPECT_EQ(w.status.code(), Code::Cancelled);
    data.assign(kLong, std::byte{0});  // its owner's again
    ::kill(process, SIGCONT);
  } else {
    std::vector<std::byte> in(kLong);
    me.peer(0).recv({view(in)}, user(1), w);
    me.progress();
    ASSERT_FALSE(w.fired);
    ::raise(SIGSTOP);
    me.wait(w);
    EXPECT_FALSE(w.status.ok()) << "a message was received that its sender had taken back";
  }
  me.barrier();
}

/// Rank 1 waits to read a message of rank 0's that is taken back; its ticket goes to one for rank 2, of the same id.
void lend_ticket_again(const Exchange& world) {
  constexpr std::size_t kLong = 12 << 20;  // more than is read in one turn
  constexpr std::size_t kShort = 100'000;
  Rank me(world, make_shm);
  const int peer = me.rank() == 0 ? 1 : 0;
  static_cast<void>(me.peer(peer));
  if (me.rank() == 0) static_cast<void>(me.peer(2));
  const auto first = pattern(kLong, 1);
  auto second = pattern(kShort, 2);
  const auto other = pattern(kShort, 3);
  std::vector<std::byte> in(kLong);
  std::vector<std::byte> late(kShort);
  std::vector<Watched> w(4);
  if (me.rank() == 0) {
    me.peer(2).send(view(other), user(1), 0, w[2]);
    me.peer(1).send(view(first), user(1), 0, w[0]);
    me.peer(1).send(view(second), user(2), 0, w[1]);
  }
  me.barrier();
  if (me.rank() == 1) {
    me.peer(0).recv({view(in)}, user(1), w[0]);
    me.peer(0).recv({view(late)}, user(2), w[1]);
    me.progress();
    ASSERT_FALSE(w[0].fired);
  }
  me.barrier();
  if (me.rank() == 0) {
    EXPECT_TRUE(me.peer(1).cancel(w[1]));
    me.peer(2).send(view(other), user(2), 0, w[3]);
    second.assign(kShort, std::byte{0});  // its owner's again
  }
  me.barrier();
  if (me.rank() == 1) {
    if (!me.wait(w[0])) return;
    for (int i = 0; i < 100; ++i) me.progress();
    EXPECT_FALSE(w[1].fired) << "a message was received that its sender had taken back";
    EXPECT_TRUE(in == first);
  }
  me.barrier();
  Watched again;
  if (me.rank() == 0) {
    me.wait(w);
    me.peer(1).send(view(other), user(2), 0, again);
    me.wait(again);
  } else if (me.rank() == 1) {
    me.wait(w[1]);
    EXPECT_TRUE(late == other);
  } else {
    me.peer(0).recv({view(late)}, user(1), w[0]);
    me.wait(w[0]);
    me.peer(0).recv({view(late)}, user(2), w[1]);
    me.wait(w[1]);
    EXPECT_TRUE(late == other);
  }
}

TEST(ShmTransport, ReadsNothingThatWasTakenBack_WhenItsTicketHasAnotherMessage) {
  run_as_threads(3, lend_ticket_again);
}
TEST(ShmTransport, TakesBackWhatAStoppedRankReads) { run_as_processes(2, take_back_from_a_stopped_rank); }

/// More ranks than cores: long messages are read through the kernel.
TEST(ShmTransport, CarriesLongMessages_WhenRanksShareCores) { run_as_processes(5, pass_on); }

/// The same where each rank is process 1 of a namespace of its own: there the kernel would read the reader.
TEST(ShmTransport, CarriesLongMessages_WhenProcessIdsMeanNothing) {
  if (const pid_t child = ::fork(); child == 0) {
    ::_exit(::unshare(CLONE_NEWPID) == 0 ? 0 : 1);
  } else {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) GTEST_SKIP() << "unshare(CLONE_NEWPID) is not permitted here";
  }
  run_as_processes(5, [](const Exchange& world) {
    ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      pass_on(world);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

/// Messages of one frame and of several, whose receives are posted before them, after them, or while they come.
void pour(const Exchange& world) {
  Rank me(world, make_shm);
  Endpoint& peer = me.peer(1 - me.rank());
  const std::vector<std::size_t> sizes{4095, 4096, 4097, 16'384, 16'385, 30'001, 65'536, 65'537};
  constexpr std::size_t kRounds = 3;
  std::vector<Watched> all(sizes.size() * kRounds);
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < all.size(); ++i)
    data.push_back(pattern(sizes[i % sizes.size()], static_cast<unsigned>(i)));
  std::vector<std::vector<std::byte>> in;
  for (const auto& d : data) in.emplace_back(d.size());
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const std::size_t i = round * sizes.size() + k;
      const Tag tag = user(static_cast<std::uint32_t>(i));
      if (me.rank() == 0) {
        if (round == 0) me.barrier();
        peer.send(view(data[i]), tag, 0, all[i]);
        me.progress();
        if (round == 1) me.barrier();
        if (!me.wait(all[i])) return;
      } else {
        if (round == 1) {
          me.barrier();
          for (int turns = 0; turns < 50; ++turns) me.progress();  // what is there is kept
        }
        peer.recv({view(in[i])}, tag, all[i]);
        if (round == 0) me.barrier();
        if (!me.wait(all[i])) return;
        EXPECT_EQ(all[i].bytes, data[i].size());
        EXPECT_TRUE(in[i] == data[i]) << data[i].size() << " bytes, round " << round;
      }
    }
  }
  me.barrier();
  const auto longer = pattern(50'000, 1);
  std::vector<std::byte> shorter(40'000);
  Watched cut;
  if (me.rank() == 0) {
    peer.send(view(longer), user(99), 0, cut);
    EXPECT_TRUE(me.wait(cut));
  } else {
    peer.recv({view(shorter)}, user(99), cut);
    while (!cut.fired) me.progress();
    EXPECT_EQ(cut.status.code(), Code::Truncated);
    EXPECT_EQ(shorter, std::vector<std::byte>(40'000)) << "nothing is written";
  }
  me.barrier();
}

/// More messages than the ring holds, of two frames each, so that one of them is there in part. A cancelled message
/// does not come, and all others come whole.
void cancel_what_is_poured(const Exchange& world) {
  Rank me(world, make_shm);
  constexpr std::size_t kMessages = 30;
  const auto data = pattern(8'150, 5);  // 130 lines: 15 messages and the first frame of another one fill 2048
  std::vector<Watched> sends(kMessages);
  std::vector<std::byte> cancelled(kMessages);
  if (me.rank() > 1) {
    me.barrier();
    me.gather(cancelled);
    return;
  }
  Endpoint& peer = me.peer(1 - me.rank());
  if (me.rank() == 0) {
    for (std::size_t i = 0; i < kMessages; ++i) peer.send(view(data), user(static_cast<std::uint32_t>(i)), 0, sends[i]);
    for (std::size_t i = 0; i < kMessages; ++i) cancelled[i] = std::byte{!sends[i].fired && peer.cancel(sends[i])};
  }
  me.barrier();
  const std::vector<Bytes> said = me.gather(cancelled);
  std::size_t came = 0;
  for (std::size_t i = 0; i < kMessages; ++i) {
    if (me.rank() == 0) {
      while (!sends[i].fired) me.progress();
      EXPECT_EQ(sends[i].status.code(), cancelled[i] == std::byte{1} ? Code::Cancelled : Code::Ok);
    } else if (said[0][i] == std::byte{0}) {
      std::vector<std::byte> in(data.size());
      Watched w;
      peer.recv({view(in)}, user(static_cast<std::uint32_t>(i)), w);
      if (!me.wait(w)) break;
      EXPECT_TRUE(in == data) << i;
      ++came;
    }
  }
  if (me.rank() == 1) {
    EXPECT_GT(came, 0u);
    EXPECT_LT(came, kMessages) << "the ring held all: this tests nothing";
    for (std::size_t i = 0; i < kMessages; ++i)
      EXPECT_FALSE(peer.has_unexpected(user(static_cast<std::uint32_t>(i)))) << i;
  }
}

TEST(ShmTransport, PoursMessages_WheneverTheirReceiveIsPosted) { run_as_threads(2, pour); }
TEST(ShmTransport, PoursMessages_BetweenProcesses) { run_as_processes(2, pour); }
TEST(ShmTransport, SendsAMessageWhole_WhenItIsCancelledInThePouring) { run_as_threads(12, cancel_what_is_poured); }

/// A closed endpoint looks at no frame: those that are left must keep nobody awake.
TEST(ShmTransport, Sleeps_WhenFramesAreLeftInAClosedEndpoint) {
  run_as_threads(2, [](const Exchange& world) {
    Rank me(world, make_shm);
    Endpoint& peer = me.peer(1 - me.rank());
    me.barrier();
    const auto message = pattern(100, 1);
    Watched w;
    if (me.rank() == 1) {
      peer.send(view(message), user(1), 0, w);
      me.wait(w);
    }
    me.barrier();
    if (me.rank() == 0) {
      EXPECT_FALSE(me.transport().arm()) << "it lies there";
      me.transport().disarm();
      peer.close(w);
      me.wait(w);
      EXPECT_TRUE(me.transport().arm());
      me.transport().disarm();
      me.drop_endpoint(1);
    }
    me.barrier();
  });
}

TEST(ShmTransport, Probe_SaysThatARankIsOnAnotherHost) {
  run_as_threads(2, [](const Exchange& world) {
    HostPeers host(world, world.rank == 0 ? "a" : "b", Deadline::after(std::chrono::seconds(60)));
    const auto mine = shm::make_transport(host, world.rank, 0);
    const auto addresses = world.all_gather(mine->address());
    const Reach r = mine->probe(addresses[static_cast<std::size_t>(1 - world.rank)]);
    EXPECT_EQ(r.reason, world.rank == 0 ? "rank 1 is on another host" : "rank 0 is on another host");
    EXPECT_TRUE(mine->probe(addresses[static_cast<std::size_t>(world.rank)]).ok);
  });
}

}  // namespace
}  // namespace sinew::test
