#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

// The arithmetic of layers and its arrays, in the memory of the host or of a device. Products of matrices are among it.
// The room includes the kernels for devices, and no layer.

namespace sinew::parallel {

/// c = alpha * op(a) * op(b) + beta * c, row-major. op(a) is [m, k]. op(b) is [k, n]. c is [m, n]. la, lb and lc are
/// the distances in elements between the rows of each matrix as it is stored.
struct Product {
  bool a_transposed = false, b_transposed = false;
  int m = 0, n = 0, k = 0;
  int la = 0, lb = 0, lc = 0;
  /// Only for layout-invariant products (invariant/invariant_blas.hpp); other implementations may ignore both members.
  /// k_leaf: the elements of each leaf block of k; 0: k is one block. k_folded: whether the tree adds the blocks in
  /// folded order.
  int k_leaf = 0;
  bool k_folded = false;
};

/// Products of one form. a, b and c are the distances in elements from the first element of a matrix to that of the
/// next one. With a distance of 0 all products have one operand in common. c is not 0 if there are several products.
struct Batch {
  int products = 1;
  std::int64_t a = 0, b = 0, c = 0;
};

/// Multiplies matrices for layers. The engine implements it.
/// Shape:    m, n or k may be 0. With k = 0 c becomes beta * c.
/// Thread:   one at a time.
/// Lifetime: longer than that of the layers that compute with it.
class SINEW_API Blas {
 public:
  virtual ~Blas() = default;
  virtual void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) = 0;
  virtual void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) = 0;

  /// The device in whose memory operands and results are. Products are then enqueued on its stream, and layers with
  /// this Blas compute there. The default is the host.
  virtual ComputeDevice device() const { return {}; }

  /// Several products. Without an override, one after the other.
  virtual void multiply_all(const Product& p, const Batch& batch, float alpha, const float* a, const float* b,
                            float beta, float* c) {
    one_by_one(p, batch, alpha, a, b, beta, c);
  }
  virtual void multiply_all(const Product& p, const Batch& batch, double alpha, const double* a, const double* b,
                            double beta, double* c) {
    one_by_one(p, batch, alpha, a, b, beta, c);
  }

 private:
  template <class T>
  void one_by_one(const Product& p, const Batch& batch, T alpha, const T* a, const T* b, T beta, T* c) {
    for (std::int64_t i = 0; i < batch.products; ++i)
      multiply(p, alpha, a + i * batch.a, b + i * batch.b, beta, c + i * batch.c);
  }
};

}  // namespace sinew::parallel
