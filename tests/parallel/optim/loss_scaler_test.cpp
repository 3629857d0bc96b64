#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>

namespace sinew::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string complaint_of(const LossScalerOptions& options) {
  try {
    const LossScaler scaler(options);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
}

TEST(LossScaler, BeginsWithTheNumbersOfGradScaler) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  for (int step = 1; step < 2000; ++step) {
    ASSERT_EQ(scaler.unscale(1), 1.0 / 65536);
    ASSERT_EQ(scaler.scale(), 65536) << step;
  }
  EXPECT_EQ(scaler.unscale(1), 1.0 / 65536) << "the factor of the step that ends, not of the next one";
  EXPECT_EQ(scaler.scale(), 131072);
  EXPECT_EQ(scaler.change(), 2);
  EXPECT_EQ(scaler.unscale(kInfinite), std::nullopt);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.change(), 0.5);
}

TEST(LossScaler, SkipsWhatIsNoNumber_AndCountsGoodStepsAnew) {
  LossScaler scaler({.initial = 64, .growth = 4, .backoff = 0.25, .growth_interval = 3});
  EXPECT_TRUE(scaler.unscale(0));
  EXPECT_TRUE(scaler.unscale(1e308));
  EXPECT_EQ(scaler.unscale(kNaN), std::nullopt);
  EXPECT_EQ(scaler.state(), (LossScaleState{16, 0, 1}));
  EXPECT_EQ(scaler.unscale(3), 1.0 / 16);
  EXPECT_TRUE(scaler.unscale(3));
  EXPECT_EQ(scaler.state(), (LossScaleState{16, 2, 1})) << "two of three since the overflow";
  EXPECT_EQ(scaler.change(), 1);
  EXPECT_TRUE(scaler.unscale(3));
  EXPECT_EQ(scaler.state(), (LossScaleState{64, 0, 1}));
}

TEST(LossScaler, StaysWithinItsLimits) {
  LossScaler scaler({.initial = 4, .growth_interval = 1, .least = 3, .most = 10});
  EXPECT_FALSE(scaler.is_lowest());
  EXPECT_FALSE(scaler.unscale(kInfinite));
  EXPECT_EQ(scaler.scale(), 3);
  EXPECT_EQ(scaler.change(), 0.75);
  EXPECT_TRUE(scaler.is_lowest());
  EXPECT_FALSE(scaler.unscale(kInfinite));
  EXPECT_EQ(scaler.scale(), 3);
  EXPECT_EQ(scaler.state().skipped_steps, 2);
  EXPECT_TRUE(scaler.unscale(1));
  EXPECT_EQ(scaler.scale(), 6);
  EXPECT_TRUE(scaler.unscale(1));
  EXPECT_EQ(scaler.scale(), 10);
  EXPECT_TRUE(scaler.unscale(1));
  EXPECT_EQ(scaler.scale(), 10);
  EXPECT_EQ(scaler.change(), 1);
}

TEST(LossScaler, KeepsAFixedScale_AndSkipsAllTheSame) {
  LossScaler scaler({.initial = 1000, .growth_interval = 1, .is_fixed = true});
  EXPECT_EQ(scaler.unscale(1), 1e-3);
  EXPECT_EQ(scaler.scale(), 1000);
  EXPECT_EQ(scaler.unscale(kNaN), std::nullopt);
  EXPECT_EQ(scaler.scale(), 1000);
  EXPECT_EQ(scaler.state().skipped_steps, 1);
  EXPECT_TRUE(scaler.is_lowest());
}

TEST(LossScaler, RefusesANormBelowZero_AndChangesNothing) {
  LossScaler scaler({.growth_interval = 1});
  for (const double norm : {-1.0, -kInfinite}) EXPECT_THROW((void)scaler.unscale(norm), Error);
  EXPECT_EQ(scaler.state(), (LossScaleState{65536, 0, 0}));
}

TEST(LossScaler, SaysAllThatIsWrongWithItsOptions) {
  EXPECT_EQ(complaint_of({}), "");
  EXPECT_THAT(complaint_of({.initial = 0, .growth = 1, .backoff = 1, .growth_interval = 0, .least = 0, .most = kNaN}),
              AllOf(HasSubstr("loss scaler: initial 0: expected a finite number above 0"),
                    HasSubstr("growth 1: expected a finite number above 1"),
                    HasSubstr("backoff 1: expected a number above 0 and below 1"),
                    HasSubstr("growth_interval 0: expected 1 step or more"),
                    HasSubstr("least 0: expected a finite number above 0"),
                    HasSubstr("most nan: expected a finite number above 0")));
  EXPECT_THAT(complaint_of({.initial = 2, .least = 4, .most = 8}),
              HasSubstr("initial 2: expected a number from least 4 to most 8"));
  EXPECT_THAT(complaint_of({.initial = kInfinite, .growth = 0, .is_fixed = true}),
              AllOf(HasSubstr("initial inf"), Not(HasSubstr("growth"))));
  EXPECT_EQ(complaint_of({.initial = 0.5, .growth = 0, .is_fixed = true}), "") << "limits are for scales that change";
}

TEST(LossScaler, GoesOnFromAState) {
  const LossScalerOptions options{.initial = 64, .growth_interval = 3, .most = 1024};
  LossScaler before(options), after(options), fixed({.initial = 8, .is_fixed = true});
  for (const double norm : {kInfinite, 1.0, 1.0}) (void)before.unscale(norm);
  after.restore(before.state());
  for (LossScaler* scaler : {&before, &after}) {
    EXPECT_EQ(scaler->unscale(1), 1.0 / 32);
    EXPECT_EQ(scaler->state(), (LossScaleState{64, 0, 1}));
  }
  after.restore({1e6, 1, 7});
  EXPECT_EQ(after.state(), (LossScaleState{1024, 1, 7}));
  EXPECT_EQ(after.change(), 1);
  after.restore({1e-6, 0, 0});
  EXPECT_EQ(after.scale(), 1);
  fixed.restore({1024, 5, 6});
  EXPECT_EQ(fixed.state(), (LossScaleState{8, 5, 6}));
}

TEST(LossScaler, RefusesAStateThatCannotBe) {
  LossScaler scaler;
  const LossScaleState before = scaler.state();
  for (const LossScaleState& wrong :
       {LossScaleState{0, 0, 0}, LossScaleState{kNaN, 0, 0}, LossScaleState{2, -1, 0}, LossScaleState{2, 0, -1}}) {
    EXPECT_THROW(scaler.restore(wrong), Error);
    EXPECT_EQ(scaler.state(), before);
  }
}

}  // namespace
}  // namespace sinew::parallel
