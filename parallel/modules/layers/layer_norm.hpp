#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>

namespace sinew::parallel {

struct LayerNormShape {
  std::string name{};
  std::int64_t rows = 0;  ///< of a pass, all ranks of the tensor-parallel group together
  std::int64_t width = 0;
  double epsilon = 1e-5;
};

/// Each row, moved and scaled to mean 0 and variance 1, times a weight, plus a bias. Every rank has both whole. Under
/// sequence parallelism each rank has some of the rows, and the gradients of weight and bias are summed over the ranks.
/// Shape:  x, out [own rows, width].
/// Source: Ba et al., arXiv 1607.06450.
template <class T>
class SINEW_API LayerNormModule final : public Module<T> {
 public:
  LayerNormModule(const LayerGroup& group, const LayerNormShape& shape);

  std::int64_t in_elements() const override { return own_rows_ * shape_.width; }
  std::int64_t out_elements() const override { return in_elements(); }
  ArrayCounts kept_arrays() const override { return {own_rows_, own_rows_}; }
  ArrayCounts backward_arrays() const override;
  std::string_view name() const override { return shape_.name; }
  bool can_remake() const override { return true; }
  void remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) override;
  bool runs_on_devices() const override { return !group_.invariant; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  LayerNormShape shape_;
  LayerGroup group_;
  std::int64_t own_rows_;
  std::int32_t weight_ = -1, bias_ = -1;
};

extern template class LayerNormModule<float>;
extern template class LayerNormModule<double>;

}  // namespace sinew::parallel
