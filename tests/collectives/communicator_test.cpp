#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/collective_case.hpp"
#include "support/sanitized.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

struct Setting {
  std::string transports;
  int ranks;
  Threads threads = Threads::Single;
};

class CommunicatorTest : public testing::TestWithParam<Setting> {
 protected:
  WorldOptions options() const {
    WorldOptions o = only(GetParam().transports);
    o.threads = GetParam().threads;
    return o;
  }
  void run(const Body& body) const { on_threads(GetParam().ranks, options(), body); }
};

TEST_P(CommunicatorTest, GivesExactResults_ForAPairwiseCover) {
  const auto cases = pairwise_cases(GetParam().ranks, test::kSanitized ? 1 << 14 : 1 << 20);
  run([&](World& world) {
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : cases) {
      require(run_case(world.communicator(), c, ++salt) == 0, c.to_string());
    }
  });
}

TEST_P(CommunicatorTest, CompletesSeveralCalls_WaitedForInAnyOrder) {
  run([](World& world) {
    Communicator& all = world.communicator();
    std::vector<std::vector<std::int32_t>> data(6, std::vector<std::int32_t>(1000));
    std::vector<Work> works;
    for (std::size_t k = 0; k < data.size(); ++k) {
      std::ranges::fill(data[k], static_cast<std::int32_t>(k) + all.rank());
      works.push_back(all.all_reduce(data[k]));
    }
    for (std::size_t k = data.size(); k-- > 0;) works[k].get();
    const int sum = all.size() * (all.size() - 1) / 2;
    for (std::size_t k = 0; k < data.size(); ++k) {
      require(data[k].back() == static_cast<std::int32_t>(k) * all.size() + sum, fmt::format("call {}", k));
    }
  });
}

TEST_P(CommunicatorTest, SplitsByColorAndKey_AndCollectivesWorkInTheParts) {
  run([](World& world) {
    Communicator& all = world.communicator();
    Communicator part = all.split(all.rank() % 2, -all.rank());
    const int members = (all.size() + 1 - all.rank() % 2) / 2;
    require(part.size() == members, fmt::format("size {}", part.size()));
    require(part.rank() == members - 1 - all.rank() / 2, fmt::format("rank {}", part.rank()));
    std::vector<std::int64_t> data(10, all.rank());
    part.all_reduce(data).get();
    std::int64_t expected = 0;
    for (int r = all.rank() % 2; r < all.size(); r += 2) expected += r;
    require(data[9] == expected, fmt::format("{} instead of {}", data[9], expected));
    std::vector<std::int64_t> whole(10, 1);
    all.all_reduce(whole).get();
    require(whole[0] == all.size(), "the parent after the split");
    Communicator none = all.split(all.rank() == 0 ? 0 : -1);
    require(none.size() == (all.rank() == 0 ? 1 : 0), "a negative color gives no communicator");
  });
}

TEST_P(CommunicatorTest, CarriesMessagesInOrder_ByTag) {
  run([](World& world) {
    Communicator& all = world.communicator();
    const int next = (all.rank() + 1) % all.size();
    const int before = (all.rank() + all.size() - 1) % all.size();
    if (all.size() == 1) return;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300000}}) {
      std::vector<std::int32_t> a(count, all.rank());
      std::vector<std::int32_t> b(count, all.rank() + 100);
      std::vector<std::int32_t> got_a(count);
      std::vector<std::int32_t> got_b(count);
      std::vector<std::int32_t> got_c(count);
      Work s1 = all.send(a, next, 5);
      Work s2 = all.send(b, next, 6);
      Work s3 = all.send(b, next, 5);
      Work r2 = all.recv(got_b, before, 6);
      Work r1 = all.recv(got_a, before, 5);
      Work r3 = all.recv(got_c, before, 5);
      for (Work* w : {&s1, &s2, &s3, &r1, &r2, &r3}) w->get();
      require(got_a.back() == before && got_b.back() == before + 100 && got_c.back() == before + 100, "messages");
    }
  });
}

TEST_P(CommunicatorTest, KeepsAMessageThatNobodyReceived_FromTheNextCommunicator) {
  if (GetParam().transports.find("inproc") != std::string::npos)
    GTEST_SKIP() << "inproc buffers nothing: its send waits for the receive";
  run([](World& world) {
    Communicator& all = world.communicator();
    if (all.size() == 1) return;
    for (const int value : {1, 2}) {
      Communicator part = all.split(0);
      std::array<int, 1> data{value};
      if (part.rank() == 0) part.send(data, 1, 5).get();
      if (part.rank() == 1 && value == 2) {
        part.recv(data, 0, 5).get();
        require(data[0] == 2, fmt::format("received {}", data[0]));
      }
      all.barrier().get();
    }
  });
}

TEST_P(CommunicatorTest, RejectsBadArguments_NamingThem) {
  run([](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> a(4);
    std::vector<float> b(5);
    const auto message_of = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const Error& e) {
        return e.what();
      }
      return "nothing thrown";
    };
    require(message_of([&] { all.all_reduce(a, b).get(); }) == "all_reduce: out has 20 bytes, expected 16",
            "all_reduce");
    require(message_of([&] { all.broadcast(a, all.size()).get(); }).starts_with("broadcast: root is"), "broadcast");
    require(message_of([&] { all.send(a, -1).get(); }).starts_with("send: to_rank is -1"), "send");
    require(
        message_of([&] { all.all_reduce(a, ReduceOp::BitAnd).get(); }).find("not defined for f32") != std::string::npos,
        "operator");
  });
}

TEST_P(CommunicatorTest, RunsTheUsersOperator_AndAnotherOneAtTheSameAddress) {
  const auto of = [](auto combine) -> ReduceFn { return combine; };
  const ReduceFn larger = of([](void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<std::int32_t*>(dst)[i] =
          std::max(static_cast<const std::int32_t*>(a)[i], static_cast<const std::int32_t*>(b)[i]);
  });
  const ReduceFn sum = of([](void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<std::int32_t*>(dst)[i] =
          static_cast<const std::int32_t*>(a)[i] + static_cast<const std::int32_t*>(b)[i];
  });
  run([&](World& world) {
    Communicator& all = world.communicator();
    Reducer mine{nullptr, nullptr, sizeof(std::int32_t)};
    CallOptions options;
    options.user = &mine;
    for (const std::size_t count : {std::size_t{3}, std::size_t{300'000}}) {
      for (const bool add : {false, true, false}) {
        mine.fn = add ? sum : larger;
        std::vector<std::int32_t> data(count, all.rank() + 1);
        all.all_reduce(data, ReduceOp::User, options).get();
        const int expected = add ? all.size() * (all.size() + 1) / 2 : all.size();
        require(data.back() == expected, fmt::format("{} instead of {}", data.back(), expected));
      }
    }
  });
}

/// A program that always has a call in flight, and a receive whose message comes only at the end.
class Plans : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, Plans,
                         testing::Values(Setting{"tcp", 2}, Setting{"tcp", 2, Threads::Multiple}, Setting{"inproc", 3},
                                         Setting{"shm", 2}));

TEST_P(Plans, AreBounded_WhileSignaturesChangeAndCallsAreUnderWay) {
  WorldOptions options = only(GetParam().transports);
  options.threads = GetParam().threads;
  options.config.verify_plans = false;  // there are many
  on_threads(GetParam().ranks, options, [](World& world) {
    Communicator& all = world.communicator();
    std::vector<std::int32_t> word(1), last(1);
    Work waits = all.recv(last, (all.rank() + 1) % all.size(), 7);
    std::array<std::vector<float>, 2> data;
    Work before;
    std::size_t at_first = 0;
    for (int call = 1; call <= 1300; ++call) {
      std::vector<float>& mine = data[call % 2];
      mine.assign(100, 1.0F);
      Work next = all.all_reduce(mine, ReduceOp::PreMulSum, {.pre_multiply = static_cast<double>(call)});
      if (call > 1) {
        before.get();
        require(data[(call - 1) % 2].back() == static_cast<float>((call - 1) * all.size()),
                fmt::format("call {}", call));
      }
      before = std::move(next);
      if (call <= 600) at_first = std::max(at_first, all.memory_bytes());
    }
    before.get();
    require(2 * all.memory_bytes() <= 3 * at_first,
            fmt::format("{} bytes, {} after fewer calls", all.memory_bytes(), at_first));
    all.send(word, (all.rank() + all.size() - 1) % all.size(), 7).get();
    waits.get();
  });
}

TEST_P(Plans, GoOn_WhenThereHaveBeenMoreSignaturesThanAreKept) {
  WorldOptions options = only(GetParam().transports);
  options.threads = GetParam().threads;
  on_threads(GetParam().ranks, options, [](World& world) {
    Communicator& all = world.communicator();
    for (std::size_t count = 1; count <= 600; ++count) {
      std::vector<std::int32_t> data(count, 1);
      all.all_reduce(data).get();
      require(data.back() == all.size(), fmt::format("count {}", count));
    }
  });
}

TEST_P(CommunicatorTest, GoesOnWithPartsUnderWay_WhenMoreCallsComeThanEver) {
  run([](World& world) {
    Communicator& all = world.communicator();
    constexpr std::size_t kCount = 1 << 20;
    const auto ranks = static_cast<std::size_t>(all.size());
    const std::vector<std::uint64_t> counts(ranks, kCount);
    std::vector<std::int32_t> in(ranks * kCount, all.rank()), out(ranks * kCount, -1);
    Work parts = all.all_to_all_v(in, out, {counts}, {counts});
    for (int i = 0; i < 3 && !parts.test(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<std::vector<std::int32_t>> data(100, std::vector<std::int32_t>(10, 1));
    std::vector<Work> works;
    for (auto& d : data) works.push_back(all.all_reduce(d));
    parts.get();
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto part = std::span(out).subspan(r * kCount, kCount);
      require(std::ranges::all_of(part, [&](std::int32_t v) { return v == static_cast<std::int32_t>(r); }),
              fmt::format("the part of rank {}", r));
    }
    for (Work& w : works) w.get();
    for (const auto& d : data) require(d.back() == all.size(), "a call behind it");
  });
}

TEST_P(CommunicatorTest, KnowsWhichRanksShareAMachine) {
  run([](World& world) {
    const Cluster& cluster = world.cluster();
    require(cluster.hosts.size() == 1, fmt::format("{} hosts", cluster.hosts.size()));
    require(cluster.ranks.size() == static_cast<std::size_t>(world.size()),
            fmt::format("{} ranks", cluster.ranks.size()));
    require(cluster.groups_by_host().at(0).size() == cluster.ranks.size(), "one group of all");
  });
}

TEST_P(CommunicatorTest, KnowsTheNicOfEachRank) {
  run([](World& world) {
    for (const RankSpot& spot : world.cluster().ranks) {
      require(!spot.nic_why.empty(), "every answer has a reason");
      if (spot.nic < 0) continue;
      const Nic& nic = world.cluster().hosts.at(0).nics.at(static_cast<std::size_t>(spot.nic));
      require(nic.running && !nic.loopback, nic.name);
    }
  });
}

TEST_P(CommunicatorTest, ExplainsItsChoice_EquallyOnAllRanks) {
  run([](World& world) {
    const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 1 << 20};
    const std::string text = world.communicator().plan(desc).explain();
    std::vector<std::uint64_t> hash = {std::hash<std::string>{}(text)};
    std::vector<std::uint64_t> lowest = hash;
    world.communicator().all_reduce(lowest, ReduceOp::Min).get();
    require(lowest == hash, text);
    require(text.find("takes") != std::string::npos, text);
  });
}

TEST_P(CommunicatorTest, AnswersAndAllocates_WhileCallsAreInFlight) {
  run([](World& world) {
    Communicator& all = world.communicator();
    const bool registers =
        std::ranges::any_of(world.transports(), [](const auto& t) { return t.name == "shm" && t.ok; });
    const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 10000};
    std::vector<float> data(10000);
    for (int round = 0; round < 5; ++round) {
      std::ranges::fill(data, 1.0F);
      Work work = all.all_reduce(data);
      if (registers) world.allocate(5000 * static_cast<std::size_t>(round + 1));
      static_cast<void>(all.memory_bytes());
      static_cast<void>(all.plan(desc));
      static_cast<void>(all.verdict());
      Communicator pair = all.split(all.rank() / 2);
      std::vector<std::int32_t> one{1};
      pair.all_reduce(one).get();
      require(one[0] == pair.size(), "the part");
      work.get();
      require(data[9999] == static_cast<float>(all.size()), "the whole");
    }
  });
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  // Shared memory alone has whole collectives but no messages, which split and send need.
  const std::vector<std::string> transports = {"inproc", "tcp", "inproc,shm", "shm,tcp", "inproc,shm,tcp"};
  for (const std::string& t : transports) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      // A sanitizer build tests three ranks only, and leaves out pairs of transports.
      const bool is_sanitized = ranks == 3 && t != "inproc,shm" && t != "shm,tcp";
      if (!test::kSanitized || is_sanitized) all.push_back({t, ranks, Threads::Single});
    }
  }
  all.push_back({"inproc,shm", 3, Threads::Multiple});
  all.push_back({"tcp", 2, Threads::Multiple});
  all.push_back({"shm,tcp", 3, Threads::Multiple});
  for (const std::string t : transports_between_processes()) {
    if (t != "ucx") continue;
    for (const int ranks : {2, 3, 8}) all.push_back({t, ranks, Threads::Single});
    all.push_back({"shm,ucx", 3, Threads::Single});
    all.push_back({t, 2, Threads::Multiple});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, CommunicatorTest, testing::ValuesIn(settings()), [](const auto& setting) {
  std::string name = setting.param.transports;
  std::ranges::replace(name, ',', '_');
  return fmt::format("{}_{}{}", name, setting.param.ranks, setting.param.threads == Threads::Multiple ? "_thread" : "");
});

}  // namespace
}  // namespace sinew::test
