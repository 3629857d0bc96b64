// Messages that a transport takes from the device itself are only kept until their stream has come so far.
#include <atomic>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/staging/messages.hpp>

#include "fakes/fake_device.hpp"
#include "support/counted_end.hpp"

namespace sinew::test {
namespace {

class DirectMessages : public testing::Test {
 protected:
  DirectMessages() {
    fake::enqueue(stream_.stream, [open = open_] { return open->load(); });
  }
  ~DirectMessages() override {
    open_->store(true);
    device_.release(stream_);
  }
  /// Posts number `n`, when it is its turn.
  auto launch(int n) {
    return [this, n] { posted_.push_back(n); };
  }
  template <class F>
  void progress_until(F holds) {
    while (!holds()) static_cast<void>(messages_.progress());
  }

  fake::Device device_;
  StreamRef stream_ = device_.make_stream(0);
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
  StagedMessages messages_{device_, 0};
  std::vector<int> posted_;
  CountedEnd ends_[4];
};

TEST_F(DirectMessages, LeaveInOrder_WhenTheirStreamHasComeSoFar) {
  EXPECT_FALSE(messages_.must_queue(true) || messages_.must_queue(false));
  messages_.queue(true, stream_, launch(1), ends_[0]);
  EXPECT_TRUE(messages_.must_queue(true));
  EXPECT_FALSE(messages_.must_queue(false)) << "a receive overtakes sends";
  messages_.queue(true, {}, launch(2), ends_[1]);
  messages_.queue(false, stream_, launch(3), ends_[2]);
  EXPECT_TRUE(messages_.must_queue(false));
  for (int turn = 0; turn < 100; ++turn) EXPECT_EQ(messages_.progress(), 0) << "the stream stands";
  EXPECT_TRUE(posted_.empty());
  EXPECT_FALSE(messages_.arm()) << "nobody is woken by a device";
  open_->store(true);
  progress_until([&] { return posted_.size() == 3; });
  EXPECT_EQ(posted_, (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(messages_.must_queue(true) || messages_.must_queue(false) || messages_.active());
  for (const CountedEnd& e : ends_) EXPECT_EQ(e.fired, 0) << "that is the transport's to say";
}

TEST_F(DirectMessages, EndWhenCancelled_WithoutTheirStream) {
  messages_.queue(true, stream_, launch(1), ends_[0]);
  messages_.queue(false, stream_, launch(2), ends_[1]);
  EXPECT_TRUE(messages_.cancel(ends_[1]));
  EXPECT_FALSE(messages_.cancel(ends_[2])) << "not one of these";
  EXPECT_EQ(ends_[1].fired, 0) << "only progress() fires";
  EXPECT_EQ(messages_.progress(), 1);
  EXPECT_EQ(ends_[1].fired, 1);
  EXPECT_EQ(ends_[1].status.code(), Code::Cancelled);
  EXPECT_FALSE(messages_.must_queue(false));
  open_->store(true);
  progress_until([&] { return !posted_.empty(); });
  EXPECT_EQ(posted_, std::vector<int>{1});
}

TEST_F(DirectMessages, EndWithTheDevicesReason_WhenItFails) {
  device_.fail_next("an illegal address was met");
  messages_.queue(true, stream_, launch(1), ends_[0]);
  messages_.queue(true, stream_, launch(2), ends_[1]);
  open_->store(true);
  progress_until([&] { return !posted_.empty(); });
  EXPECT_EQ(posted_, std::vector<int>{2});
  EXPECT_EQ(ends_[0].fired, 1);
  EXPECT_EQ(ends_[0].status.message(), "an illegal address was met");
  messages_.queue(
      true, {}, [] { throw Error(Code::Unavailable, "no way there"); }, ends_[2]);
  EXPECT_EQ(messages_.progress(), 1);
  EXPECT_EQ(ends_[2].status.code(), Code::Unavailable);
}

}  // namespace
}  // namespace sinew::test
