#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/float_formats.hpp>

namespace sinew::parallel::kernels {

// Loops over arrays, for the CPU that runs them (Highway). Sums are made lane by lane: their last bits depend on the
// CPU, not on anything else. T: float, double.

template <class T>
T sum(const T* x, std::size_t n);
/// Sum of a[i] * b[i].
template <class T>
T dot(const T* a, const T* b, std::size_t n);
/// Sum of (x[i] - mean)^2.
template <class T>
T squares_around(T mean, const T* x, std::size_t n);
/// out[i] = exp(x[i] - most); returns their sum, where most is the largest x[i], which goes into *largest. n >= 1.
template <class T>
T exponentials(const T* x, T* out, std::size_t n, T* largest);
template <class T>
void scale(T* x, T factor, std::size_t n);
template <class T>
void add(T* to, const T* x, std::size_t n);
/// y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
/// Source: Hendrycks and Gimpel, arXiv 1606.08415; the tanh form of GPT-2.
template <class T>
void gelu(const T* x, T* y, std::size_t n);
/// dy becomes dx.
template <class T>
void gelu_backward(const T* x, T* dy, std::size_t n);

/// out[i] = (x[i] - mean) * factor * weight[i] + bias[i].
template <class T>
void normalise(const T* x, T mean, T factor, const T* weight, const T* bias, T* out, std::size_t n);
/// The gradient of x, where y = (x - mean) * factor * weight + bias and mean and factor come from x.
template <class T>
void normalise_gradient(const T* x, T mean, T factor, const T* weight, const T* dy, T* dx, std::size_t n);

// There are no others than these.
#define SINEW_KERNELS(T)                                                                                         \
  template <>                                                                                                    \
  SINEW_API T sum(const T* x, std::size_t n);                                                                    \
  template <>                                                                                                    \
  SINEW_API T dot(const T* a, const T* b, std::size_t n);                                                        \
  template <>                                                                                                    \
  SINEW_API T squares_around(T mean, const T* x, std::size_t n);                                                 \
  template <>                                                                                                    \
  SINEW_API T exponentials(const T* x, T* out, std::size_t n, T* largest);                                       \
  template <>                                                                                                    \
  SINEW_API void scale(T* x, T factor, std::size_t n);                                                           \
  template <>                                                                                                    \
  SINEW_API void add(T* to, const T* x, std::size_t n);                                                          \
  template <>                                                                                                    \
  SINEW_API void gelu(const T* x, T* y, std::size_t n);                                                          \
  template <>                                                                                                    \
  SINEW_API void gelu_backward(const T* x, T* dy, std::size_t n);                                                \
  template <>                                                                                                    \
  SINEW_API void normalise(const T* x, T mean, T factor, const T* weight, const T* bias, T* out, std::size_t n); \
  template <>                                                                                                    \
  SINEW_API void normalise_gradient(const T* x, T mean, T factor, const T* weight, const T* dy, T* dx, std::size_t n);
SINEW_KERNELS(float)
SINEW_KERNELS(double)
#undef SINEW_KERNELS

/// Rounded to nearest even.
SINEW_API void narrow(const float* from, BFloat16* to, std::size_t n);
SINEW_API void widen(const BFloat16* from, float* to, std::size_t n);

}  // namespace sinew::parallel::kernels
