#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/protocols/slurm_nodes.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> nodes(const std::string& text) { return expand_nodes("LIST", text); }
std::vector<int> counts(const std::string& text) { return expand_counts("TASKS", text); }

/// The message of the Error{InvalidArgument} that `read` ends with.
template <class Read>
std::string complaint(const Read& read, const std::string& text) {
  try {
    read(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "no complaint";
}

TEST(SlurmNodes, AreReadInSlurmsOrder) {
  EXPECT_THAT(nodes("login2"), ElementsAre("login2"));
  EXPECT_THAT(
      nodes("gpu[01-03,07],login2,a[1-2]b[08-10]"),
      ElementsAre("gpu01", "gpu02", "gpu03", "gpu07", "login2", "a1b08", "a1b09", "a1b10", "a2b08", "a2b09", "a2b10"));
  EXPECT_THAT(nodes("r[1-2]-x.domain,y_0"), ElementsAre("r1-x.domain", "r2-x.domain", "y_0"));
}

TEST(SlurmNodes, KeepTheWidthOfARange) {
  EXPECT_THAT(nodes("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(nodes("n[008-11]"), ElementsAre("n008", "n009", "n010", "n011"));
  EXPECT_THAT(nodes("n[99-101]"), ElementsAre("n99", "n100", "n101"));
  EXPECT_THAT(nodes("n[0,00,000]"), ElementsAre("n0", "n00", "n000"));
  EXPECT_THAT(nodes("n[5-5]"), ElementsAre("n5"));
}

TEST(SlurmNodes, AreMany) {
  const auto all = nodes("n[00001-10000]");
  ASSERT_EQ(all.size(), 10000u);
  EXPECT_EQ(all.front(), "n00001");
  EXPECT_EQ(all.back(), "n10000");
  EXPECT_EQ(nodes("r[0-99]n[0-99]").size(), 10000u);
  EXPECT_EQ(nodes("n[1-65536]").size(), 65536u);
  // Nothing of such a list is made before it is refused.
  for (const char* text : {"n[1-65537]", "n[0-999999999]", "a[0-9999]b[0-9999]c[0-9999]", "n[1-65536],m"}) {
    EXPECT_THAT(complaint(nodes, text), HasSubstr("more than 65536 nodes")) << text;
  }
}

TEST(SlurmNodes, AreRefused_WithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "a node without a name"},
      {"a,,b", "a node without a name"},
      {"a,", "a node without a name"},
      {",a", "a node without a name"},
      {"a[1-3", "a bracket is not closed"},
      {"a[1,b", "a bracket is not closed"},
      {"a1]", "'a1]' is no part of a node's name"},
      {"a[1]]", "']' is no part of a node's name"},
      {"a[[1]]", "'[1' is neither a number nor a range"},
      {"a[]", "nothing where a number should be"},
      {"a[1,]", "nothing where a number should be"},
      {"a[,1]", "'' is neither a number nor a range"},
      {"a[3-1]", "the range 3-1 runs backwards"},
      {"a[1-]", "'1-' is neither a number nor a range"},
      {"a[-1]", "'-1' is neither a number nor a range"},
      {"a[1-2-3]", "'1-2-3' is neither a number nor a range"},
      {"a[x-y]", "'x-y' is neither a number nor a range"},
      {"a[1 -2]", "'1 -2' is neither a number nor a range"},
      {"a[1-9999999999]", "is neither a number nor a range"},
      {"a b", "'a b' is no part of a node's name"},
      {"a;reboot", "'a;reboot' is no part of a node's name"},
      {"-oProxyCommand=x", "'-oProxyCommand=x' is no node's name"},
  };
  for (const auto& [text, why] : cases) {
    const std::string said = complaint(nodes, text);
    EXPECT_THAT(said, StartsWith(fmt::format("LIST={}: ", text)));
    EXPECT_THAT(said, HasSubstr(why));
    EXPECT_THAT(said, HasSubstr("expected a list of nodes such as gpu[01-03,07],login2"));
  }
}

TEST(SlurmCounts, AreRepeated) {
  EXPECT_THAT(counts("2"), ElementsAre(2));
  EXPECT_THAT(counts("4(x3),2"), ElementsAre(4, 4, 4, 2));
  EXPECT_THAT(counts("1,2(x2),1(x1)"), ElementsAre(1, 2, 2, 1));
  EXPECT_EQ(counts("8(x10000)").size(), 10000u);
}

TEST(SlurmCounts, AreRefused_WithTheReason) {
  for (const char* text : {"", "4,"}) EXPECT_THAT(complaint(counts, text), HasSubstr("nothing where a number")) << text;
  for (const char* text :
       {"0", "x", "4(x0)", "4(x", "4(x3", "4(3)", "4(x3))", "(x3)", "-1", "4 ", ",4", "99999999999", "65537"}) {
    const std::string said = complaint(counts, text);
    EXPECT_THAT(said, StartsWith(fmt::format("TASKS={}: ", text)));
    EXPECT_THAT(said, HasSubstr("is not how many tasks; expected tasks of each node such as 4(x3),2"));
  }
  EXPECT_THAT(complaint(counts, "1(x999999999)"), HasSubstr("more than 65536 nodes"));
}

}  // namespace
}  // namespace sinew
