#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/blas.hpp>

namespace sinew::parallel {

/// Matrix products of which an element's bits depend on its row of op(a) and its column of op(b), on Product's leaf
/// blocks of k, and on nothing else: not on m and n, on where the element lies, nor on the width of vectors. So ranks
/// that have some rows or columns have the bits of those who have all, and ranks that have aligned ranges of leaf
/// blocks have nodes of the tree that a sum with Determinism::LayoutInvariant goes on with.
///   a leaf block  one fused multiply-add for each of its k, from the first to the last, beginning with 0
///   the blocks    by the balanced binary tree (leaves.hpp)
///   the result    alpha * sum + beta * c. With alpha = beta = 1 and one block the sum begins with c: a chain that is
///                 cut into several calls has the bits of one
/// Bits differ between CPUs with and without fused multiply-add.
/// Errors: InvalidArgument for leaf blocks that do not divide k, or are not a power of two, 2^16 at most.
/// Cost:   operands are copied into panels; of leaf blocks one addition each per element of c.
/// Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), without their cut of k.
class SINEW_API InvariantBlas final : public Blas {
 public:
  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override;
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override;

 private:
  std::vector<float> panels_of_f32_;
  std::vector<double> panels_of_f64_;
};

}  // namespace sinew::parallel
