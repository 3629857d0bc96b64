#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include <sinew/parallel/job/job.hpp>

#include "../model/store.hpp"
#include "../shape.hpp"
#include "parameter_homes.hpp"

namespace gpt {

/// A model's store that is a job's data parallelism, and a clock of what the model waits for there: communication that
/// nothing hides.
class WaitingStore final : public Store {
 public:
  /// Of a model that no pipeline cuts. Lifetime: ends before the job.
  WaitingStore(sinew::parallel::Job& job, const Shape& shape, ParameterHomes homes)
      : data_(&job.data()),
        experts_(job.has_experts() ? &job.experts() : nullptr),
        shape_(shape),
        homes_(std::move(homes)) {}

  void before_forward(int unit) override { with_experts(unit, &DataParallel::before_forward); }
  void after_forward(int unit) override { with_experts(unit, &DataParallel::after_forward); }
  void before_backward(int unit) override { with_experts(unit, &DataParallel::before_backward); }
  void after_backward(int unit) override { with_experts(unit, &DataParallel::after_backward); }
  sinew::Buffer parameter(int p) override { return homes_.parameter(p); }
  sinew::Buffer gradient(int p) override { return homes_.gradient(p); }
  void gradient_ready(int p) override {
    // The gradient of the token embeddings is not complete at its first report.
    if (p != kTokens && std::exchange(overflows_, false)) homes_.make_infinite(p);
    timed([&] { homes_.gradient_ready(p); });
  }
  /// The next gradient that is reported becomes infinite first.
  void overflow_next() noexcept { overflows_ = true; }

  /// Whatever else waits counts, too.
  template <class Call>
  std::invoke_result_t<Call&> timed(Call call) {
    const Stopped until_the_end(*this);
    return call();
  }
  /// Since the last time it was asked.
  std::chrono::nanoseconds waited() noexcept { return std::exchange(waited_, {}); }

 private:
  using DataParallel = sinew::parallel::DataParallel;
  /// Experts of a block are a unit of their own, beside the block's.
  void with_experts(int unit, void (DataParallel::*call)(std::int32_t)) {
    timed([&] {
      (data_->*call)(unit);
      if (unit > 0 && shape_.has_experts(unit - 1)) (experts_->*call)(unit / shape_.experts.every - 1);
    });
  }

  using Clock = std::chrono::steady_clock;
  struct Stopped {
    explicit Stopped(WaitingStore& store) noexcept : store_(&store) {}
    ~Stopped() { store_->waited_ += Clock::now() - begin_; }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

    WaitingStore* store_;
    Clock::time_point begin_ = Clock::now();
  };

  DataParallel *data_, *experts_;  // of the latter null: there are none
  Shape shape_;
  ParameterHomes homes_;
  std::chrono::nanoseconds waited_{};
  bool overflows_ = false;
};

}  // namespace gpt
