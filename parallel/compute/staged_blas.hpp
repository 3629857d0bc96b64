#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/compute/placed_array.hpp>

namespace sinew::parallel {

/// Products of matrices in host memory, made by a Blas of a device. Each call copies the operands to the device and the
/// result back, and waits for it.
/// Errors: those of the device's runtime and of its Blas.
class SINEW_API StagedBlas final : public Blas {
 public:
  explicit StagedBlas(std::shared_ptr<Blas> on_device) : on_device_(std::move(on_device)) {}

  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override;
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override;

 private:
  /// Memory of the device that grows as operands do.
  using Room = PlacedArray<std::byte>;
  template <class T>
  void run(const Product& p, T alpha, const T* a, const T* b, T beta, T* c);
  template <class T>
  T* copied(Room& room, const T* from, std::size_t elements);

  std::shared_ptr<Blas> on_device_;
  Room a_, b_, c_;
};

}  // namespace sinew::parallel
