#pragma once

namespace sinew::parallel {

/// c = alpha * op(a) * op(b) + beta * c, row-major: op(a) is [m, k], op(b) [k, n], c [m, n]; `l` is what lies between
/// the rows of a matrix as it is stored.
struct Product {
  bool a_transposed = false, b_transposed = false;
  int m = 0, n = 0, k = 0;
  int la = 0, lb = 0, lc = 0;
  /// Of layout-invariant products (invariant/invariant_blas.hpp), which others need not heed: elements of a leaf block
  /// of k, 0: k is one; and whether the tree has the blocks in folded order.
  int k_leaf = 0;
  bool k_folded = false;
};

/// Who multiplies matrices: the engine's, for layers that exchange what they compute.
/// Shape:  m, n or k may be 0: with k = 0 c becomes beta * c.
/// Thread: one at a time.
class Blas {
 public:
  virtual ~Blas() = default;
  virtual void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) = 0;
  virtual void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) = 0;
};

}  // namespace sinew::parallel
