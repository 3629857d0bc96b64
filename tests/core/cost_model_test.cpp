#include <gtest/gtest.h>

#include <sinew/core/call/cost_model.hpp>

namespace sinew {
namespace {

/// A link that takes 3 us to begin. It moves 1 GB/s for messages up to 1000 bytes, and 2 GB/s from 100,000 bytes on.
class OneLink final : public CostModel {
 public:
  explicit OneLink(bool leaves_host = false) {
    link_.alone = {.overhead_s = 1e-6, .latency_s = 2e-6, .knots = {{1000, 1e9}, {100'000, 2e9}}};
    link_.leaves_host = leaves_host;
  }
  OneLink(std::initializer_list<Passage> passes) : OneLink() { link_.passes = passes; }

  LinkCost link(int /*from*/, int /*to*/) const override { return link_; }
  Rate rate(LocalStep step, int /*rank*/, DType /*dtype*/) const override {
    return step == LocalStep::Copy ? Rate{8e9, CostSource::Measured} : Rate{};
  }
  CostSource source() const override { return CostSource::Measured; }

 private:
  LinkCost link_;
};

TEST(CostModel, GivesTheTimeOfTheCurve_ForAMessageAlone) {
  const OneLink model;
  for (const double bytes : {1.0, 500.0, 1000.0, 30'000.0, 1e6}) {
    const TransferCost cost = model.transfer({.to = 1, .bytes = bytes});
    EXPECT_DOUBLE_EQ(cost.start_s, 3e-6);
    EXPECT_DOUBLE_EQ(cost.seconds(bytes), model.link(0, 1).alone.seconds(bytes)) << bytes;
  }
  EXPECT_EQ(model.transfer({.to = 1}).per_byte_s, 0) << "a message of no bytes";
}

TEST(CostModel, MovesSegmentsNoFasterThanTheWholeMessage) {
  // Short messages come from a cache and are faster.
  class FastWhenShort final : public CostModel {
   public:
    LinkCost link(int /*from*/, int /*to*/) const override {
      return {.alone = {.knots = {{1000, 4e9}, {100'000, 1e9}}}};
    }
    Rate rate(LocalStep /*step*/, int /*rank*/, DType /*dtype*/) const override { return {}; }
    CostSource source() const override { return CostSource::Default; }
  };
  const FastWhenShort model;
  EXPECT_DOUBLE_EQ(model.transfer({.to = 1, .bytes = 1000}).per_byte_s, 1 / 4e9);
  EXPECT_DOUBLE_EQ(model.transfer({.to = 1, .bytes = 100'000, .segments = 100}).per_byte_s, 1 / 1e9);
}

TEST(CostModel, LetsRanksTakeTurnsOnACore_ButNotBetweenHosts) {
  const Sharers crowded = Sharers().set(Resource::Core, 4);
  const Transfer what{.to = 1, .bytes = 1000, .sharers = crowded};
  const TransferCost inside = OneLink(false).transfer(what), across = OneLink(true).transfer(what);
  EXPECT_DOUBLE_EQ(inside.start_s, 4 * 3e-6);
  EXPECT_DOUBLE_EQ(inside.per_byte_s, 4 / 1e9);
  EXPECT_DOUBLE_EQ(across.start_s, 4 * 3e-6);
  EXPECT_DOUBLE_EQ(across.per_byte_s, 1 / 1e9);
}

TEST(CostModel, StartsShortMessagesSooner_WhereTheyGoOneWay) {
  const OneLink model;
  const TransferCost both = model.transfer({.to = 1, .bytes = 1000});
  const TransferCost one_way = model.transfer({.to = 1, .bytes = 1000, .one_way = true});
  EXPECT_LT(one_way.start_s, both.start_s);
  EXPECT_LT(one_way.per_byte_s, both.per_byte_s);
  EXPECT_EQ(model.transfer({.to = 1, .bytes = 1e6, .one_way = true}).start_s, both.start_s) << "it waits for a receive";
}

TEST(CostModel, GoesByTheResourceThatGivesLeastToEach) {
  const OneLink model{{Resource::Memory, 100e9}, {Resource::Nic, 50e9}, {Resource::Leaf, 40e9}};
  const auto per_byte = [&](Sharers sharers) {
    return model.transfer({.to = 1, .bytes = 1e6, .sharers = sharers}).per_byte_s;
  };
  EXPECT_DOUBLE_EQ(per_byte({}), 1 / 40e9);
  EXPECT_DOUBLE_EQ(per_byte(Sharers().set(Resource::Nic, 8)), 8 / 50e9);
  EXPECT_DOUBLE_EQ(per_byte(Sharers().set(Resource::Leaf, 0)), 1 / 50e9) << "0: it does not limit";
  EXPECT_DOUBLE_EQ(per_byte(Sharers().set(Resource::Memory, 8).set(Resource::Nic, 2)), 8 / 100e9);
}

TEST(CostModel, TakesNoTimeForWorkOfNoRate) {
  const OneLink model;
  EXPECT_DOUBLE_EQ(model.local_s({.step = LocalStep::Copy, .bytes = 8e9}), 1);
  EXPECT_EQ(model.local_s({.step = LocalStep::Reduce, .bytes = 8e9}), 0);
  EXPECT_EQ(model.local_s({.step = LocalStep::Reduce, .bytes = 0}), 0);
  EXPECT_EQ(model.call_s(MemoryKind::Host), 0);
  EXPECT_GT(model.call_s(MemoryKind::Device), 0);
}

TEST(CostModel, SaysWhereNumbersComeFrom_TheTrustedFirst) {
  EXPECT_LT(CostSource::TunedFile, CostSource::Measured);
  EXPECT_LT(CostSource::Measured, CostSource::Catalog);
  EXPECT_LT(CostSource::Catalog, CostSource::Default);
  EXPECT_EQ(name_of(CostSource::TunedFile), "tuned file");
  EXPECT_EQ(name_of(CostSource::Default), "default");
}

}  // namespace
}  // namespace sinew
