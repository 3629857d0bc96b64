#include <cblas-openblas.h>

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

#include "blas.hpp"

namespace gpt {
namespace {

CBLAS_TRANSPOSE transposed(bool is) { return is ? CblasTrans : CblasNoTrans; }

class OpenBlas final : public Blas {
 public:
  explicit OpenBlas(int threads) { openblas_set_num_threads(threads); }

  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override {
    cblas_sgemm(CblasRowMajor, transposed(p.a_transposed), transposed(p.b_transposed), p.m, p.n, p.k, alpha, a,
                between(p.la), b, between(p.lb), beta, c, between(p.lc));
  }
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override {
    cblas_dgemm(CblasRowMajor, transposed(p.a_transposed), transposed(p.b_transposed), p.m, p.n, p.k, alpha, a,
                between(p.la), b, between(p.lb), beta, c, between(p.lc));
  }

 private:
  /// Also of a matrix that has no columns.
  static int between(int rows) { return std::max(rows, 1); }
};

}  // namespace

std::unique_ptr<Blas> make_openblas(int threads) { return std::make_unique<OpenBlas>(threads); }

std::unique_ptr<Blas> make_blas(std::string_view name, int threads) {
  if (name == "openblas") return make_openblas(threads);
  if (name == "cublas") return make_cublas();
  throw sinew::Error(sinew::Code::InvalidArgument, fmt::format("blas '{}': expected openblas or cublas", name));
}

}  // namespace gpt
