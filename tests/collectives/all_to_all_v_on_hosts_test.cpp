#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/ranks.hpp"
#include "support/sanitized.hpp"
#include "support/worlds.hpp"

// all_to_all_v by the hierarchical algorithm, on hosts that are host identities of this machine.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using Counts = std::vector<std::uint64_t>;

/// The host of each rank.
struct Hosts {
  std::string name;
  std::vector<int> of;
  int ranks() const { return static_cast<int>(of.size()); }
};

void PrintTo(const Hosts& hosts, std::ostream* out) { *out << hosts.name; }

std::vector<Hosts> placings() {
  return {{"2_and_1", {0, 0, 1}},
          {"3_and_2", {0, 0, 0, 1, 1}},
          {"in_turns_3_and_2", {0, 1, 0, 1, 0}},
          {"2_and_2_and_1", {0, 0, 1, 1, 2}},
          {"3_and_3", {0, 0, 0, 1, 1, 1}},
          {"in_turns_2_and_2_and_2", {0, 1, 2, 0, 1, 2}},
          {"1_and_5", {0, 1, 1, 1, 1, 1}},
          {"3_and_3_and_3", {0, 0, 0, 1, 1, 1, 2, 2, 2}},
          {"in_turns_4_and_5", {1, 0, 1, 0, 1, 0, 1, 0, 1}}};
}

WorldOptions options_of(const Hosts& hosts, int rank, const std::string& transports, const std::string& algorithm) {
  WorldOptions options = only(transports);
  options.config.host_id = fmt::format("host {}", hosts.of[static_cast<std::size_t>(rank)]);
  options.config.tune = {fmt::format("all_to_all_v:0-:{}@*", algorithm)};
  return options;
}

/// Runs `body` on ranks of these hosts: threads over inproc, or processes.
void on_hosts(const Hosts& hosts, const std::string& transports, const Body& body,
              const std::string& algorithm = "hierarchical") {
  const auto run = [&](const Exchange& exchange) {
    World world = World::create(exchange, options_of(hosts, exchange.rank, transports, algorithm));
    body(world);
  };
  transports == "inproc" ? run_as_threads(hosts.ranks(), run) : run_as_processes(hosts.ranks(), run);
}

/// A number that depends on each argument.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return mix(mix(mix(seed + 1, a + 1), b + 1), 17) >> 8;
}

/// The number of elements that rank i gives to rank j.
using CountOf = std::function<std::uint64_t(int i, int j)>;

CountOf random_counts(std::uint64_t seed, std::uint64_t most) {
  return [=](int i, int j) {
    const std::uint64_t number = mixed(seed, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(j));
    return number % 3 == 0 ? 0 : number / 3 % (most + 1);
  };
}

struct Kind {
  const char* name;
  CountOf count;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all{
      {"no elements", [](int, int) { return std::uint64_t{0}; }},
      {"one element each", [](int, int) { return std::uint64_t{1}; }},
      {"one rank gives everything", [](int i, int) { return std::uint64_t{i == 1 ? 3000U : 0U}; }},
      {"one rank takes everything", [](int, int j) { return std::uint64_t{j == 0 ? 3000U : 0U}; }},
      {"one long block", [](int i, int j) { return std::uint64_t{i == 2 && j == 0 ? 100'000U : 1U}; }}};
  for (std::uint64_t seed = 0; seed < (kSanitized ? 2 : 6); ++seed) {
    all.push_back({"few elements", random_counts(seed, 5)});
    all.push_back({"about as many as a head", random_counts(seed + 100, 3000)});
    all.push_back({"many elements", random_counts(seed + 200, 20'000)});
  }
  return all;
}

/// One buffer of a rank: a part for each rank, with gaps and in reverse order if it is torn.
struct Side {
  Side(int ranks, std::size_t element_bytes, bool torn, const std::function<std::uint64_t(int)>& count_with)
      : each(element_bytes) {
    const auto n = static_cast<std::size_t>(ranks);
    std::uint64_t next = torn ? 1 : 0;
    for (int r = 0; r < ranks; ++r) counts.push_back(count_with(r));
    displacements.resize(n);
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t r = torn ? n - 1 - k : k;
      displacements[r] = next;
      next += counts[r] + (torn ? 1 : 0);
    }
    memory.assign(next * each, kUntouched);
  }
  Parts parts() const { return {counts, displacements}; }
  Buffer buffer() { return {memory.data(), memory.size(), {}}; }
  std::byte* part(int r) { return memory.data() + displacements[static_cast<std::size_t>(r)] * each; }
  std::size_t bytes(int r) const { return counts[static_cast<std::size_t>(r)] * each; }

  static constexpr std::byte kUntouched{0xee};
  std::size_t each;
  Counts counts, displacements;
  std::vector<std::byte> memory;
};

std::byte byte_of(int giver, int taker, std::size_t at, std::uint64_t salt) {
  return static_cast<std::byte>(mixed(salt, static_cast<std::uint64_t>(giver * 64 + taker), at) & 0x7f);
}

/// Makes one call and returns the number of wrong bytes, in parts and between them.
std::size_t wrong_bytes(Communicator& all, DType dtype, const CountOf& count, bool torn, bool in_place,
                        std::uint64_t salt) {
  const int me = all.rank();
  const std::size_t each = size_of(dtype);
  const auto both_ways = [&](int r) { return count(std::min(me, r), std::max(me, r)); };  // as in place must be
  const auto gives = [&](int r) { return in_place ? both_ways(r) : count(me, r); };
  const auto takes = [&](int r) { return in_place ? both_ways(r) : count(r, me); };
  Side in(all.size(), each, torn, gives);
  Side apart(all.size(), each, torn && me % 2 == 0, takes);
  Side& out = in_place ? in : apart;
  for (int r = 0; r < all.size(); ++r) {
    for (std::size_t k = 0; k < in.bytes(r); ++k) in.part(r)[k] = byte_of(me, r, k, salt);
  }
  all.all_to_all_v(in.buffer(), out.buffer(), dtype, in.parts(), out.parts()).get();
  std::size_t wrong = 0;
  for (int r = 0; r < all.size(); ++r) {
    for (std::size_t k = 0; k < out.bytes(r); ++k) {
      if (out.part(r)[k] != byte_of(r, me, k, salt)) ++wrong;
      out.part(r)[k] = Side::kUntouched;
    }
  }
  return wrong +
         static_cast<std::size_t>(std::ranges::count_if(out.memory, [](std::byte b) { return b != Side::kUntouched; }));
}

void expect_right_numbers(World& world) {
  Communicator& all = world.communicator();
  require(all.plan({.collective = Collective::AllToAllV, .dtype = DType::F32}).chosen().algorithm == "hierarchical",
          "the rule applies");
  std::uint64_t salt = 0;
  for (const Kind& kind : kinds()) {
    for (const DType dtype : {DType::U8, DType::BF16, DType::F32, DType::I64}) {
      for (const bool torn : {false, true}) {
        for (const bool in_place : {false, true}) {
          const std::size_t wrong = wrong_bytes(all, dtype, kind.count, torn, in_place, ++salt);
          require(wrong == 0, fmt::format("{}, {}, {}, {}: {} bytes are wrong", kind.name, name_of(dtype),
                                          torn ? "torn" : "packed", in_place ? "in place" : "apart", wrong));
        }
      }
    }
  }
}

class AllToAllVOnHosts : public testing::TestWithParam<Hosts> {};

TEST_P(AllToAllVOnHosts, GivesRightNumbers_InThreads) { on_hosts(GetParam(), "inproc", expect_right_numbers); }

TEST_P(AllToAllVOnHosts, GivesRightNumbers_InProcesses) { on_hosts(GetParam(), "shm,tcp", expect_right_numbers); }

/// Calls that are in flight at the same time have their own sizes.
TEST_P(AllToAllVOnHosts, KeepsEachCallsSizes_WithSeveralInFlight) {
  on_hosts(GetParam(), "inproc", [](World& world) {
    Communicator& all = world.communicator();
    const int me = all.rank();
    std::vector<Side> ins, outs;
    for (std::uint64_t call = 0; call < 5; ++call) {
      const CountOf count = random_counts(call, 4000);
      ins.emplace_back(all.size(), 4, false, [&](int r) { return count(me, r); });
      outs.emplace_back(all.size(), 4, false, [&](int r) { return count(r, me); });
      for (int r = 0; r < all.size(); ++r) {
        for (std::size_t k = 0; k < ins.back().bytes(r); ++k) ins.back().part(r)[k] = byte_of(me, r, k, call);
      }
    }
    std::vector<Work> works;
    for (std::size_t call = 0; call < ins.size(); ++call) {
      works.push_back(
          all.all_to_all_v(ins[call].buffer(), outs[call].buffer(), DType::F32, ins[call].parts(), outs[call].parts()));
    }
    for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
    for (std::uint64_t call = 0; call < outs.size(); ++call) {
      for (int r = 0; r < all.size(); ++r) {
        for (std::size_t k = 0; k < outs[call].bytes(r); ++k)
          require(outs[call].part(r)[k] == byte_of(r, me, k, call), fmt::format("call {}, part {}", call, r));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Placings, AllToAllVOnHosts, testing::ValuesIn(placings()),
                         [](const auto& p) { return p.param.name; });

/// Two ranks alone on their hosts have nothing to pass on. Then the choice is between the other algorithms.
TEST(AllToAllVOnTwoHosts, TakesAnotherAlgorithm_WhereEachHostHasOneRank) {
  on_hosts(
      {"1_and_1", {0, 1}}, "inproc",
      [](World& world) {
        Communicator& all = world.communicator();
        for (const Kind& kind : kinds())
          require(wrong_bytes(all, DType::F32, kind.count, true, false, 3) == 0, kind.name);
        require_part(all.plan({.collective = Collective::AllToAllV}).explain(),
                     "all ranks are equally near each other");
      },
      "*");
}

/// Ranks of two hosts whose counts differ from what their receivers expect.
struct Disagreement {
  std::string name;
  int giver, taker;
  std::uint64_t sent;
  int also = -1;  ///< a rank that gives the taker so much less that the sum is right
};

class AllToAllVDisagrees : public testing::TestWithParam<Disagreement> {};

TEST_P(AllToAllVDisagrees, NamesBothRanksAndBothCounts_OnAllRanks) {
  const Disagreement& what = GetParam();
  constexpr std::uint64_t kExpected = 6;
  const auto body = [&](World& world) {
    Communicator c = world.communicator().split(0);
    const auto ranks = static_cast<std::size_t>(c.size());
    Counts gives(ranks, kExpected);
    const Counts takes(ranks, kExpected);
    if (c.rank() == what.giver) gives[static_cast<std::size_t>(what.taker)] = what.sent;
    if (c.rank() == what.also) gives[static_cast<std::size_t>(what.taker)] = 2 * kExpected - what.sent;
    std::vector<std::int32_t> in(80'000), out(kExpected * ranks);
    const auto deadline = [] { return Deadline::after(seconds(20)); };
    Status status = c.all_to_all_v(std::span(in), std::span(out), Parts{gives}, Parts{takes}).wait(deadline());
    if (status.ok()) status = c.barrier().wait(deadline());
    EXPECT_EQ(status.code(), Code::Mismatch) << status.message();
    const std::string first = fmt::format("rank {} sent rank {} {} elements, which expected {}", what.giver, what.taker,
                                          what.sent, kExpected);
    const std::string second = fmt::format("rank {} sent rank {} {} elements, which expected {}", what.also, what.taker,
                                           2 * kExpected - what.sent, kExpected);
    EXPECT_THAT(std::string(status.message()),
                AllOf(testing::AnyOf(HasSubstr(first), HasSubstr(second)), HasSubstr("on_hosts_test.cpp:")));
    EXPECT_TRUE(status.rank() == what.giver || status.rank() == what.also) << status.rank();
    world.communicator().barrier().get();
  };
  on_hosts({"3_and_2", {0, 0, 0, 1, 1}}, "inproc", body);
  on_hosts({"in_turns", {0, 1, 0, 1, 0}}, "shm,tcp", body);
}

INSTANTIATE_TEST_SUITE_P(Pairs, AllToAllVDisagrees,
                         testing::Values(Disagreement{"nothing_across_hosts", 1, 4, 0},
                                         Disagreement{"less_across_hosts", 4, 0, 5},
                                         Disagreement{"more_across_hosts", 0, 3, 7},
                                         Disagreement{"much_more_across_hosts", 2, 3, 70'000},
                                         Disagreement{"nothing_inside_a_host", 0, 2, 0},
                                         Disagreement{"much_more_inside_a_host", 2, 1, 70'000},
                                         Disagreement{"two_that_cancel_out", 0, 4, 8, 1}),
                         [](const auto& d) { return d.param.name; });

/// A range of addresses without memory behind it: reading or writing it ends the process.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes)
      : bytes_(bytes), at_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Reserved() {
    if (there()) ::munmap(at_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  bool there() const { return at_ != MAP_FAILED; }
  ConstBuffer buffer() const { return {static_cast<const std::byte*>(at_), bytes_}; }

 private:
  std::size_t bytes_;
  void* at_;
};

TEST(AllToAllVOnTwoHosts, NamesTheRankWithoutMemory_WhenABlockIsTooLongToPassOn) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the process where memory is refused";
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 45;
  int overcommit = -1;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (overcommit == 1) GTEST_SKIP() << "the kernel refuses no memory: vm.overcommit_memory is 1";
  if (!Reserved(kHuge).there()) GTEST_SKIP() << "32 TiB of addresses cannot be reserved here";
  on_hosts({"3_and_2", {0, 0, 0, 1, 1}}, "shm,tcp", [&](World& world) {
    Communicator c = world.communicator().split(0);
    const Counts takes(5, 0);
    Counts gives = takes;
    if (c.rank() == 1) gives[4] = kHuge;
    const Reserved memory(kHuge);
    std::byte nothing{};
    const Buffer out{&nothing, 0, {}};
    const auto deadline = Deadline::after(seconds(20));
    Status status = c.all_to_all_v(memory.buffer(), out, DType::U8, Parts{gives}, Parts{takes}).wait(deadline);
    if (status.ok()) status = c.barrier().wait(deadline);
    EXPECT_EQ(status.code(), Code::System) << status.message();
    EXPECT_EQ(status.rank(), 1) << status.message();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has no memory for a message of"));
    world.communicator().barrier().get();
  });
}

TEST(AllToAllVOnTwoHosts, NamesTheRankThatIsLate_WhenADeadlinePasses) {
  on_hosts({"2_and_2", {0, 0, 1, 1}}, "shm,tcp", [](World& world) {
    Communicator c = world.communicator().split(0);
    const Counts counts(4, 3);
    std::vector<float> in(12), out(12);
    const auto call = [&](milliseconds after) {
      CallOptions options{};
      options.deadline = Deadline::after(after);
      return c.all_to_all_v(std::span(in), std::span(out), Parts{counts}, Parts{counts}, options).wait();
    };
    if (c.rank() != 2) {
      const Status status = call(milliseconds(500));
      EXPECT_EQ(status.code(), Code::Timeout) << status.message();
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("all_to_all_v(f32)"), HasSubstr("rank 2")));
    }
    world.communicator().barrier().get();
  });
}

/// The ranks of its own host have all that they need of it, and wait for what it should pass on.
TEST(AllToAllVOnTwoHosts, SaysWhomACallWaitsFor_WhileARankIsLate) {
  on_hosts({"2_and_2", {0, 0, 1, 1}}, "shm,tcp", [](World& world) {
    Communicator& all = world.communicator();
    const Counts counts(4, 3);
    std::vector<float> in(12, static_cast<float>(all.rank())), out(12);
    const auto call = [&] { return all.all_to_all_v(std::span(in), std::span(out), Parts{counts}, Parts{counts}); };
    Communicator beside = all.split(0);
    if (all.rank() == 1) {
      beside.barrier().get();  // the others have seen that it is late
      call().get();
    } else {
      Work work = call();
      std::string why;  // the other host needs a moment to answer
      for (int look = 0; look < 100 && why.find("rank 1 is late") == std::string::npos; ++look) {
        EXPECT_EQ(work.wait(Deadline::after(milliseconds(100))).code(), Code::Pending);
        why = all.verdict();
      }
      EXPECT_THAT(why, AllOf(HasSubstr("all_to_all_v(f32)"), HasSubstr("rank 1 is late")));
      beside.barrier().get();
      work.get();
    }
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  });
}

TEST(AllToAllVOnTwoHosts, EndsOnAllRanks_WhenTheCommunicatorIsAborted) {
  on_hosts({"2_and_3", {0, 0, 1, 1, 1}}, "shm,tcp", [](World& world) {
    Communicator c = world.communicator().split(0);
    const Counts counts(5, 2000);
    std::vector<float> in(10'000), out(10'000);
    if (c.rank() == 3) {
      c.abort("enough");
    } else {
      const Status status = c.all_to_all_v(std::span(in), std::span(out), Parts{counts}, Parts{counts})
                                .wait(Deadline::after(seconds(20)));
      EXPECT_EQ(status.code(), Code::Aborted) << status.message();
      EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
    }
    world.communicator().barrier().get();
  });
}

}  // namespace
}  // namespace sinew::test
