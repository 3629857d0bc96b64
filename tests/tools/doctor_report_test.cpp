#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sinew/tools/info/doctor/report.hpp>

#include "doctor_ways.hpp"

namespace sinew::doctor {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

Diagnosis diagnosis() {
  Diagnosis d{.ranks = 4,
              .hosts = host_names(2),
              .first_ranks = {0, 2},
              .findings = {},
              .links = {way(0, 1), way(1, 0), way(0, 1, 1)}};
  d.findings = {{Severity::Warns, "link", "no answer", "look", {"n0", "n1"}},
                {Severity::Fine, "memory", "1 GiB left", "", {"n0"}},
                {Severity::Fine, "memory", "2 GiB left", "", {"n1"}}};
  d.links[0].tries = 4;
  break_way(d.links[1], ETIMEDOUT, "Connection timed out");
  d.links[2].state = LinkState::SmallOnly;
  d.links[2].link.from.mtu_bytes = 0;
  d.links[2].passing_bytes = 1400;
  return d;
}

TEST(DoctorReport, HasEveryKeyOfALink_WhateverBecameOfIt) {
  const Json report = Json::parse(to_json(diagnosis()));
  const Json& carries = report.at("links").at(0);
  const Json& dead = report.at("links").at(1);
  const Json& small = report.at("links").at(2);
  EXPECT_EQ(carries.at("from"), "n0");
  EXPECT_EQ(carries.at("to_address"), "10.0.0.2");
  EXPECT_EQ(carries.at("tries"), 4);
  EXPECT_EQ(carries.at("bytes_per_s"), 1e8);
  EXPECT_EQ(carries.at("mtu_bytes"), 1500);
  EXPECT_EQ(carries.at("why"), "");
  EXPECT_EQ(dead.at("state"), "unreachable");
  EXPECT_EQ(dead.at("why"), "Connection timed out");
  EXPECT_TRUE(dead.at("round_trip_us").is_null());
  EXPECT_TRUE(dead.at("bytes_per_s").is_null());
  EXPECT_TRUE(dead.at("passing_bytes").is_null());
  EXPECT_EQ(small.at("state"), "small_only");
  EXPECT_EQ(small.at("passing_bytes"), 1400);
  EXPECT_DOUBLE_EQ(small.at("round_trip_us").get<double>(), 50);
  EXPECT_TRUE(small.at("bytes_per_s").is_null());
  EXPECT_TRUE(small.at("mtu_bytes").is_null()) << "unknown";
}

TEST(DoctorReport, IsOk_UnlessAFindingFails) {
  Diagnosis d = diagnosis();
  EXPECT_EQ(Json::parse(to_json(d)).at("ok"), true);
  EXPECT_EQ(Json::parse(to_json(d)).at("first_ranks"), Json({0, 2}));
  EXPECT_THAT(to_text(d), HasSubstr("\nok: 0 would fail a job, 1 would slow it, 2 are fine\n"));
  d.findings[0].severity = Severity::Fails;
  EXPECT_EQ(Json::parse(to_json(d)).at("ok"), false);
  EXPECT_THAT(to_text(d), HasSubstr("\nfails: 1 would fail a job, 0 would slow it, 2 are fine\n"));
}

TEST(DoctorReport, HasALineForEachFinding_AndOneForWhatIsFineEverywhere) {
  const std::string text = to_text(diagnosis());
  EXPECT_THAT(text, HasSubstr(": 4 ranks on n0, n1\n"));
  EXPECT_THAT(text, HasSubstr("\nwarns  link: no answer [n0, n1]\n       cure: look\n"));
  EXPECT_THAT(text, HasSubstr("\nok     memory: 1 GiB left [n0]\n"));
  EXPECT_THAT(text, Not(HasSubstr("2 GiB"))) << "the first speaks for all";
}

}  // namespace
}  // namespace sinew::doctor
