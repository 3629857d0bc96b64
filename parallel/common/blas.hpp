#pragma once

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

/// Multiplies matrices for layers. The engine implements it.
/// Shape:  m, n or k may be 0. With k = 0 c becomes beta * c.
/// Thread: one at a time.
class Blas {
 public:
  virtual ~Blas() = default;
  virtual void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) = 0;
  virtual void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) = 0;
};

}  // namespace sinew::parallel
