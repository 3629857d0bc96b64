#include <gtest/gtest.h>

#include <sinew/core/transport/credit_window.hpp>

namespace sinew {
namespace {

TEST(CreditWindow, RefusesWhatIsNotCovered) {
  CreditWindow window(1000);
  EXPECT_FALSE(window.take(1000)) << "a message costs its charge beside its bytes";
  EXPECT_TRUE(window.take(500));
  EXPECT_FALSE(window.take(500));
  window.give(CreditWindow::charge_for(500));
  EXPECT_TRUE(window.take(1000 - CreditWindow::kMessageCharge));
  EXPECT_FALSE(window.take(0)) << "empty messages are bounded too";
}

}  // namespace
}  // namespace sinew
