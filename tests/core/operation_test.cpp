#include <gtest/gtest.h>

#include <sinew/core/operation.hpp>

namespace sinew {
namespace {

TEST(FinishedOperations, FiresNextTimeWhatAContinuationAdds) {
  struct Chain : Completion {
    Chain() : Completion([](Completion& c) noexcept { static_cast<Chain&>(c).again(); }) {}
    void again() noexcept {
      if (++fired < 3) list->add(*this, {});
    }
    FinishedOperations* list = nullptr;
    int fired = 0;
  } chain;
  FinishedOperations list;
  chain.list = &list;
  list.add(chain, {});
  EXPECT_EQ(list.fire(), 1);
  EXPECT_EQ(chain.fired, 1);
  EXPECT_EQ(list.fire() + list.fire() + list.fire(), 2);
}

}  // namespace
}  // namespace sinew
