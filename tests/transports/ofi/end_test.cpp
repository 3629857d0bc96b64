// Peers that die or stop, in the middle of large messages.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/base/sanitizer.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>
#if SINEW_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

#include "transports/ofi/pair.hpp"

namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kBytes = 64 << 20;

/// Sends and receives a large message, and then goes on for ever.
void talk(Transport& transport, Endpoint& parent) {
  std::vector<std::byte> out(kBytes), in(kBytes);
  Watched s, r;
  parent.send(view(out), user(1), 0, s);
  parent.recv({view(in)}, user(2), r);
  for (;;) transport.progress();
}

struct Talk {
  std::vector<std::byte> in = std::vector<std::byte>(kBytes);
  std::vector<std::byte> out = std::vector<std::byte>(kBytes);
  Watched receive, send, idle;

  explicit Talk(ChildPair& pair) {
    in[0] = std::byte{0x5a};
    pair.child().recv({view(in)}, user(1), receive);
    pair.child().send(view(out), user(2), 0, send);
    pair.child().recv({}, user(3), idle);
  }
  bool has_begun() const { return in[0] != std::byte{0x5a}; }
  bool ended() const { return receive.done() && send.done() && idle.done(); }
};

int segments_of(pid_t pid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    count += name.starts_with("sinew-ofi-") && name.find(fmt::format("-{}-", pid)) != std::string::npos;
  }
  return count;
}

class OfiEnd : public testing::TestWithParam<const char*> {};

TEST_P(OfiEnd, KilledPeer_LetsGoOfEverythingAfterClose) {
  ChildPair pair(GetParam(), talk);
  Talk talk_here(pair);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return talk_here.has_begun(); }));
  EXPECT_EQ(segments_of(pair.pid()), GetParam() == kShm ? 1 : 0);
  ::kill(pair.pid(), SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pair.pid()), &info, WEXITED | WNOWAIT), 0);
  drive(pair.transport(), milliseconds(100), [] { return false; });
  Watched quiet, late;
  pair.child().close(quiet);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return quiet.done() && talk_here.ended(); }));
  EXPECT_EQ(segments_of(pair.pid()), 0) << "a survivor removes what the dead one left in /dev/shm";
  pair.child().send({}, user(4), 0, late);
  ASSERT_TRUE(drive(pair.transport(), seconds(5), [&] { return late.done(); }));
  for (const Watched* w : {&talk_here.receive, &talk_here.send, &talk_here.idle, &late}) {
    EXPECT_EQ(w->fired, 1);
    EXPECT_TRUE(w->status.code() == Code::Cancelled || w->status.code() == Code::PeerLost || w->status.ok());
  }
  EXPECT_FALSE(talk_here.idle.status.ok() || late.status.ok());
  EXPECT_FALSE(pair.transport().active());
}

/// libfabric 1.17 forgets pieces that come when nobody wants them any more, but never frees them.
class LateData {
#if SINEW_ADDRESS_SANITIZER
  __lsan::ScopedDisabler its_memory_is_no_leak_of_ours_;
#endif
};

/// Not over shm: a process that is stopped with the lock of its queue held stops who comes to it.
TEST(OfiStoppedPeer, TouchesNothingOnceItsEndpointIsQuiet) {
  ChildPair pair(kTcp, talk);
  Talk talk_here(pair);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return talk_here.has_begun(); }));
  ::kill(pair.pid(), SIGSTOP);
  [[maybe_unused]] const LateData late;
  Watched quiet;
  pair.child().close(quiet);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return quiet.done() && talk_here.ended(); }));
  EXPECT_FALSE(talk_here.idle.status.ok());
  talk_here.in.assign(kBytes, std::byte{0x33});
  ::kill(pair.pid(), SIGCONT);
  drive(pair.transport(), milliseconds(400), [] { return false; });
  EXPECT_TRUE(talk_here.in == std::vector<std::byte>(kBytes, std::byte{0x33})) << "written to after quiet";
  EXPECT_FALSE(pair.transport().active());
}

/// The same, but its port goes on to listen, in a process that answers nobody.
void talk_and_leave_a_listener(Transport& transport, Endpoint& parent) {
  if (::fork() == 0) {
    for (int fd = 0; fd < 4096; ++fd) {  // not a page
      int listens = 0;
      socklen_t length = sizeof listens;
      if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) ::close(fd);
    }
    ::alarm(20);
    ::pause();
    ::_exit(0);
  }
  talk(transport, parent);
}

/// The provider tries to connect again, and frames wait; when it forgets the address, they must be forgotten, too.
TEST(OfiEndsInTheMiddle, FramesThatWait_AreDroppedWhenThePeerIsCutOff) {
  ChildPair pair(kTcp, talk_and_leave_a_listener);
  Talk talk_here(pair);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return talk_here.has_begun(); }));
  ::kill(pair.pid(), SIGKILL);
  drive(pair.transport(), milliseconds(100), [] { return false; });
  Watched quiet;
  pair.child().close(quiet);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return quiet.done() && talk_here.ended(); }));
  drive(pair.transport(), milliseconds(100), [] { return false; });
  EXPECT_FALSE(pair.transport().active());
}

/// A provider that keeps a peer's connection has operations still that have ended when the endpoint goes.
TEST(OfiStoppedPeer, EndsOperationsOnce_WhereItsConnectionCannotBeCutOff) {
  ChildPair pair(kTcp, talk, kBytes);  // more than sockets hold
  Talk talk_here(pair);
  ASSERT_TRUE(drive(pair.transport(), seconds(30), [&] { return talk_here.has_begun(); }));
  ::kill(pair.pid(), SIGSTOP);
  drive(pair.transport(), milliseconds(100), [] { return false; });  // all that the peer has allowed is the provider's
  [[maybe_unused]] const LateData late;
  const std::string before = std::getenv("FI_AV_REMOVE_CLEANUP");
  ::setenv("FI_AV_REMOVE_CLEANUP", "0", 1);
  Watched quiet;
  pair.child().close(quiet);
  const bool ended = drive(pair.transport(), seconds(30), [&] { return talk_here.ended(); });
  EXPECT_FALSE(quiet.done()) << "the provider has buffers still";
  pair.end();
  ::setenv("FI_AV_REMOVE_CLEANUP", before.c_str(), 1);
  ASSERT_TRUE(ended);
  for (const Watched* w : {&talk_here.receive, &talk_here.send, &talk_here.idle}) EXPECT_EQ(w->fired, 1);
}

INSTANTIATE_TEST_SUITE_P(ofi, OfiEnd, testing::Values(kTcp, kShm),
                         [](const auto& p) { return std::string(p.param == kTcp ? "tcp" : "shm"); });

TEST(OfiEndpoints, SecondToOneRank_IsRefused) {
  ChildPair pair(kTcp, [](Transport& t, Endpoint&) {
    for (;;) t.progress();
  });
  const auto other = ofi::make_transport(ofi_options(1, kTcp));
  EXPECT_THROW(static_cast<void>(pair.transport().connect(other->address())), Error);
}

/// Frames without the job's secret are none.
TEST(OfiStrangers, WrongSecret_IsNotHeard) {
  ofi::Options wrong = ofi_options(1, kTcp);
  wrong.secret = Bytes(32, std::byte{8});
  const auto here = ofi::make_transport(ofi_options(0, kTcp));
  const auto stranger = ofi::make_transport(wrong);
  const auto to_stranger = here->connect(stranger->address());
  const auto from_stranger = stranger->connect(here->address());
  Watched s, r;
  std::byte byte{};
  to_stranger->recv({{&byte, 1}}, user(1), r);
  from_stranger->send({&byte, 1}, user(1), 0, s);
  const auto both = [&] {
    stranger->progress();
    return s.done();
  };
  ASSERT_TRUE(drive(*here, seconds(30), both));
  drive(*here, milliseconds(200), [&] { return !both(); });
  EXPECT_FALSE(r.done());
  EXPECT_TRUE(to_stranger->cancel(r));
}

}  // namespace
}  // namespace sinew::test
