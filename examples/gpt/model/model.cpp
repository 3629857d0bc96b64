#include "model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>

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

std::size_t largest_parameter(const Shape& shape, const Part& part) {
  std::int64_t most = 0;
  for (const ParameterInfo& p : parameters(shape, part)) most = std::max(most, p.elements());
  return static_cast<std::size_t>(most);
}

/// Elements of the widest row inside a layer.
std::size_t widest(const Shape& shape, const Part& part) {
  return static_cast<std::size_t>(std::max(part.bent(shape).count(), 3 * part.mixed(shape).count()));
}

template <class T>
class NetworkOf final : public Network {
 public:
  NetworkOf(const Shape& shape, const Part& part, Recompute recompute, const Precision& precision, Blas& blas,
            sinew::Communicator& group)
      : shape_(shape),
        part_(part),
        recompute_(recompute),
        precision_(precision),
        blas_(&blas),
        group_(&group),
        replicated_(part.sequence_parallel ? &group : nullptr),
        final_norm_{kFinalWeight, kFinalBias, shape.width, replicated_} {}

  double forward(Store& store, std::span<const std::uint8_t> sequences, int count) override {
    if (count != count_) lay_out(count);
    split(sequences);
    store.before_forward(kRoot);
    embed(store);
    for (int i = 0; i < shape_.layers; ++i) {
      store.before_forward(i + 1);
      T* out = i + 1 < shape_.layers ? kept_[at(i + 1)].in.data() : last_.data();
      blocks_[at(i)]->forward(store, *weights_, kept_[at(i)], scratch_, out);
      hand_on({out, last_.size()});
      store.after_forward(i + 1);
    }
    final_norm_.forward(store, *weights_, own_rows(), last_.data(), mean_.data(), factor_.data(), normed_.data());
    head_->forward(store, *weights_, normed_.data(), scratch_.gathered.data(), logits_.data());
    const double loss = loss_->forward(logits_.data(), targets_).sum;
    store.after_forward(kRoot);
    return loss;
  }

  void backward(Store& store, double scale) override {
    store.before_backward(kRoot);
    loss_->backward(logits_.data(), targets_, scale);
    head_->backward(store, *weights_, normed_.data(), logits_.data(), scratch_.gathered.data(), scratch_.other.data(),
                    scratch_.rows.data());
    std::ranges::fill(d_, T{0});
    final_norm_.backward(store, *weights_, own_rows(), last_.data(), mean_.data(), factor_.data(), scratch_.rows.data(),
                         d_.data());
    for (int i = shape_.layers; i-- > 0;) {
      store.before_backward(i + 1);
      blocks_[at(i)]->backward(store, *weights_, kept_[at(i)], scratch_, d_.data());
      store.after_backward(i + 1);
    }
    embed_backward(store);
    store.after_backward(kRoot);
  }

  std::size_t held_bytes() const noexcept override { return memory_ ? memory_->bytes() : 0; }

 private:
  static std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
  BlockShape block_shape() const noexcept { return {shape_, part_, count_}; }
  int own_rows() const noexcept { return static_cast<int>(block_shape().own_rows()); }

  void lay_out(int count) {
    weights_.reset();
    kept_.clear();
    blocks_.clear();
    memory_ = std::make_unique<Activations>();
    count_ = count;
    const BlockShape shape = block_shape();
    for (int i = 0; i < shape_.layers; ++i)
      blocks_.push_back(std::make_unique<Block<T>>(shape, i, recompute_, *group_, *blas_));
    head_.emplace(*group_, *blas_, shape.linear("head", shape_.width, kVocabulary), kTokens, -1);
    loss_.emplace(*group_, "tp", sinew::parallel::CrossEntropyShape{"head", shape.rows(), kVocabulary});
    tokens_.emplace(*group_, "tp",
                    sinew::parallel::EmbeddingShape{
                        "tokens", shape.rows(), kVocabulary, shape_.width, {}, part_.sequence_parallel, {}});
    const std::size_t n = at(shape.rows()), own = at(shape.own_rows()), width = at(shape_.width);
    const BlockActivations<T> shared =
        recompute_ == Recompute::None ? BlockActivations<T>{} : Block<T>::all(*memory_, shape);
    for (const auto& block : blocks_) kept_.push_back(block->kept(*memory_, shared));
    last_ = memory_->take<T>(own * width);
    normed_ = memory_->take<T>(own * width);
    mean_ = memory_->take<T>(own);
    factor_ = memory_->take<T>(own);
    logits_ = memory_->take<T>(n * at(part_.vocabulary().count()));
    d_ = memory_->take<T>(own * width);
    scratch_ = {.rows = memory_->take<T>(own * width),
                .wide = memory_->take<T>(n * widest(shape_, part_)),
                .square = memory_->take<T>(at(shape_.context) * at(shape_.context))};
    if (part_.sequence_parallel) {
      scratch_.gathered = memory_->take<T>(n * width);
      scratch_.other = memory_->take<T>(n * width);
    }
    const std::size_t room =
        Weights<T>::room_for(precision_.parameter, precision_.gradient, largest_parameter(shape_, part_));
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

  /// The position of each row that this rank has, one behind the other.
  template <class F>
  void for_each_position(const F& f) const {
    const sinew::parallel::Rows own = part_.rows(block_shape().rows());
    for (std::int64_t r = own.first; r < own.last; ++r) f(at(r - own.first), at(r % shape_.context));
  }

  void embed(Store& store) {
    const std::size_t width = at(shape_.width);
    T* out = kept_[0].in.data();
    T* whole = part_.sequence_parallel ? scratch_.other.data() : out;
    tokens_->forward(seen_, weights_->matrix(store, kTokens), whole, out);
    const T* positions = weights_->matrix(store, kPositions);
    for_each_position(
        [&](std::size_t row, std::size_t position) { add(out + row * width, positions + position * width, width); });
    hand_on(kept_[0].in);
  }

  void embed_backward(Store& store) {
    const std::size_t width = at(shape_.width);
    std::vector<T> of_positions(at(shape_.context) * width);
    for_each_position([&](std::size_t row, std::size_t position) {
      add(of_positions.data() + position * width, d_.data() + row * width, width);
    });
    replicated_.sum(of_positions);
    replicated_.report(store, *weights_, kPositions, of_positions);
    weights_->add_gradient(store, kTokens, at(part_.vocabulary().count()) * width, [&](T* to, T beta) {
      tokens_->backward(seen_, d_.data(), scratch_.gathered.data(), beta, to);
    });
    store.gradient_ready(kTokens);
  }

  Shape shape_;
  Part part_;
  Recompute recompute_;
  Precision precision_;
  Blas* blas_;
  sinew::Communicator* group_;
  Replicated<T> replicated_;
  LayerNorm<T> final_norm_;
  int count_ = 0;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::optional<Columns<T>> head_;
  std::optional<sinew::parallel::VocabularyCrossEntropy<T>> loss_;
  std::optional<sinew::parallel::VocabularyEmbedding<T>> tokens_;
  std::unique_ptr<Activations> memory_;
  std::optional<Weights<T>> weights_;
  std::vector<BlockActivations<T>> kept_;
  std::span<T> last_, normed_, mean_, factor_, logits_, d_;
  BlockScratch<T> scratch_;
  std::vector<std::int64_t> seen_, targets_;
};

}  // namespace

Model::Model(const Shape& shape, Recompute recompute, const Precision& precision, Blas& blas,
             sinew::Communicator* group, bool sequence_parallel) {
  require_shape(shape);
  sinew::Communicator& ranks = group != nullptr ? *group : alone_;
  const sinew::parallel::GroupPlace place(ranks);
  const Part part{place.rank, place.ranks, sequence_parallel};
  if (precision.parameter == DType::F64) {
    network_ = std::make_unique<NetworkOf<double>>(shape, part, recompute, precision, blas, ranks);
  } else {
    network_ = std::make_unique<NetworkOf<float>>(shape, part, recompute, precision, blas, ranks);
  }
}

Model::~Model() = default;

double Model::forward(Store& store, std::span<const std::uint8_t> sequences, int count) {
  return network_->forward(store, sequences, count);
}
void Model::backward(Store& store, double scale) { network_->backward(store, scale); }
std::size_t Model::held_bytes() const noexcept { return network_->held_bytes(); }

std::size_t Model::activation_bytes(const Shape& shape, const Part& part, Recompute recompute,
                                    const Precision& precision, int sequences) {
  const auto size = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const BlockShape block{shape, part, sequences};
  const std::size_t rows = size(block.rows()), own = size(block.own_rows()), width = size(shape.width);
  const std::size_t mixed = size(part.mixed(shape).count()), bent = size(part.bent(shape).count());
  const std::size_t seen = size(part.of(shape.heads).count()) * size(shape.context);
  // Of a row between layers: input, two norms, the middle, four figures of the norms. Of one inside: queries, keys and
  // values, what heads see, their output, the MLP's twice.
  const std::size_t whole = own * (4 * width + 4) + rows * (4 * mixed + 2 * bent + seen);
  const std::size_t selective = own * (2 * width + 4) + rows * (4 * mixed + bent);
  std::size_t elements = 0;
  switch (recompute) {
    case Recompute::None: elements = size(shape.layers) * whole; break;
    case Recompute::Selective: elements = size(shape.layers) * selective + whole; break;
    case Recompute::Full: elements = size(shape.layers) * own * width + whole; break;
  }
  elements += own * (2 * width + 2) + rows * size(part.vocabulary().count());  // the head
  elements += own * 2 * width + rows * widest(shape, part);                    // the backward pass
  if (part.sequence_parallel) elements += 2 * rows * width;                    // what is gathered
  elements += size(shape.context) * size(shape.context);
  if (precision.parameter == DType::F64) return elements * sizeof(double);
  return (elements +
          Weights<float>::room_for(precision.parameter, precision.gradient, largest_parameter(shape, part))) *
         sizeof(float);
}

}  // namespace gpt
