#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/convert.hpp>
#include <sinew/parallel/modules/pass.hpp>
#include <sinew/parallel/modules/vector_kernels.hpp>

namespace sinew::parallel {
namespace {

void require_floats(DType dtype, const std::string& path) {
  if (dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16) return;
  throw Error(Code::InvalidArgument,
              fmt::format("modules: parameter '{}' is of {}, expected f64, f32, bf16 or f16", path, name_of(dtype)));
}

/// sums += added, element by element, where sums are of a narrower dtype. It needs no array for the wide sums.
template <class T>
void add_narrow(std::byte* sums, DType dtype, const T* added, const T* end) {
  std::array<T, 1024> wide;
  auto* const bytes = reinterpret_cast<std::byte*>(wide.data());
  while (added != end) {
    const std::ptrdiff_t n = std::min<std::ptrdiff_t>(end - added, std::ssize(wide));
    convert(sums, dtype, bytes, kDTypeOf<T>, n);
    kernels::add(wide.data(), added, static_cast<std::size_t>(n));
    convert(bytes, kDTypeOf<T>, sums, dtype, n);
    sums += static_cast<std::size_t>(n) * size_of(dtype);
    added += n;
  }
}

}  // namespace

template <class T>
typename Pass<T>::Found Pass<T>::find(std::int32_t parameter, bool gradient) const {
  if (ParameterList::is_copy(parameter)) {
    ParameterCopies::Copy& copy = copies->copies[ParameterList::number_of_copy(parameter)];
    std::vector<std::byte>& bytes = gradient ? copy.gradient : copy.value;
    return {copy.record, {bytes.data(), bytes.size()}};
  }
  DataParallel& data = home(parameter);
  const std::int32_t number = number_in(parameter);
  return {data.parameters()[at(number)], gradient ? data.gradient(number) : data.parameter(number)};
}

template <class T>
typename Pass<T>::Values Pass<T>::values(std::int32_t parameter) {
  const auto& [record, buffer] = find(parameter, false);
  Values values;
  if (record.dtype == kDTypeOf<T>) {
    values.data_ = reinterpret_cast<const T*>(buffer.data);
    return values;
  }
  require_floats(record.dtype, record.path);
  values.converted_ = take(record.elements);
  values.data_ = values.converted_.data();
  convert(buffer.data, record.dtype, reinterpret_cast<std::byte*>(values.converted_.data()), kDTypeOf<T>,
          record.elements);
  return values;
}

template <class T>
void Pass<T>::add_gradient(std::int32_t parameter, const std::function<void(T*, T)>& write) {
  const auto& [record, buffer] = find(parameter, true);
  const DType dtype = record.gradient_dtype();
  if (dtype == kDTypeOf<T>) return write(reinterpret_cast<T*>(buffer.data), T{1});
  require_floats(dtype, record.path);
  const PooledArray<T> added = take(record.elements);
  write(added.data(), T{0});
  if (size_of(dtype) > sizeof(T)) {  // sums of f32 in f64
    auto* const sums = reinterpret_cast<double*>(buffer.data);
    for (std::size_t i = 0; i < added.size(); ++i) sums[i] += double{added.data()[i]};
    return;
  }
  add_narrow<T>(buffer.data, dtype, added.begin(), added.end());
}

template class Pass<float>;
template class Pass<double>;

}  // namespace sinew::parallel
