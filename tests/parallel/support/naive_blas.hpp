#pragma once

#include <cstddef>

#include <sinew/parallel/compute/blas.hpp>

namespace sinew::parallel::test {

/// Products by their definition.
class NaiveBlas final : public Blas {
 public:
  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override {
    run(p, alpha, a, b, beta, c);
  }
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override {
    run(p, alpha, a, b, beta, c);
  }

 private:
  template <class T>
  static void run(const Product& p, T alpha, const T* a, const T* b, T beta, T* c) {
    for (std::ptrdiff_t i = 0; i < p.m; ++i) {
      for (std::ptrdiff_t j = 0; j < p.n; ++j) {
        T sum{0};
        for (std::ptrdiff_t k = 0; k < p.k; ++k)
          sum += a[p.a_transposed ? k * p.la + i : i * p.la + k] * b[p.b_transposed ? j * p.lb + k : k * p.lb + j];
        T& to = c[i * p.lc + j];
        to = (beta == T{0} ? T{0} : beta * to) + alpha * sum;
      }
    }
  }
};

}  // namespace sinew::parallel::test
