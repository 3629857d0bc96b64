#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/kernels/kernel_table.hpp>

namespace sinew::parallel {
namespace {

using kernels::AttentionTile;
using kernels::Function;

template <class T>
class DeviceMath final : public LayerMath<T> {
 public:
  explicit DeviceMath(const ComputeDevice& device) : launcher_(device) {}

  void copy(const T* from, T* to, std::int64_t n) const override {
    if (n == 0 || from == to) return;
    const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
    const Place place = place_of(launcher_.device());
    runtime().copy_async({reinterpret_cast<std::byte*>(to), bytes, place},
                         ConstBuffer{reinterpret_cast<const std::byte*>(from), bytes, place}, stream());
  }
  void fill(T* to, T value, std::int64_t n) const override {
    if (value == T{0} && !std::signbit(value)) return zero(to, n);
    elements(kernel_of<kernels::FillArguments<T>>("fill"), n, {to, value, n});
  }
  void add(const T* x, T beta, T* to, std::int64_t n) const override {
    elements(kernel_of<kernels::AddArguments<T>>("add"), n, {x, beta, to, n});
  }
  void round_to(DType dtype, T* x, std::int64_t n) const override {
    elements(kRound.at(dtype, kDTypeOf<T>), n, {x, n});
  }
  void widen(DType dtype, const std::byte* from, T* to, std::int64_t n) const override {
    if (dtype == kDTypeOf<T>) return copy(reinterpret_cast<const T*>(from), to, n);
    elements(kConvert.at(dtype, kDTypeOf<T>), n, {from, to, n});
  }
  void add_to(DType dtype, std::byte* sums, const T* x, std::int64_t n) const override {
    elements(kAddTo.at(dtype, kDTypeOf<T>), n, {sums, x, n});
  }
  void apply(Function f, const T* x, T* y, std::int64_t n) const override {
    elements(kernel_of<kernels::ApplyArguments<T>>("apply"), n, {f, x, y, n});
  }
  void apply_slope(Function f, const T* x, T* dy, std::int64_t n) const override {
    elements(kernel_of<kernels::ApplySlopeArguments<T>>("apply_slope"), n, {f, x, dy, n});
  }
  void drop(const kernels::DropOptions& o, const std::int64_t* numbers, std::int64_t rows, std::int64_t width,
            T* x) const override {
    if (width == 0) return;
    const T factor = static_cast<T>(1 / (1 - o.probability));
    by_rows(kernel_of<kernels::DropArguments<T>>("drop"), rows, width,
            {.key = {{o.key[0], o.key[1]}},
             .step = o.step,
             .probability = o.probability,
             .factor = factor,
             .columns = o.columns,
             .first_row = o.first_row,
             .first_column = o.first_column,
             .numbers = numbers,
             .rows = rows,
             .width = width,
             .x = x});
  }

  void copy_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                 std::int64_t width) const override {
    if (width == 0) return;
    if (rows == 1 || (from_stride == width && to_stride == width)) return copy(from, to, rows * width);
    by_rows(kernel_of<kernels::CopyRowsArguments<T>>("copy_rows"), rows, width,
            {from, from_stride, to, to_stride, rows, width});
  }
  void add_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                std::int64_t width) const override {
    if (width == 0) return;
    by_rows(kernel_of<kernels::AddRowsArguments<T>>("add_rows"), rows, width,
            {from, from_stride, to, to_stride, rows, width});
  }
  void zero_rows(T* to, std::int64_t stride, std::int64_t rows, std::int64_t width) const override {
    if (width == 0) return;
    if (rows == 1 || stride == width) return zero(to, rows * width);
    by_rows(kernel_of<kernels::ZeroRowsArguments<T>>("zero_rows"), rows, width, {to, stride, rows, width});
  }
  void add_to_rows(const T* row, std::int64_t rows, std::int64_t width, std::int64_t stride, T* to) const override {
    if (width == 0) return;
    by_rows(kernel_of<kernels::AddToRowsArguments<T>>("add_to_rows"), rows, width, {row, to, stride, rows, width});
  }
  void sum_rows(const T* from, std::int64_t rows, std::int64_t width, std::int64_t stride, T beta,
                T* to) const override {
    by_columns(kernel_of<kernels::SumRowsArguments<T>>("sum_rows"), width, {from, stride, rows, width, beta, to});
  }
  void dot_rows(const T* a, const T* b, std::int64_t rows, std::int64_t width, T* to) const override {
    by_rows(kernel_of<kernels::DotRowsArguments<T>>("dot_rows"), rows, width, {a, b, rows, width, to});
  }
  void gather_rows(const std::int64_t* index, std::int64_t first, std::int64_t last, const T* table, std::int64_t rows,
                   std::int64_t width, T beta, T* to) const override {
    if (width == 0) return;
    by_rows(kernel_of<kernels::GatherRowsArguments<T>>("gather_rows"), rows, width,
            {index, first, last, table, rows, width, beta, to});
  }
  void scatter_rows(const std::int64_t* index, std::int64_t first, std::int64_t last, const T* from, std::int64_t rows,
                    std::int64_t width, T* table) const override {
    if (width == 0) return;
    by_rows(kernel_of<kernels::ScatterRowsArguments<T>>("scatter_rows"), rows, width,
            {index, first, last, from, rows, width, table});
  }

  void normalise(const T* x, const T* weight, const T* bias, std::int64_t rows, std::int64_t width, T epsilon, T* mean,
                 T* factor, T* y) const override {
    by_rows(kernel_of<kernels::NormaliseArguments<T>>("normalise"), rows, width,
            {x, weight, bias, rows, width, epsilon, mean, factor, y});
  }
  void renormalise(const T* x, const T* mean, const T* factor, const T* weight, const T* bias, std::int64_t rows,
                   std::int64_t width, T* y) const override {
    by_rows(kernel_of<kernels::RenormaliseArguments<T>>("renormalise"), rows, width,
            {x, mean, factor, weight, bias, rows, width, y});
  }
  void normalise_input_gradient(const T* x, const T* mean, const T* factor, const T* weight, const T* dy,
                                std::int64_t rows, std::int64_t width, T* dx) const override {
    by_rows(kernel_of<kernels::NormaliseInputGradientArguments<T>>("normalise_input_gradient"), rows, width,
            {x, mean, factor, weight, dy, rows, width, dx});
  }
  void normalise_weight_gradient(const T* x, const T* mean, const T* factor, const T* dy, std::int64_t rows,
                                 std::int64_t width, T* dweight) const override {
    by_columns(kernel_of<kernels::NormaliseWeightGradientArguments<T>>("normalise_weight_gradient"), width,
               {x, mean, factor, dy, rows, width, dweight});
  }

  void row_maxima(const T* logits, std::int64_t rows, std::int64_t columns, double* maxima,
                  double* not_numbers) const override {
    by_rows(kernel_of<kernels::RowMaximaArguments<T>>("row_maxima"), rows, columns,
            {logits, rows, columns, maxima, not_numbers});
  }
  void exponentials(T* logits, std::int64_t rows, std::int64_t columns, const std::int64_t* targets, std::int64_t first,
                    const double* maxima, const double* not_numbers, double* sums) const override {
    by_rows(kernel_of<kernels::ExponentialsArguments<T>>("exponentials"), rows, columns,
            {logits, rows, columns, targets, first, maxima, not_numbers, sums});
  }
  void divide_rows(T* of, std::int64_t rows, std::int64_t columns, const double* sums) const override {
    by_rows(kernel_of<kernels::DivideRowsArguments<T>>("divide_rows"), rows, columns, {of, rows, columns, sums});
  }
  void cross_entropy_gradient(const kernels::CrossEntropyScale& scale, const std::int64_t* targets, std::int64_t first,
                              std::int64_t rows, std::int64_t columns, T* softmax) const override {
    by_rows(kernel_of<kernels::CrossEntropyGradientArguments<T>>("cross_entropy_gradient"), rows, columns,
            {scale, targets, first, rows, columns, softmax});
  }

  void attention_merge(const AttentionTile& tile, T* scores, T* out, T* lse) const override {
    by_scores(kernel_of<kernels::AttentionMergeArguments<T>>("attention_merge"), tile, {tile, scores, out, lse});
  }
  void attention_weights(const AttentionTile& tile, T* scores, const T* lse) const override {
    by_scores(kernel_of<kernels::AttentionWeightsArguments<T>>("attention_weights"), tile, {tile, scores, lse});
  }
  void attention_slopes(const AttentionTile& tile, const T* weights, T* slopes, const T* along) const override {
    by_scores(kernel_of<kernels::AttentionSlopesArguments<T>>("attention_slopes"), tile,
              {tile, weights, slopes, along});
  }

 private:
  static constexpr KernelTable<kernels::ConvertArguments> kConvert{"convert"};
  static constexpr KernelTable<kernels::RoundArguments> kRound{"round"};
  static constexpr KernelTable<kernels::AddToArguments> kAddTo{"add_to"};

  DeviceRuntime& runtime() const { return *launcher_.device().runtime; }
  StreamRef stream() const { return launcher_.device().stream; }
  void zero(T* to, std::int64_t n) const {
    if (n == 0) return;
    const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
    runtime().zero_async({reinterpret_cast<std::byte*>(to), bytes, place_of(launcher_.device())}, stream());
  }
  template <class Argument>
  void elements(Kernel<Argument> kernel, std::int64_t n, const std::type_identity_t<Argument>& a) const {
    launcher_.start(kernel, launcher_.teams_for(n), a);
  }
  template <class Argument>
  void by_rows(Kernel<Argument> kernel, std::int64_t rows, std::int64_t width,
               const std::type_identity_t<Argument>& a) const {
    launcher_.start(kernel, launcher_.teams_for_rows(rows, width), a);
  }
  template <class Argument>
  void by_columns(Kernel<Argument> kernel, std::int64_t columns, const std::type_identity_t<Argument>& a) const {
    launcher_.start(kernel, launcher_.teams_for_columns(columns), a);
  }
  template <class Argument>
  void by_scores(Kernel<Argument> kernel, const AttentionTile& tile, const std::type_identity_t<Argument>& a) const {
    by_rows(kernel, tile.heads * tile.queries, tile.keys, a);
  }

  Launcher launcher_;
};

}  // namespace

template <class T>
std::shared_ptr<const LayerMath<T>> layer_math(const ComputeDevice& device) {
  if (!device.exists()) return host_math<T>();
  return std::make_shared<DeviceMath<T>>(device);
}

template std::shared_ptr<const LayerMath<float>> layer_math(const ComputeDevice& device);
template std::shared_ptr<const LayerMath<double>> layer_math(const ComputeDevice& device);

}  // namespace sinew::parallel
