#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/compute/staged_blas.hpp>

namespace sinew::parallel {
namespace {

/// The elements from the first one of a stored matrix to its last one.
std::size_t span_of(int rows, int columns, int row_distance) {
  if (rows == 0 || columns == 0) return 0;
  return static_cast<std::size_t>(rows - 1) * static_cast<std::size_t>(row_distance) +
         static_cast<std::size_t>(columns);
}

}  // namespace

void StagedBlas::multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) {
  run(p, alpha, a, b, beta, c);
}

void StagedBlas::multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) {
  run(p, alpha, a, b, beta, c);
}

template <class T>
T* StagedBlas::copied(Room& room, const T* from, std::size_t elements) {
  const ComputeDevice device = on_device_->device();
  const std::size_t bytes = elements * sizeof(T);
  if (room.size() < bytes) room = Room(device, bytes);
  if (bytes > 0) {
    device.runtime->copy_async(room.buffer().part(0, bytes),
                               ConstBuffer(reinterpret_cast<const std::byte*>(from), bytes), device.stream);
  }
  return reinterpret_cast<T*>(room.data());
}

template <class T>
void StagedBlas::run(const Product& p, T alpha, const T* a, const T* b, T beta, T* c) {
  if (p.m == 0 || p.n == 0) return;
  const ComputeDevice device = on_device_->device();
  const std::size_t c_elements = span_of(p.m, p.n, p.lc);
  const T* const of_a = copied(a_, a, p.a_transposed ? span_of(p.k, p.m, p.la) : span_of(p.m, p.k, p.la));
  const T* const of_b = copied(b_, b, p.b_transposed ? span_of(p.n, p.k, p.lb) : span_of(p.k, p.n, p.lb));
  T* const of_c = copied(c_, c, c_elements);  // for beta, and for what is between its rows
  on_device_->multiply(p, alpha, of_a, of_b, beta, of_c);
  device.runtime->copy_async(Buffer(reinterpret_cast<std::byte*>(c), c_elements * sizeof(T)),
                             ConstBuffer(c_.buffer().part(0, c_elements * sizeof(T))), device.stream);
  drain(*device.runtime, device.stream);
}

}  // namespace sinew::parallel
