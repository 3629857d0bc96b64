#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include <sinew/parallel/data/data_parallel.hpp>

#include "../model/store.hpp"

namespace gpt {

/// A model's store that is a DataParallel, and a clock of what the model waits for there: communication that nothing
/// hides.
class WaitingStore final : public Store {
 public:
  explicit WaitingStore(sinew::parallel::DataParallel& data) noexcept : data_(&data) {}

  void before_forward(int unit) override {
    timed([&] { data_->before_forward(unit); });
  }
  void after_forward(int unit) override { data_->after_forward(unit); }
  void before_backward(int unit) override {
    timed([&] { data_->before_backward(unit); });
  }
  void after_backward(int unit) override {
    timed([&] { data_->after_backward(unit); });
  }
  sinew::Buffer parameter(int p) override { return data_->parameter(p); }
  sinew::Buffer gradient(int p) override { return data_->gradient(p); }
  void gradient_ready(int p) override {
    timed([&] { data_->gradient_ready(p); });
  }

  /// Whatever else waits counts, too.
  template <class Call>
  std::invoke_result_t<Call&> timed(Call call) {
    const Stopped until_the_end(*this);
    return call();
  }
  /// Since the last time it was asked.
  std::chrono::nanoseconds waited() noexcept { return std::exchange(waited_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stopped {
    explicit Stopped(WaitingStore& store) noexcept : store_(&store) {}
    ~Stopped() { store_->waited_ += Clock::now() - begin_; }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

    WaitingStore* store_;
    Clock::time_point begin_ = Clock::now();
  };

  sinew::parallel::DataParallel* data_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace gpt
