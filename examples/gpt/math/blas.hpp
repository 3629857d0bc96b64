#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sinew/core/cost.hpp>

namespace gpt {

/// c = alpha * op(a) * op(b) + beta * c, row-major: op(a) is [m, k], op(b) [k, n], c [m, n]; `l` is what lies between
/// the rows of a matrix as it is stored.
struct Product {
  bool a_transposed = false, b_transposed = false;
  int m = 0, n = 0, k = 0;
  int la = 0, lb = 0, lc = 0;
};

/// Who multiplies matrices.
/// Thread: one at a time.
class Blas {
 public:
  virtual ~Blas() = default;
  virtual void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) = 0;
  virtual void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) = 0;
};

/// "openblas" on `threads` threads of the host, or "cublas", which is loaded when it is asked for and copies operands.
/// Errors: Error{Unavailable} with the reason; InvalidArgument for another name.
std::unique_ptr<Blas> make_blas(std::string_view name, int threads);

std::unique_ptr<Blas> make_openblas(int threads);
std::unique_ptr<Blas> make_cublas();

}  // namespace gpt
