#pragma once

#include <sinew/parallel/compute/blas.hpp>

#include "fakes/fake_device.hpp"

namespace sinew::fake {

/// Products by their definition in memory of a fake device. A call puts them on the device's stream and returns.
/// Errors: Error{System} for operands that are not memory of the device or end beyond their allocation, for rows that
///         are longer than the distance between rows, and for several products with one result.
class SINEW_FAKE_API FakeBlas final : public parallel::Blas {
 public:
  explicit FakeBlas(const parallel::ComputeDevice& device) : device_(device) {}

  void multiply(const parallel::Product& p, float alpha, const float* a, const float* b, float beta,
                float* c) override {
    enqueue(p, {}, alpha, a, b, beta, c);
  }
  void multiply(const parallel::Product& p, double alpha, const double* a, const double* b, double beta,
                double* c) override {
    enqueue(p, {}, alpha, a, b, beta, c);
  }
  parallel::ComputeDevice device() const override { return device_; }
  void multiply_all(const parallel::Product& p, const parallel::Batch& batch, float alpha, const float* a,
                    const float* b, float beta, float* c) override {
    enqueue(p, batch, alpha, a, b, beta, c);
  }
  void multiply_all(const parallel::Product& p, const parallel::Batch& batch, double alpha, const double* a,
                    const double* b, double beta, double* c) override {
    enqueue(p, batch, alpha, a, b, beta, c);
  }

 private:
  template <class T>
  void enqueue(const parallel::Product& p, const parallel::Batch& batch, T alpha, const T* a, const T* b, T beta, T* c);

  parallel::ComputeDevice device_;
};

}  // namespace sinew::fake
