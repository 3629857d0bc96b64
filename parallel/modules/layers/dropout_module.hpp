#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/modules/layers/token_places.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/tensor/dropout.hpp>

namespace sinew::parallel {

/// Dropout of rows, by their places in the global batch (MicroBatch::step, first_sample). The backward pass makes the
/// same mask again, so none is kept.
/// Shape:  x, out [own rows, width].
/// Errors: as Dropout.
template <class T>
class SINEW_API DropoutModule final : public Module<T> {
 public:
  /// layer: the name by which the mask's random numbers differ from those of other layers.
  DropoutModule(const TokenPlaces& places, std::int64_t width, std::uint64_t seed, std::string_view layer,
                double probability)
      : places_(places), width_(width), dropout_(seed, layer, probability), numbers_(places.row_numbers()) {}

  std::int64_t in_elements() const override { return places_.own_rows() * width_; }
  std::int64_t out_elements() const override { return in_elements(); }
  bool needs_input() const override { return false; }
  bool runs_on_devices() const override { return true; }
  void declare(ParameterList& /*list*/) override {}
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* /*dout*/) override {}

 private:
  void drop(Pass<T>& pass, T* rows);

  TokenPlaces places_;
  std::int64_t width_;
  Dropout dropout_;
  std::vector<std::int64_t> numbers_;  // of this rank's rows
  PlacedCopy<std::int64_t> placed_;    // of the same
};

/// Rounds elements to a narrower dtype, in which one unit hands its output to the next. Gradients pass as they are.
/// dtype: BF16 rounds elements of f32. Every other dtype leaves the elements as they are.
/// Source: output_dtype of PyTorch's FSDP2.
template <class T>
class SINEW_API RoundedModule final : public Module<T> {
 public:
  RoundedModule(std::int64_t elements, DType dtype) : elements_(elements), dtype_(dtype) {}

  std::int64_t in_elements() const override { return elements_; }
  std::int64_t out_elements() const override { return elements_; }
  bool needs_input() const override { return false; }
  bool runs_on_devices() const override { return true; }
  void declare(ParameterList& /*list*/) override {}
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* /*dout*/) override {}

 private:
  std::int64_t elements_;
  DType dtype_;
};

extern template class DropoutModule<float>;
extern template class DropoutModule<double>;
extern template class RoundedModule<float>;
extern template class RoundedModule<double>;

}  // namespace sinew::parallel
