#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/json.hpp>

#include "sample_machine.hpp"

namespace sinew {
namespace {

using test::sample_machine;

std::string message_of(std::string_view text) {
  try {
    (void)machine_from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no error";
}

/// The sample's JSON with one occurrence of `from` replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text = to_json(sample_machine(), -1);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TopologyJson, ComesBackEqual) {
  const Machine sample = sample_machine();
  EXPECT_EQ(machine_from_json(to_json(sample)), sample);
  EXPECT_EQ(machine_from_json(to_json(sample, -1)), sample);
  const Machine here = discover(Config{});
  EXPECT_EQ(machine_from_json(to_json(here)), here);
}

TEST(TopologyJson, KeepsClusters) {
  const Cluster cluster{{sample_machine("a/1"), sample_machine("b/2")}, {{0, 0, 4}, {1, -1, 4}, {0, 1, 4}}};
  EXPECT_EQ(cluster_from_json(to_json(cluster)), cluster);
}

TEST(TopologyJson, NamesUnknownFiguresNull) {
  EXPECT_THAT(to_json(sample_machine(), -1), testing::HasSubstr(R"({"value":null,"source":"loopback is no wire"})"));
}

TEST(TopologyJson, SaysWhereItIsWrong) {
  EXPECT_THAT(message_of("{\"format\": "), testing::StartsWith("not JSON: line 1, column 12"));
  EXPECT_EQ(message_of("[]"), "top level: expected an object, found array");
  EXPECT_EQ(message_of("{}"), "top level: expected a member \"format\"");
  EXPECT_EQ(message_of(R"({"format":"sinew machine 2"})"),
            "format: expected \"sinew machine 1\", found \"sinew machine 2\"");
  EXPECT_EQ(message_of(edited(R"("usable_cores":4)", R"("usable_cores":"4")")),
            "usable_cores: expected an integer from -2147483648 to 2147483647, found \"4\"");
  EXPECT_EQ(message_of(edited(R"("memory_bytes":)", R"("memory_bytes":-)")).substr(0, 12), "memory_bytes");
  EXPECT_EQ(message_of(edited(R"("vendor_id":4318)", R"("vendor_id":70000)")),
            "pci_devices[1].vendor_id: expected an integer from 0 to 65535, found 70000");
  EXPECT_EQ(message_of(edited(R"("kind":"InfiniBand")", R"("kind":"Infiniband")")),
            "nics[1].kind: expected one of Ethernet InfiniBand RoCE other, found \"Infiniband\"");
  EXPECT_EQ(message_of(edited(R"({"value":null)", R"({"value":true)")),
            "nics[0].bytes_per_s.value: expected a number or null, found true");
  EXPECT_EQ(message_of(edited(R"("loopback":true)", R"("loopback":1)")),
            "nics[0].loopback: expected true or false, found 1");
  EXPECT_EQ(message_of(edited(R"("unseen":[)", R"("unseenn":[)")), "top level: expected a member \"unseen\"");
  EXPECT_EQ(message_of(edited(R"("gpus":[{)", R"("gpus":[3,{)")), "gpus[0]: expected an object, found 3");
}

TEST(TopologyJson, RejectsARankOnNoHost) {
  try {
    (void)cluster_from_json(to_json(Cluster{{sample_machine("a/1")}, {{0, 0, 4}, {1, 0, 4}}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "ranks[1].host: expected an index of \"hosts\", which has 1, found 1");
  }
}

}  // namespace
}  // namespace sinew
