#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/modules/pass.hpp>

namespace sinew::parallel {
namespace {

void require_floats(DType dtype, const std::string& path) {
  if (dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16) return;
  throw Error(Code::InvalidArgument,
              fmt::format("modules: parameter '{}' is of {}, expected f64, f32, bf16 or f16", path, name_of(dtype)));
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
  math_->widen(record.dtype, buffer.data, values.converted_.data(), record.elements);
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
  math_->add_to(dtype, buffer.data, added.data(), record.elements);
}

template class Pass<float>;
template class Pass<double>;

}  // namespace sinew::parallel
