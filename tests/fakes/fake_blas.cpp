#include "fakes/fake_blas.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

#include "../parallel/support/naive_blas.hpp"

namespace sinew::fake {
namespace {

using parallel::Batch;
using parallel::ComputeDevice;
using parallel::Product;

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::System, "fake blas: " + why); }

/// The matrices of one operand as they are stored.
struct Stored {
  const char* name;
  int rows, columns;
  int row_distance;
  std::int64_t distance;  // between the matrices
};

/// Where the host may touch the operand.
template <class T>
T* touchable(const Stored& s, int products, const ComputeDevice& device, const T* first) {
  if (s.rows == 0 || s.columns == 0) return nullptr;
  if (s.row_distance < s.columns || s.distance < 0)
    refuse(fmt::format("{} has rows of {} elements, {} from one to the next, and matrices {} apart", s.name, s.columns,
                       s.row_distance, s.distance));
  const Place place = device.runtime->place_of(first);
  if (place.kind != MemoryKind::Device || place.device != device.stream.device)
    refuse(fmt::format("{} is not in memory of device {}", s.name, device.stream.device));
  const std::int64_t elements =
      (products - 1) * s.distance + std::int64_t{s.rows - 1} * s.row_distance + std::int64_t{s.columns};
  try {
    return reinterpret_cast<T*>(bytes_of(first, static_cast<std::size_t>(elements) * sizeof(T)));
  } catch (const std::out_of_range& e) {
    refuse(fmt::format("{}: {}", s.name, e.what()));
  }
}

}  // namespace

template <class T>
void FakeBlas::enqueue(const Product& p, const Batch& batch, T alpha, const T* a, const T* b, T beta, T* c) {
  if (p.m < 0 || p.n < 0 || p.k < 0 || batch.products < 0)
    refuse(fmt::format("{} products of [{}, {}] and [{}, {}]", batch.products, p.m, p.k, p.k, p.n));
  if (batch.products > 1 && batch.c == 0) refuse(fmt::format("{} products have one result", batch.products));
  if (batch.products == 0 || p.m == 0 || p.n == 0) return;
  const Stored of_a{"a", p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k, p.la, batch.a};
  const Stored of_b{"b", p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n, p.lb, batch.b};
  const Stored of_c{"c", p.m, p.n, p.lc, batch.c};
  const T* const x = touchable(of_a, batch.products, device_, a);
  const T* const y = touchable(of_b, batch.products, device_, b);
  T* const z = touchable(of_c, batch.products, device_, c);
  fake::enqueue(device_.stream.stream, [=] {
    parallel::test::NaiveBlas().multiply_all(p, batch, alpha, x, y, beta, z);
    return true;
  });
}

template void FakeBlas::enqueue(const Product&, const Batch&, float, const float*, const float*, float, float*);
template void FakeBlas::enqueue(const Product&, const Batch&, double, const double*, const double*, double, double*);

}  // namespace sinew::fake
