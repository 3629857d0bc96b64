#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/modules/pass.hpp>

namespace sinew::parallel {
namespace {

/// Calls f with the elements of the buffer in their own type, a function that widens one, and a function that narrows.
template <class F>
void as_floats(Buffer buffer, DType dtype, const std::string& path, const F& f) {
  const auto typed = [&]<class E>(E*) {
    return std::span<E>(reinterpret_cast<E*>(buffer.data), buffer.bytes / sizeof(E));
  };
  switch (dtype) {
    case DType::F64:
      return f(
          typed(static_cast<double*>(nullptr)), [](double x) { return x; }, [](double x) { return x; });
    case DType::F32:
      return f(
          typed(static_cast<float*>(nullptr)), [](float x) { return double{x}; },
          [](double x) { return static_cast<float>(x); });
    case DType::BF16:
      return f(
          typed(static_cast<BFloat16*>(nullptr)), [](BFloat16 x) { return double{to_float(x)}; },
          [](double x) { return to_bfloat16(static_cast<float>(x)); });
    case DType::F16:
      return f(
          typed(static_cast<Half*>(nullptr)), [](Half x) { return double{to_float(x)}; },
          [](double x) { return to_half(static_cast<float>(x)); });
    default:
      throw Error(Code::InvalidArgument, fmt::format("modules: parameter '{}' is of {}, expected f64, f32, bf16 or f16",
                                                     path, name_of(dtype)));
  }
}

}  // namespace

template <class T>
typename Pass<T>::Values Pass<T>::values(std::int32_t parameter) {
  const DataParameter& record = home(parameter).parameters()[at(number_in(parameter))];
  const Buffer buffer = home(parameter).parameter(number_in(parameter));
  Values values;
  if (record.dtype == kDTypeOf<T>) {
    values.data_ = reinterpret_cast<const T*>(buffer.data);
    return values;
  }
  values.converted_ = take(record.elements);
  as_floats(buffer, record.dtype, record.path, [&](auto elements, auto widen, auto) {
    for (std::size_t i = 0; i < elements.size(); ++i) values.converted_.data()[i] = static_cast<T>(widen(elements[i]));
  });
  values.data_ = values.converted_.data();
  return values;
}

template <class T>
void Pass<T>::add_gradient(std::int32_t parameter, const std::function<void(T*, T)>& write) {
  const DataParameter& record = home(parameter).parameters()[at(number_in(parameter))];
  const Buffer buffer = home(parameter).gradient(number_in(parameter));
  if (record.gradient_dtype() == kDTypeOf<T>) return write(reinterpret_cast<T*>(buffer.data), T{1});
  const PooledArray<T> added = take(record.elements);
  write(added.data(), T{0});
  as_floats(buffer, record.gradient_dtype(), record.path, [&](auto elements, auto widen, auto narrow) {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = narrow(widen(elements[i]) + added.data()[i]);
  });
}

template class Pass<float>;
template class Pass<double>;

}  // namespace sinew::parallel
