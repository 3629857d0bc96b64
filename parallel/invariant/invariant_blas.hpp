#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>

namespace sinew::parallel {

/// Matrix products in which the bits of an element depend only on its row of op(a), its column of op(b), and the leaf
/// blocks of k in Product. They do not depend on m and n, on the place of the element, or on the width of vectors. So a
/// rank with some rows or columns gets the bits of a rank with all of them. A rank with an aligned range of leaf blocks
/// gets a node of the tree. A collective with Determinism::LayoutInvariant continues the sum from such nodes.
///   a leaf block  one fused multiply-add for each of its k, from the first to the last, beginning with 0
///   the blocks    by the balanced binary tree (leaves.hpp)
///   the result    alpha * sum + beta * c. With alpha = beta = 1 and one block the sum begins with c. So a chain that
///                 is cut into several calls has the bits of one call
/// Bits differ between CPUs with and without fused multiply-add.
/// Errors: InvalidArgument for leaf blocks that do not divide k, or are not a power of two of at most 2^16.
/// Cost:   operands are copied into panels. Leaf blocks cost one addition each for every element of c.
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
