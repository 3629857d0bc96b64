#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/nccl/nccl_xml.hpp>

#include "unsaid.hpp"

namespace sinew::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::EndsWith;
using testing::IsEmpty;

Machine read_nccl(const std::string& xml) { return machine_from_nccl_xml(xml, "box.xml"); }

/// The files of tests/topology/data/nccl, in the forms of several versions of NCCL and RCCL, and those that hold only
/// what nobody writes.
class NcclFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const auto& entry : fs::directory_iterator(TOPOLOGY_DATA "/nccl")) {
      const std::string name = entry.path().filename().string();
      if (name == "nccl_graphs.xml") continue;
      std::ifstream in(entry.path());
      files_[name] = {std::istreambuf_iterator<char>(in), {}};
      collect_values(files_[name], values_);
    }
  }

  static inline std::map<std::string, std::string> files_;
  static inline AttributeValues values_;
};

TEST_F(NcclFiles, LoseNothingUnsaid) {
  ASSERT_GE(files_.size(), 10u);
  for (const auto& [name, xml] : files_) {
    SCOPED_TRACE(name);
    const Account account = account_of(xml, values_, read_nccl);
    EXPECT_THAT(account.unsaid, IsEmpty());
    EXPECT_EQ(account.in_model + account.listed, account.parts);
    EXPECT_GT(account.in_model, 0);
    std::printf("%-24s %3d parts: %3d in the model, %3d listed\n", name.c_str(), account.parts, account.in_model,
                account.listed);
  }
}

/// What finds nothing above finds what a reader keeps to itself.
TEST_F(NcclFiles, AreMissed_WhereAReaderHasNoListOrPassesOverElements) {
  const auto without_list = [](const std::string& xml) {
    Machine machine = read_nccl(xml);
    machine.ignored.clear();
    return machine;
  };
  const auto by_hand = account_of(files_.at("nccl_by_hand.xml"), values_, without_list).unsaid;
  EXPECT_THAT(by_hand, Contains(EndsWith("attribute slot of <pci>")));
  EXPECT_THAT(by_hand, Contains(EndsWith("<retimer>")));
  EXPECT_THAT(by_hand, Contains(EndsWith("text in <cpu>")));
  EXPECT_THAT(account_of(files_.at("nccl_2.8_v100.xml"), values_, without_list).unsaid,
              Contains(EndsWith("attribute gdr of <net>")));
  const auto without_xgmi = [](std::string xml) {
    for (std::size_t at = 0; (at = xml.find("<xgmi", at)) != std::string::npos;)
      xml.erase(at, xml.find("/>", at) + 2 - at);
    return read_nccl(xml);
  };
  EXPECT_THAT(account_of(files_.at("rccl_6_mi250.xml"), values_, without_xgmi).unsaid,
              Contains(EndsWith("attribute count of <xgmi>")));
}

TEST_F(NcclFiles, ComeBackEqualThroughJson_WithWhatIsNotInTheModel) {
  for (const auto& [name, xml] : files_) {
    SCOPED_TRACE(name);
    const Machine machine = read_nccl(xml);
    EXPECT_EQ(machine.ignored.empty(), false);
    EXPECT_EQ(machine_from_json(to_json(machine)), machine);
    EXPECT_EQ(machine_from_json(to_json(machine), "again.json"), machine);
  }
}

/// Only what was written by hand has something that the reader does not know.
TEST_F(NcclFiles, AreKnownToTheirLastAttribute_WhereNcclOrRcclWritesThem) {
  for (const auto& [name, xml] : files_) {
    if (name == "nccl_by_hand.xml") continue;
    const Machine machine = read_nccl(xml);
    EXPECT_THAT(machine.ignored, testing::Each(testing::Field(&Ignored::known, true))) << name;
  }
}

}  // namespace
}  // namespace sinew::test
