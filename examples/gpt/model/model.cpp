#include "model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include "../layers/cross_entropy.hpp"
#include "../math/vector_math.hpp"
#include "../parameters.hpp"
#include "block.hpp"

namespace gpt {

using sinew::DType;
using sinew::parallel::Precision;
using sinew::parallel::Recompute;

/// The model in what it computes in.
class Network {
 public:
  virtual ~Network() = default;
  virtual double forward(Store& store, std::span<const std::uint8_t> sequences, int count) = 0;
  virtual void backward(Store& store, double scale) = 0;
  virtual std::size_t held_bytes() const noexcept = 0;
};

namespace {

constexpr int kRoot = 0;

std::size_t largest_parameter(const Shape& shape) {
  std::int64_t most = 0;
  for (const ParameterInfo& p : parameters(shape)) most = std::max(most, p.elements());
  return static_cast<std::size_t>(most);
}

template <class T>
class NetworkOf final : public Network {
 public:
  NetworkOf(const Shape& shape, Recompute recompute, const Precision& precision, Blas& blas)
      : shape_(shape),
        recompute_(recompute),
        precision_(precision),
        blas_(&blas),
        final_norm_{kFinalWeight, kFinalBias, shape.width} {
    for (int i = 0; i < shape.layers; ++i) blocks_.emplace_back(shape, i, recompute);
  }

  double forward(Store& store, std::span<const std::uint8_t> sequences, int count) override {
    if (count != count_) lay_out(count);
    split(sequences);
    store.before_forward(kRoot);
    embed(store);
    for (int i = 0; i < shape_.layers; ++i) {
      store.before_forward(i + 1);
      T* out = i + 1 < shape_.layers ? kept_[at(i + 1)].in.data() : last_.data();
      blocks_[at(i)].forward(store, *weights_, *blas_, count_, kept_[at(i)], out);
      hand_on({out, last_.size()});
      store.after_forward(i + 1);
    }
    final_norm_.forward(store, *weights_, rows(), last_.data(), mean_.data(), factor_.data(), normed_.data());
    blas_->multiply({.b_transposed = true,
                     .m = rows(),
                     .n = kVocabulary,
                     .k = shape_.width,
                     .la = shape_.width,
                     .lb = shape_.width,
                     .lc = kVocabulary},
                    T{1}, normed_.data(), weights_->matrix(store, kTokens), T{0}, logits_.data());
    const double loss = cross_entropy(logits_.data(), targets_.data(), rows());
    store.after_forward(kRoot);
    return loss;
  }

  void backward(Store& store, double scale) override {
    store.before_backward(kRoot);
    head_backward(store, scale);
    for (int i = shape_.layers; i-- > 0;) {
      store.before_backward(i + 1);
      blocks_[at(i)].backward(store, *weights_, *blas_, count_, kept_[at(i)], scratch_, d_.data());
      store.after_backward(i + 1);
    }
    embed_backward(store);
    store.after_backward(kRoot);
  }

  std::size_t held_bytes() const noexcept override { return memory_ ? memory_->bytes() : 0; }

 private:
  static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }
  int rows() const noexcept { return count_ * shape_.context; }

  void lay_out(int count) {
    weights_.reset();
    kept_.clear();
    memory_ = std::make_unique<Activations>();
    count_ = count;
    const std::size_t n = at(rows()), width = at(shape_.width);
    const BlockActivations<T> shared =
        recompute_ == Recompute::None ? BlockActivations<T>{} : Block<T>::all(*memory_, shape_, count);
    for (const Block<T>& block : blocks_) kept_.push_back(block.kept(*memory_, count, shared));
    last_ = memory_->take<T>(n * width);
    normed_ = memory_->take<T>(n * width);
    mean_ = memory_->take<T>(n);
    factor_ = memory_->take<T>(n);
    logits_ = memory_->take<T>(n * kVocabulary);
    d_ = memory_->take<T>(n * width);
    scratch_ = {memory_->take<T>(n * width), memory_->take<T>(n * 4 * width),
                memory_->take<T>(at(shape_.context) * at(shape_.context))};
    const std::size_t room = Weights<T>::room_for(precision_.parameter, precision_.gradient, largest_parameter(shape_));
    weights_.emplace(precision_.parameter, precision_.gradient, memory_->take<T>(room));
  }

  /// Bytes that are seen, and those that are to be predicted from them.
  void split(std::span<const std::uint8_t> sequences) {
    const std::size_t length = at(shape_.context);
    seen_.clear();
    targets_.clear();
    for (std::size_t s = 0; s < at(count_); ++s) {
      const auto one = sequences.subspan(s * (length + 1), length + 1);
      seen_.insert(seen_.end(), one.begin(), one.end() - 1);
      targets_.insert(targets_.end(), one.begin() + 1, one.end());
    }
  }

  /// What goes from unit to unit is rounded to the type that is asked for.
  void hand_on(std::span<T> values) {
    if constexpr (std::is_same_v<T, float>) {
      if (precision_.output != DType::BF16) return;
      std::array<sinew::BFloat16, 1024> rounded;
      for (std::size_t i = 0; i < values.size(); i += rounded.size()) {
        const std::size_t n = std::min(rounded.size(), values.size() - i);
        narrow(values.data() + i, rounded.data(), n);
        widen(rounded.data(), values.data() + i, n);
      }
    }
  }

  void embed(Store& store) {
    const std::size_t width = at(shape_.width);
    T* out = kept_[0].in.data();
    const T* positions = weights_->matrix(store, kPositions);
    for (std::size_t r = 0; r < seen_.size(); ++r)
      std::copy_n(positions + r % at(shape_.context) * width, width, out + r * width);
    const T* tokens = weights_->matrix(store, kTokens);
    for (std::size_t r = 0; r < seen_.size(); ++r) add(out + r * width, tokens + seen_[r] * width, width);
    hand_on(kept_[0].in);
  }

  void head_backward(Store& store, double scale) {
    cross_entropy_backward(logits_.data(), targets_.data(), rows(), scale);
    const std::size_t width = at(shape_.width);
    blas_->multiply(
        {.m = rows(), .n = shape_.width, .k = kVocabulary, .la = kVocabulary, .lb = shape_.width, .lc = shape_.width},
        T{1}, logits_.data(), weights_->matrix(store, kTokens), T{0}, scratch_.rows.data());
    weights_->add_gradient(store, kTokens, kVocabulary * width, [&](T* to, T beta) {
      blas_->multiply({.a_transposed = true,
                       .m = kVocabulary,
                       .n = shape_.width,
                       .k = rows(),
                       .la = kVocabulary,
                       .lb = shape_.width,
                       .lc = shape_.width},
                      T{1}, logits_.data(), normed_.data(), beta, to);
    });
    store.gradient_ready(kTokens);
    std::ranges::fill(d_, T{0});
    final_norm_.backward(store, *weights_, rows(), last_.data(), mean_.data(), factor_.data(), scratch_.rows.data(),
                         d_.data());
  }

  void embed_backward(Store& store) {
    const std::size_t width = at(shape_.width);
    const auto rows_into = [&](int parameter, std::size_t elements, const auto& row_of) {
      weights_->add_gradient(store, parameter, elements, [&](T* to, T beta) {
        if (beta == T{0}) std::fill_n(to, elements, T{0});
        for (std::size_t r = 0; r < seen_.size(); ++r) add(to + row_of(r) * width, d_.data() + r * width, width);
      });
      store.gradient_ready(parameter);
    };
    rows_into(kPositions, at(shape_.context) * width, [&](std::size_t r) { return r % at(shape_.context); });
    rows_into(kTokens, kVocabulary * width, [&](std::size_t r) { return std::size_t{seen_[r]}; });
  }

  Shape shape_;
  Recompute recompute_;
  Precision precision_;
  Blas* blas_;
  std::vector<Block<T>> blocks_;
  LayerNorm<T> final_norm_;
  int count_ = 0;
  std::unique_ptr<Activations> memory_;
  std::optional<Weights<T>> weights_;
  std::vector<BlockActivations<T>> kept_;
  std::span<T> last_, normed_, mean_, factor_, logits_, d_;
  BlockScratch<T> scratch_;
  std::vector<std::uint8_t> seen_, targets_;
};

}  // namespace

Model::Model(const Shape& shape, Recompute recompute, const Precision& precision, Blas& blas) {
  require_shape(shape);
  if (precision.parameter == DType::F64) {
    network_ = std::make_unique<NetworkOf<double>>(shape, recompute, precision, blas);
  } else {
    network_ = std::make_unique<NetworkOf<float>>(shape, recompute, precision, blas);
  }
}

Model::~Model() = default;

double Model::forward(Store& store, std::span<const std::uint8_t> sequences, int count) {
  return network_->forward(store, sequences, count);
}
void Model::backward(Store& store, double scale) { network_->backward(store, scale); }
std::size_t Model::held_bytes() const noexcept { return network_->held_bytes(); }

std::size_t Model::activation_bytes(const Shape& shape, Recompute recompute, const Precision& precision,
                                    int sequences) {
  const auto size = [](int i) { return static_cast<std::size_t>(i); };
  const std::size_t rows = size(sequences) * size(shape.context), width = size(shape.width);
  // Of a row: input, two norms, queries, keys and values, attention's output, the middle, the MLP's twice, four figures
  // of the norms, and weights of what each head sees.
  const std::size_t whole = 16 * width + 4 + size(shape.heads) * size(shape.context);
  const std::size_t selective = 10 * width + 4;
  std::size_t of_row = 0;
  switch (recompute) {
    case Recompute::None: of_row = size(shape.layers) * whole; break;
    case Recompute::Selective: of_row = size(shape.layers) * selective + whole; break;
    case Recompute::Full: of_row = size(shape.layers) * width + whole; break;
  }
  of_row += 2 * width + 2 + kVocabulary;  // the head
  of_row += 6 * width;                    // the backward pass
  const std::size_t largest = largest_parameter(shape);
  const std::size_t square = size(shape.context) * size(shape.context);
  if (precision.parameter == DType::F64) return (rows * of_row + square) * sizeof(double);
  return (rows * of_row + square + Weights<float>::room_for(precision.parameter, precision.gradient, largest)) *
         sizeof(float);
}

}  // namespace gpt
