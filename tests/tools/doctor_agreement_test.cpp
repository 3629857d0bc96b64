#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/version.hpp>
#include <sinew/tools/info/doctor/records/agreement.hpp>
#include <sinew/tools/info/doctor/records/clocks.hpp>
#include <sinew/tools/info/doctor/records/host_report.hpp>

namespace sinew::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

/// Rounds on a host whose clock is `ahead_ns` ahead: it comes `early_ns` before the last rank and hears `late_ns`
/// after.
std::vector<ClockReading> rounds(std::int64_t ahead_ns, std::int64_t early_ns, std::int64_t late_ns) {
  std::vector<ClockReading> all;
  for (std::int64_t last = 1000 * kMs; last < 1004 * kMs; last += kMs) {
    all.push_back({last - early_ns + ahead_ns, last + late_ns + ahead_ns});
  }
  return all;
}

TEST(DoctorClocks, BoundTheOffset_WhoeverComesLate) {
  for (const std::int64_t ahead : {-5000 * kMs, -kMs, std::int64_t{0}, 250 * kMs}) {
    for (const std::int64_t early : {std::int64_t{0}, 3 * kMs}) {
      const auto offset = offset_of(rounds(ahead, early, kMs), rounds(0, kMs, 2 * kMs));
      ASSERT_TRUE(offset.has_value());
      EXPECT_LE(std::abs(offset->seconds - static_cast<double>(ahead) * 1e-9), offset->error_s + 1e-12);
      EXPECT_LE(offset->error_s, 3.6e-3) << "half of both intervals";
    }
  }
}

TEST(DoctorClocks, KnowNoOffset_WhereOneWasSetMeanwhile) {
  auto other = rounds(0, kMs, kMs);
  other.back().before_ns += 3600 * 1000 * kMs;
  other.back().after_ns += 3600 * 1000 * kMs;
  EXPECT_FALSE(offset_of(other, rounds(0, kMs, kMs)).has_value());
}

TEST(DoctorClocks, Warn_WhereTheyAreSurelyApart) {
  const std::vector<std::string> hosts{"n0", "n1", "n2", "n3"};
  const std::vector<std::vector<ClockReading>> readings{rounds(0, kMs, kMs), rounds(-3000 * kMs, kMs, kMs),
                                                        rounds(50 * kMs, kMs, kMs),
                                                        rounds(2000 * kMs, 4000 * kMs, kMs)};
  const auto found = check_clocks(readings, hosts);
  ASSERT_EQ(found.size(), 1u) << "n2 is not far off, and of n3 nothing is sure";
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_THAT(found[0].found, HasSubstr("3 s behind that of n0"));
  EXPECT_THAT(found[0].hosts, ElementsAre("n1"));
  EXPECT_EQ(check_clocks(std::span(readings).first(1), hosts).size(), 0u) << "one host has nothing to compare";
}

TEST(DoctorClocks, AreReadTogether) {
  auto exchanges = thread_exchanges(2, std::chrono::seconds(30));
  std::vector<ClockReading> other;
  std::thread second([&] { other = read_clocks(exchanges[1], realtime_now); });
  const auto mine = read_clocks(exchanges[0], realtime_now);
  second.join();
  const auto offset = offset_of(other, mine);
  ASSERT_TRUE(offset.has_value()) << "it is one clock";
  EXPECT_LE(std::abs(offset->seconds), offset->error_s);
}

std::vector<RankRecord> two_ranks() {
  RankRecord rank{.version = "1.0.0", .build = "abc", .place = {}, .host_name = "n0", .memory = {}, .settings = {}};
  for (const char* name : {"SINEW_TUNE", "SINEW_TRANSPORTS", "SINEW_LOG"}) rank.settings.push_back({name, ""});
  std::vector<RankRecord> both{rank, rank};
  both[1].host_name = "n1";
  return both;
}

TEST(DoctorAgreement, Fails_WhereVersionsDiffer) {
  auto ranks = two_ranks();
  EXPECT_EQ(check_versions(ranks)[0].severity, Severity::Fine);
  ranks[1].build = "abd";
  EXPECT_EQ(check_versions(ranks)[0].severity, Severity::Warns);
  ranks[1] = {.version = "1.1.0", .build = "", .place = {}, .host_name = "", .memory = {}, .settings = {}};
  const auto found = check_versions(ranks);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_EQ(found[0].found, "rank 0 on n0 has 1.0.0, rank 1 has 1.1.0");
}

TEST(DoctorAgreement, ReadsNoMoreThanTheVersion_OfAnotherVersionsRecord) {
  RankRecord mine = record_of_this_rank({});
  EXPECT_EQ(mine.version, version());
  EXPECT_EQ(rank_record_from(to_bytes(mine)).place, mine.place);
  EXPECT_EQ(rank_record_from(to_bytes(mine)).settings.size(), mine.settings.size());
  EXPECT_EQ(rank_record_from(WireWriter().text("9.9.9").text("whatever").take()).version, "9.9.9");
}

TEST(DoctorAgreement, TellsVariablesThatMustAgreeFromThoseThatShould) {
  auto ranks = two_ranks();
  EXPECT_EQ(check_settings(ranks)[0].severity, Severity::Fine);
  ranks[1].settings[2].value = "debug";
  EXPECT_EQ(check_settings(ranks)[0].severity, Severity::Fine) << "everyone logs as he likes";
  ranks[1].settings[1].value = "tcp";
  EXPECT_EQ(check_settings(ranks)[0].severity, Severity::Warns);
  ranks[1].settings[0].value = "all_reduce:0-1KiB:ring";
  const auto found = check_settings(ranks);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_EQ(found[0].found, "SINEW_TUNE differs: rank 0 on n0 has none, rank 1 on n1 has all_reduce:0-1KiB:ring");
  EXPECT_THAT(found[0].cure, HasSubstr("-x SINEW_TUNE"));
}

TEST(DoctorAgreement, WarnsOfTransportsThatAHostLacks) {
  std::vector<HostRecord> hosts(2);
  hosts[0].modules = {{"tcp", true, ""}, {"ucx", true, ""}, {"nccl", false, "no device"}, {"mine", true, ""}};
  hosts[1].modules = {{"tcp", true, ""}, {"ucx", false, "libucp.so.0: cannot open"}, {"nccl", false, "no device"}};
  const std::vector<std::string> names{"n0", "n1"};
  const auto found = check_modules(hosts, names);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].found, "ucx is on other hosts, not here: libucp.so.0: cannot open");
  EXPECT_THAT(found[0].hosts, ElementsAre("n1"));
  EXPECT_EQ(found[1].found, "mine is on other hosts, not here: no such module");
  const Finding fine = check_modules(std::span(hosts).first(1), std::span(names).first(1))[0];
  EXPECT_EQ(fine.severity, Severity::Fine);
  EXPECT_THAT(fine.found, testing::StartsWith("modules that can be loaded: tcp, ucx, mine; ")) << "it asserts no more";
}

TEST(DoctorHostReport, ArrivesAsItWasSent) {
  HostReport report;
  report.findings = {{Severity::Warns, "a", "b", "c", {"d", "e"}}};
  report.clocks = {{1, 2}, {3, 4}};
  const HostReport there = host_report_from(to_bytes(report));
  EXPECT_EQ(there.findings, report.findings);
  EXPECT_EQ(there.clocks, report.clocks);
  Bytes cut = to_bytes(report);
  cut.pop_back();
  EXPECT_THROW((void)host_report_from(cut), Error);
}

}  // namespace
}  // namespace sinew::doctor
