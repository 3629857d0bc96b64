// The fault kit: each fault does what it says, and one that breaks no promise passes the conformance suite.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/conformance/conformance.hpp>
#include <sinew/conformance/fault_injector.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/inproc/inproc.hpp>

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// An injector and what it is around.
struct Injected {
  Injected(int rank, const std::string& rules)
      : inner(inproc::make_transport(rank, 0)), injector(*inner, parse_faults(rules), rank) {}
  std::unique_ptr<Transport> inner;
  FaultInjector injector;
};

Rail injected(const Exchange& world, const std::string& rules) {
  const auto both = std::make_shared<Injected>(world.rank, rules);
  return Rail(&both->injector, both);
}

Rail make_slow(const Exchange& world) { return injected(world, "delay@1+:1ms"); }
Rail make_resting(const Exchange& world) { return injected(world, "stall@7:30ms,stall@20:5ms/1"); }

INSTANTIATE_TEST_SUITE_P(injected, Conformance,
                         testing::Values(Subject{"delay", make_slow, run_threads},
                                         Subject{"stall", make_resting, run_threads}),
                         subject_name);

/// Two ranks in one thread: `rules` are those of rank 0, which sends.
class Faults : public testing::Test {
 protected:
  void begin(const std::string& rules) {
    a = std::make_unique<Injected>(0, rules);
    b = std::make_unique<Injected>(1, "");
    to_b = a->injector.connect(b->injector.address());
    to_a = b->injector.connect(a->injector.address());
  }
  void TearDown() override {
    to_b.reset();
    to_a.reset();
    progress_for(2ms);
  }
  void progress_for(Duration time) {
    for (const Deadline end = Deadline::after(time); !end.passed();) {
      a->injector.progress();
      b->injector.progress();
    }
  }
  /// Sends 8 bytes that say `value`.
  void send(std::uint64_t value, Watched& done, Tag tag = user(1)) {
    values.push_back(std::make_unique<std::uint64_t>(value));
    to_b->send({reinterpret_cast<const std::byte*>(values.back().get()), 8}, tag, 0, done);
  }
  void receive(std::uint64_t& into, Watched& done, Tag tag = user(1)) {
    to_a->recv({{reinterpret_cast<std::byte*>(&into), 8}}, tag, done);
  }

  std::unique_ptr<Injected> a, b;
  std::unique_ptr<Endpoint> to_b, to_a;
  std::vector<std::unique_ptr<std::uint64_t>> values;
};

TEST_F(Faults, Drop_LosesOneMessageWhoseSenderHearsNothing) {
  begin("drop@2");
  Watched sent[3], came[3];
  std::uint64_t in[3]{};
  for (unsigned i = 0; i < 3; ++i) send(10 + i, sent[i]);
  for (unsigned i = 0; i < 3; ++i) receive(in[i], came[i]);
  progress_for(20ms);
  EXPECT_TRUE(sent[0].done() && sent[1].done() && sent[2].done());
  EXPECT_TRUE(sent[1].status.ok());
  EXPECT_TRUE(came[0].done() && came[1].done());
  EXPECT_FALSE(came[2].done());
  EXPECT_EQ(in[0], 10u);
  EXPECT_EQ(in[1], 12u);
  EXPECT_EQ(a->injector.hits(), 1u);
  to_a->cancel(came[2]);
  progress_for(2ms);
}

TEST_F(Faults, Duplicate_ArrivesTwice_AndEndsOnce) {
  begin("duplicate@1");
  Watched sent[2], came[3];
  std::uint64_t in[3]{};
  send(7, sent[0]);
  send(8, sent[1]);
  for (unsigned i = 0; i < 3; ++i) receive(in[i], came[i]);
  progress_for(20ms);
  EXPECT_TRUE(sent[0].done() && sent[1].done() && came[0].done() && came[1].done() && came[2].done());
  EXPECT_EQ(in[0], 7u);
  EXPECT_EQ(in[1], 7u);
  EXPECT_EQ(in[2], 8u);
}

TEST_F(Faults, Truncate_LeavesTheFirstBytes) {
  begin("truncate@1:3");
  Watched sent, came;
  std::uint64_t in = 0;
  send(0x1122334455667788, sent);
  receive(in, came);
  progress_for(20ms);
  ASSERT_TRUE(came.done());
  EXPECT_EQ(came.bytes, 3u);
  EXPECT_EQ(in, 0x667788u);
}

TEST_F(Faults, Reorder_LetsTheNextOvertake_OrGoesAloneInTime) {
  begin("reorder@1,reorder@3");
  Watched sent[3], came[3];
  std::uint64_t in[3]{};
  for (unsigned i = 0; i < 3; ++i) send(i, sent[i]);
  for (unsigned i = 0; i < 3; ++i) receive(in[i], came[i]);
  progress_for(200ms);
  EXPECT_TRUE(came[0].done() && came[1].done() && came[2].done());
  EXPECT_EQ(in[0], 1u);
  EXPECT_EQ(in[1], 0u);
  EXPECT_EQ(in[2], 2u);
}

TEST_F(Faults, ReorderOfAll_SwapsPairs) {
  begin("reorder@1+");
  Watched sent[4], came[4];
  std::uint64_t in[4]{};
  for (unsigned i = 0; i < 4; ++i) send(i, sent[i]);
  for (unsigned i = 0; i < 4; ++i) receive(in[i], came[i]);
  progress_for(200ms);
  EXPECT_TRUE(came[3].done());
  EXPECT_EQ(std::vector(in, in + 4), (std::vector<std::uint64_t>{1, 0, 3, 2}));
}

TEST_F(Faults, Delay_HoldsBackWhatIsBehindIt_AndCanBeTakenBack) {
  begin("delay@1:150ms");
  Watched sent[2], came[2];
  std::uint64_t in[2]{};
  send(1, sent[0]);
  send(2, sent[1]);
  for (unsigned i = 0; i < 2; ++i) receive(in[i], came[i]);
  progress_for(30ms);
  EXPECT_FALSE(came[0].done() || came[1].done());
  EXPECT_TRUE(a->injector.active());
  EXPECT_FALSE(a->injector.arm());
  EXPECT_TRUE(to_b->cancel(sent[0]));
  progress_for(300ms);
  EXPECT_EQ(sent[0].status.code(), Code::Cancelled);
  EXPECT_TRUE(came[0].done());
  EXPECT_EQ(in[0], 2u);
  to_a->cancel(came[1]);
  progress_for(2ms);
}

TEST_F(Faults, Close_EndsWhatIsHeldBack) {
  begin("delay@1:1h");
  Watched sent, quiet;
  send(1, sent);
  to_b->close(quiet);
  progress_for(20ms);
  EXPECT_TRUE(sent.done() && quiet.done());
  EXPECT_EQ(sent.status.code(), Code::Cancelled);
}

TEST_F(Faults, Stall_StopsEverythingForItsTime) {
  begin("stall@2:150ms");
  Watched sent[2], came[2];
  std::uint64_t in[2]{};
  for (unsigned i = 0; i < 2; ++i) send(i, sent[i]);
  for (unsigned i = 0; i < 2; ++i) receive(in[i], came[i]);
  progress_for(30ms);
  EXPECT_FALSE(sent[0].done() || sent[1].done() || came[1].done());
  EXPECT_TRUE(a->injector.active());
  progress_for(300ms);
  EXPECT_TRUE(sent[0].done() && sent[1].done() && came[0].done() && came[1].done());
}

TEST_F(Faults, Kill_EndsTheProcessAtThatOperation) {
  const pid_t child = ::fork();
  if (child == 0) {
    begin("kill@2");
    Watched sent[2];
    send(1, sent[0]);
    send(2, sent[1]);
    ::_exit(0);
  }
  int how = 0;
  ::waitpid(child, &how, 0);
  EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
  begin("");
}

TEST_F(Faults, Refuse_MakesNoConnection_AndLeavesTheOthers) {
  begin("refuse@2");
  EXPECT_THROW(static_cast<void>(a->injector.connect(b->injector.address())), Error);
  EXPECT_EQ(a->injector.hits(), 1u);
  Watched sent, came;
  std::uint64_t in = 0;
  send(7, sent);
  receive(in, came);
  progress_for(20ms);
  EXPECT_TRUE(sent.done() && came.done());
}

TEST(FaultRules, SayWhatWhenAndWhose) {
  const std::vector<Fault> all = parse_faults("drop@3,delay@1+:20ms/2,truncate@2:1KiB,stall@9");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0].kind == Fault::Kind::Drop && all[0].hits(3) && !all[0].hits(4) && all[0].rank == -1);
  EXPECT_TRUE(all[1].onwards && all[1].hits(7) && all[1].time == 20ms && all[1].rank == 2);
  EXPECT_EQ(all[2].bytes, 1024u);
  EXPECT_EQ(all[3].time, Duration{});
  EXPECT_TRUE(parse_faults("").empty());
}

TEST(FaultRules, AreRefused_WithTheForms) {
  for (const char* rule : {"drop", "drop@", "drop@0", "drop@-1", "lose@1", "drop@1:5", "delay@1", "delay@1:5",
                           "truncate@1:x", "drop@1/x", "drop@1,,drop@2", "drop@1,", ",", "drop@1++"}) {
    try {
      parse_faults(rule);
      ADD_FAILURE() << rule;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      EXPECT_THAT(e.what(), HasSubstr("expected KIND@N or KIND@N+")) << rule;
    }
  }
}

}  // namespace
}  // namespace sinew::test
