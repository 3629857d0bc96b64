#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/selector.hpp>
#include <sinew/core/error.hpp>

#include "fakes/fixed_offload.hpp"
#include "selector_facts.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SelectorOfOffloads, AsksAnOffloadForTheSourceOfItsNumbers_UnlessTheyWereMeasured) {
  class FromTheCatalog : public FixedOffload {
   public:
    using FixedOffload::FixedOffload;
    CostSource source() const noexcept override { return CostSource::Catalog; }
  };
  Facts facts = one_host(2, 2);
  std::vector<NamedOffload> offloads;
  offloads.push_back({"host", std::make_unique<FromTheCatalog>(1e-9)});
  const auto source = [&] { return Selector(facts, ranks_of(facts), offloads).select(sum_of(2)).plan.chosen().source; };
  EXPECT_EQ(source(), CostSource::Catalog);
  facts.measured_offloads = {"host"};
  EXPECT_EQ(source(), CostSource::Measured);
}

TEST(SelectorOfOffloads, TakesTheOffload_WhenItIsFasterOrAsFastAsPredictionsTell) {
  const Facts facts = one_host(2, 2);
  const Seconds exchange = Selector(facts, ranks_of(facts), {}).select(sum_of(2)).plan.chosen().predicted;
  EXPECT_EQ(chosen(facts, sum_of(2), exchange / 2).algorithm, "fixed");
  EXPECT_EQ(chosen(facts, sum_of(2), exchange * 1.1).algorithm, "fixed");
  EXPECT_EQ(chosen(facts, sum_of(2), exchange * 1.3).algorithm, "direct");
}

TEST(SelectorOfOffloads, TakesTheOffloadThatNeedsNoProgress_OfTwoThatPredictionsDoNotTellApart) {
  class Alone : public FixedOffload {
   public:
    using FixedOffload::FixedOffload;
    std::string_view name() const noexcept override { return "alone"; }
    bool needs_progress() const noexcept override { return false; }
  };
  const Facts facts = one_host(2, 2);
  const auto chosen_with = [&](Seconds alone) {
    std::vector<NamedOffload> offloads;
    offloads.push_back({"a", std::make_unique<FixedOffload>(1e-9)});
    offloads.push_back({"b", std::make_unique<Alone>(alone)});
    return Selector(facts, ranks_of(facts), offloads).select(sum_of(2)).plan.chosen().algorithm;
  };
  EXPECT_EQ(chosen_with(1.1e-9), "alone");
  EXPECT_EQ(chosen_with(1.3e-9), "fixed");
}

TEST(SelectorOfOffloads, KeepsTheOrderOfTheLosers_WhenTheOffloadWinsATie) {
  const Facts facts = one_host(2, 2);
  const Seconds exchange = Selector(facts, ranks_of(facts), {}).select(sum_of(2)).plan.chosen().predicted;
  std::vector<NamedOffload> offloads;
  offloads.push_back({"host", std::make_unique<FixedOffload>(exchange * 1.1)});
  const Plan plan = Selector(facts, ranks_of(facts), offloads).select(sum_of(2)).plan;
  Seconds before = 0;
  for (std::size_t i = 1; i < plan.candidates().size() && plan.candidates()[i].rejected.empty(); ++i) {
    EXPECT_GE(plan.candidates()[i].predicted, before);
    before = plan.candidates()[i].predicted;
  }
  EXPECT_THAT(plan.explain(), HasSubstr("predicted as fast as the best, within what predictions tell"));
}

TEST(SelectorOfOffloads, ShowsWhyAnOffloadIsNoCandidate) {
  const Facts facts = one_host(2, 2);
  std::vector<NamedOffload> offloads;
  offloads.push_back({"host", std::make_unique<FixedOffload>(0, "it is Sunday")});
  const Plan plan = Selector(facts, ranks_of(facts), offloads).select(sum_of(2)).plan;
  EXPECT_EQ(plan.chosen().algorithm, "direct");
  EXPECT_THAT(plan.explain(), HasSubstr("it is Sunday"));
}

/// Can be captured, and predicts that its calls take long.
class SlowInGraphs : public FixedOffload {
 public:
  SlowInGraphs() : FixedOffload(1.0) {}
  Availability supports_capture() const override { return Availability::yes(); }
};

TEST(SelectorOfOffloads, TakesWhatCanBeCaptured_ForACapturedCall) {
  const Facts facts = one_host(2, 2);
  std::vector<NamedOffload> offloads;
  offloads.push_back({"fast", std::make_unique<FixedOffload>(1e-9)});
  offloads.push_back({"slow", std::make_unique<SlowInGraphs>()});
  const Selector selector(facts, ranks_of(facts), offloads);
  CollectiveDesc desc = sum_of(4);
  desc.place = {MemoryKind::Device, 0};
  EXPECT_EQ(selector.select(desc).plan.chosen().transport, "fast");
  desc.captured = true;
  EXPECT_EQ(selector.select(desc).plan.chosen().transport, "slow");
}

TEST(SelectorOfOffloads, RefusesACapturedCall_WithTheReasonOfEachWay) {
  const Facts facts = one_host(2, 2);
  std::vector<NamedOffload> offloads;
  offloads.push_back({"host", std::make_unique<FixedOffload>(1e-9)});
  CollectiveDesc desc = sum_of(4);
  desc.place = {MemoryKind::Device, 0};
  desc.captured = true;
  try {
    static_cast<void>(Selector(facts, ranks_of(facts), offloads).select(desc));
    FAIL() << "it was planned";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("fixed@host: the host takes part in each of its calls"),
                                HasSubstr("staged@*: the host copies each piece"),
                                HasSubstr("make the call before or after the capture")));
  }
}

}  // namespace
}  // namespace sinew::test
