#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/net/secret.hpp>
#include <sinew/tools/info/doctor/links/link_checks.hpp>
#include <sinew/tools/info/doctor/links/link_repeats.hpp>
#include <sinew/tools/info/doctor/links/link_server.hpp>
#include <sinew/tools/info/doctor/links/link_speeds.hpp>
#include <sinew/tools/info/doctor/links/link_survey.hpp>
#include <sinew/tools/info/doctor/links/tournament.hpp>

#include "doctor_ways.hpp"

namespace sinew::doctor {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(DoctorTournament, LetsEveryTwoMeetOnce_AndNobodyTwiceInARound) {
  for (int players = 0; players <= 33; ++players) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < tournament_rounds(players); ++round) {
      int resting = 0;
      for (int p = 0; p < players; ++p) {
        const int other = tournament_partner(round, p, players);
        resting += other < 0 ? 1 : 0;
        if (other < 0) continue;
        ASSERT_TRUE(other != p && other < players) << players << " players, round " << round << ", player " << p;
        EXPECT_EQ(tournament_partner(round, other, players), p);
        if (p > other) continue;
        EXPECT_TRUE(met.emplace(p, other).second) << p << " and " << other << " meet again";
      }
      EXPECT_EQ(resting, players % 2);
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(players * (players - 1) / 2)) << players;
  }
}

TEST(DoctorSlowLinks, AreThoseFarFromTheMedianOfTheirNetwork) {
  auto results = mesh(3);
  results[0].bytes_per_s = 0.49e8;
  results[1].bytes_per_s = 0.51e8;
  results[2].round_trip_s = 5e-3;
  for (LinkResult& r : mesh(3, 2)) {
    if (r.link.from.interface != "eth1") continue;
    r.bytes_per_s = 1e6;  // another network: it may be made so
    results.push_back(r);
  }
  const auto slow = slow_links(results);
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].found, "49 MB/s measured once, the median of its network's 6 ways is 100 MB/s");
  EXPECT_EQ(slow[1].found, "a round trip takes 5 ms measured once, the median of its network's 6 ways is 50 us");
  results[0].bytes_per_s = 0.9996e6;
  EXPECT_THAT(slow_links(results)[0].found, HasSubstr("1 MB/s measured")) << "no 1e+03 kB/s";
}

TEST(DoctorTries, KeepTheBetter) {
  LinkResult kept = way(0, 1);
  LinkResult again = way(0, 1);
  again.bytes_per_s = 2e8;
  again.round_trip_s = 70e-6;
  add_try(kept, again);
  EXPECT_EQ(std::tie(kept.tries, kept.bytes_per_s, kept.round_trip_s), std::tuple(2, 2e8, 50e-6));
  break_way(again, 0, "closed");
  again.bytes_per_s = 0;
  again.round_trip_s = 0;
  add_try(kept, again);
  EXPECT_EQ(std::tie(kept.tries, kept.bytes_per_s, kept.round_trip_s), std::tuple(3, 2e8, 50e-6));
}

/// Repeats on as many ranks as hosts, and one more that only waits; `probe` answers for all. All ranks must end alike.
std::vector<LinkResult> repeated(const std::vector<LinkResult>& results, int hosts,
                                 const std::function<LinkResult(const LinkResult&)>& probe) {
  auto exchanges = thread_exchanges(hosts + 1, 30s);
  std::vector<std::vector<LinkResult>> ends(exchanges.size(), results);
  std::atomic<int> at_once = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank <= hosts; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      repeat_slow_links(exchanges[r], rank < hosts ? rank : -1, ends[r], [&](const LinkResult& slow) {
        EXPECT_EQ(slow.from_host, rank);
        EXPECT_EQ(++at_once, 1) << "each alone";
        std::this_thread::sleep_for(1ms);
        LinkResult again = probe(slow);
        --at_once;
        return again;
      });
    });
  }
  for (std::thread& t : ranks) t.join();
  for (const auto& end : ends) {
    for (std::size_t i = 0; i < end.size(); ++i) {
      EXPECT_EQ(std::tie(end[i].tries, end[i].bytes_per_s), std::tie(ends[0][i].tries, ends[0][i].bytes_per_s));
    }
  }
  return ends[0];
}

TEST(DoctorRepeats, ClearALinkThatOnlyLookedSlow_AndLeaveTheOthersAlone) {
  auto results = mesh(3);
  results[0].bytes_per_s = 1e7;
  ASSERT_EQ(slow_links(results).size(), 1u);
  std::atomic<int> probes = 0;
  const auto after = repeated(results, 3, [&](const LinkResult& slow) {
    LinkResult again = slow;
    again.tries = 1;
    again.bytes_per_s = ++probes == 2 ? 0.9e8 : 2e7;  // the core was taken again at first
    return again;
  });
  EXPECT_EQ(probes, 2) << "no more than it takes";
  EXPECT_TRUE(slow_links(after).empty());
  EXPECT_EQ(after[0].tries, 3);
  EXPECT_EQ(after[1].tries, 1);
  EXPECT_EQ(check_links(host_names(3), after)[0].severity, Severity::Fine);
}

TEST(DoctorRepeats, LeaveAWarningThatSaysHowOftenItWasTried_WhereTheLinkIsSlow) {
  auto results = mesh(3);
  results[0].bytes_per_s = 1e7;
  const auto after = repeated(results, 3, [](const LinkResult& slow) {
    LinkResult again = slow;
    again.tries = 1;
    return again;
  });
  const auto found = check_links(host_names(3), after);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_THAT(found[0].found, HasSubstr("10 MB/s at best of 4 tries, the median of its network's 6 ways is 100 MB/s"));
}

TEST(DoctorRepeats, AreBounded_HoweverManyLookSlow) {
  auto results = mesh(10);
  int slow = 0;
  for (LinkResult& r : results) {
    if (r.from_host >= 4) continue;
    r.bytes_per_s = 1e7;
    ++slow;
  }
  ASSERT_EQ(slow_links(results).size(), static_cast<std::size_t>(slow)) << "36 of 90";
  std::atomic<int> probes = 0;
  static_cast<void>(repeated(results, 10, [&](const LinkResult& again) {
    ++probes;
    return again;
  }));
  EXPECT_EQ(probes, 48);
}

/// Hosts that are threads, each with an address in 127.0.9.0/24 and a server.
class Hosts {
 public:
  explicit Hosts(int count) {
    for (int h = 0; h < count; ++h) {
      servers_.push_back(std::make_unique<LinkServer>(secret_, std::nullopt));
      HostRecord& record = records.emplace_back();
      record.addresses = {address("lo", fmt::format("127.0.9.{}", h + 1))};
      record.port = servers_.back()->port();
      record.claim = servers_.back()->claim();
    }
  }

  /// On a rank of each, and on one more that only waits; all must get the same.
  std::vector<LinkResult> survey() {
    const int hosts = static_cast<int>(records.size());
    auto exchanges = thread_exchanges(hosts + 1, 60s);
    std::vector<std::vector<LinkResult>> ends(exchanges.size());
    std::vector<std::thread> ranks;
    for (int rank = 0; rank <= hosts; ++rank) {
      ranks.emplace_back([&, rank] {
        Launch launch;
        launch.exchange = exchanges[static_cast<std::size_t>(rank)];
        launch.secret = secret_;
        ends[static_cast<std::size_t>(rank)] = survey_links(launch, rank < hosts ? rank : -1, records, [](int, int) {});
      });
    }
    for (std::thread& t : ranks) t.join();
    for (const auto& end : ends) EXPECT_EQ(end.size(), ends[0].size());
    return ends[0];
  }

  std::vector<HostRecord> records;

 private:
  const Bytes secret_ = random_secret();
  std::vector<std::unique_ptr<LinkServer>> servers_;
};

TEST(DoctorSurvey, TriesEveryTwoHosts_BothWays) {
  const auto results = Hosts(3).survey();
  std::set<std::pair<int, int>> ways;
  for (const LinkResult& r : results) {
    EXPECT_EQ(r.state, LinkState::Carries) << r.why;
    EXPECT_TRUE(ways.emplace(r.from_host, r.to_host).second);
    EXPECT_EQ(r.link.to.ip(), fmt::format("127.0.9.{}", r.to_host + 1));
  }
  EXPECT_EQ(ways.size(), 6u);
}

TEST(DoctorSurvey, FindsTheHostThatNobodyReaches) {
  Hosts hosts(3);
  ++hosts.records[1].claim.instance;
  auto found = check_links(host_names(3), hosts.survey());
  std::erase_if(found, [](const Finding& f) { return f.severity != Severity::Fails; });  // a busy machine's speeds
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].found, HasSubstr("n1 lo (127.0.9.2): none of its 2 ways from other hosts carries"));
}

TEST(DoctorSurvey, TriesTheAddressesOfAnOnlyHost) {
  Hosts alone(1);
  alone.records[0].addresses.push_back(address("lo", "127.0.8.1"));
  alone.records[0].addresses.push_back(address("eth0", "10.0.0.1"));
  alone.records[0].addresses.back().works = false;
  const auto results = alone.survey();
  ASSERT_EQ(results.size(), 2u) << "but for the one that is down";
  for (const LinkResult& r : results) EXPECT_EQ(r.state, LinkState::Carries) << r.why;
}

TEST(DoctorLinkResult, ArrivesAsItWasSent) {
  LinkResult sent{.from_host = 1, .to_host = 2};
  sent.link.from = {SocketAddress::parse("10.0.0.1:0"), 24, "eth0", 9000, true, false};
  sent.link.to = {SocketAddress::parse("[fd00::1]:0"), 64, "eth1", 1500, false, true};
  sent.link.routed = true;
  sent.state = LinkState::SmallOnly;
  sent.error = 7;
  sent.why = "so";
  sent.round_trip_s = 0.5;
  sent.bytes_per_s = 2.5;
  sent.tries = 3;
  sent.passing_bytes = 1400;
  WireWriter to;
  write(to, sent);
  Bytes bytes = to.take();
  WireReader from(bytes);
  const LinkResult got = read_link_result(from);
  EXPECT_EQ(got.link.from.text(), "eth0 (10.0.0.1)");
  EXPECT_EQ(got.link.to.text(), "eth1 ([fd00::1])");
  EXPECT_EQ(got.link.from.mtu_bytes, 9000u);
  EXPECT_EQ(got.link.to.prefix_bits, 64u);
  EXPECT_TRUE(got.link.routed && got.link.from.works && !got.link.to.works && got.link.to.loopback);
  EXPECT_EQ(got.state, LinkState::SmallOnly);
  EXPECT_EQ(std::tie(got.from_host, got.to_host, got.error, got.why, got.round_trip_s, got.bytes_per_s, got.tries,
                     got.passing_bytes),
            std::tie(sent.from_host, sent.to_host, sent.error, sent.why, sent.round_trip_s, sent.bytes_per_s,
                     sent.tries, sent.passing_bytes));
  bytes.pop_back();
  WireReader cut(bytes);
  EXPECT_THROW((void)read_link_result(cut), Error);
}

}  // namespace
}  // namespace sinew::doctor
