#include "model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>

#include "../layers/attention.hpp"
#include "../math/vector_math.hpp"
#include "../parameters.hpp"
#include "block.hpp"

namespace gpt {

using sinew::DType;
using sinew::parallel::Precision;
using sinew::parallel::Recompute;
using sinew::parallel::TokenLoss;

/// The model in what it computes in.
class Network {
 public:
  virtual ~Network() = default;
  virtual TokenLoss forward(Store& store, std::span<const std::uint8_t> sequences, int count, const Pass& pass) = 0;
  virtual void backward(Store& store, double scale) = 0;
  virtual std::size_t held_bytes() const noexcept = 0;
};

namespace {

constexpr int kRoot = 0;
constexpr std::int64_t kIgnored = -100;  // a target that counts for nothing

std::size_t largest_parameter(const Shape& shape, const Part& part) {
  std::int64_t most = 0;
  for (const ParameterInfo& p : parameters(shape, part)) most = std::max(most, p.elements());
  return static_cast<std::size_t>(most);
}

template <class T>
class NetworkOf final : public Network {
 public:
  NetworkOf(const Shape& shape, const ModelOptions& options, Blas& blas, const ModelRanks& ranks,
            sinew::Communicator& alone)
      : shape_(shape),
        part_(ranks.part()),
        options_(options),
        blas_(&blas),
        group_(ranks.tensor != nullptr ? ranks.tensor : &alone),
        head_sharers_(ranks.head_sharers != nullptr ? ranks.head_sharers : &alone),
        ring_(ranks.ring != nullptr ? ranks.ring : &alone),
        context_(ranks.context != nullptr ? ranks.context : &alone),
        replicated_(part_.sequence_parallel ? group_ : nullptr),
        final_norm_{kFinalWeight, kFinalBias, shape.width, replicated_} {}

  TokenLoss forward(Store& store, std::span<const std::uint8_t> sequences, int count, const Pass& pass) override {
    if (count != count_) lay_out(count);
    pass_ = pass;
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
    const TokenLoss loss = loss_->forward(logits_.data(), targets_);
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

  std::size_t held_bytes() const noexcept override {
    if (!memory_) return 0;
    return memory_->bytes() + (attention_ ? attention_->held_bytes() : 0) + (scan_ ? scan_->held_bytes() : 0);
  }

 private:
  static std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
  BlockShape block_shape() const noexcept { return {shape_, part_, count_}; }
  int own_rows() const { return static_cast<int>(block_shape().own_rows()); }

  void lay_out(int count) {
    weights_.reset();
    kept_.clear();
    blocks_.clear();  // they use what follows
    count_ = count;
    const BlockShape shape = block_shape();
    places_.emplace(shape);
    if (shape_.has_attention()) attention_.emplace(*head_sharers_, *ring_, *blas_, attention_shape(shape));
    if (shape_.has_scans()) scan_.emplace(shape, *context_);
    for (int i = 0; i < shape_.layers; ++i)
      blocks_.push_back(std::make_unique<Block<T>>(
          shape, i, options_.recompute,
          BlockSurroundings<T>{*group_, *blas_, attention_ ? &*attention_ : nullptr, scan_ ? &*scan_ : nullptr, masks_,
                               *places_, pass_, options_.seed}));
    head_.emplace(*group_, *blas_, shape.linear("head", shape_.width, kVocabulary), kTokens, -1);
    loss_.emplace(*group_, "tp",
                  sinew::parallel::CrossEntropyShape{"head", shape.rows(), kVocabulary, {}, 0, kIgnored});
    tokens_.emplace(*group_, "tp",
                    sinew::parallel::EmbeddingShape{
                        "tokens", shape.rows(), kVocabulary, shape_.width, {}, part_.sequence_parallel, {}});
    take_memory(shape);
  }

  void take_memory(const BlockShape& shape) {
    memory_ = std::make_unique<Activations>();
    const std::size_t n = at(shape.rows()), own = at(shape.own_rows()), width = at(shape_.width);
    std::size_t mixer = 0;
    for (int i = 0; i < shape_.layers; ++i) mixer = std::max(mixer, Block<T>::mixer_elements(shape, i));
    const BlockActivations<T> shared =
        options_.recompute == Recompute::None ? BlockActivations<T>{} : Block<T>::all(*memory_, shape, mixer);
    for (const auto& block : blocks_) kept_.push_back(block->kept(*memory_, shared));
    last_ = memory_->take<T>(own * width);
    normed_ = memory_->take<T>(own * width);
    mean_ = memory_->take<T>(own);
    factor_ = memory_->take<T>(own);
    logits_ = memory_->take<T>(n * at(part_.vocabulary().count()));
    d_ = memory_->take<T>(own * width);
    scratch_ = {.rows = memory_->take<T>(own * width), .wide = memory_->take<T>(n * at(Block<T>::widest_row(shape)))};
    if (shape_.dropout > 0) scratch_.dropped = memory_->take<T>(own * width);
    if (part_.sequence_parallel) {
      scratch_.gathered = memory_->take<T>(n * width);
      scratch_.other = memory_->take<T>(at(shape.partial_rows()) * width);
    }
    const Precision& precision = options_.precision;
    const std::size_t room =
        Weights<T>::room_for(precision.parameter, precision.gradient, largest_parameter(shape_, part_));
    weights_.emplace(precision.parameter, precision.gradient, memory_->take<T>(room));
  }

  /// Of this rank's positions the bytes that are seen and those that are to be predicted from them; where documents
  /// end.
  void split(std::span<const std::uint8_t> sequences) {
    const std::size_t length = at(shape_.context);
    seen_.clear();
    targets_.clear();
    masks_.clear();
    for (std::size_t s = 0; s < at(count_); ++s) {
      const auto one = sequences.subspan(s * (length + 1), length + 1);
      const auto ends = [&](std::size_t position) { return int{one[position]} == shape_.document_end; };
      for (const std::int64_t p : places_->positions()) {
        seen_.push_back(one[at(p)]);
        targets_.push_back(ends(at(p)) ? kIgnored : std::int64_t{one[at(p) + 1]});
      }
      std::vector<std::int64_t> starts;
      for (std::size_t p = 1; p < length; ++p) {
        if (ends(p - 1)) starts.push_back(static_cast<std::int64_t>(p));
      }
      masks_.emplace_back(true, std::move(starts));
    }
  }

  /// What goes from unit to unit is rounded to the type that is asked for.
  void hand_on(std::span<T> values) {
    if constexpr (std::is_same_v<T, float>) {
      if (options_.precision.output != DType::BF16) return;
      std::array<sinew::BFloat16, 1024> rounded;
      for (std::size_t i = 0; i < values.size(); i += rounded.size()) {
        const std::size_t n = std::min(rounded.size(), values.size() - i);
        narrow(values.data() + i, rounded.data(), n);
        widen(rounded.data(), values.data() + i, n);
      }
    }
  }

  /// f(row, its position) of each row that this rank has between layers.
  template <class F>
  void for_each_position(const F& f) const {
    for (std::int64_t r = 0; r < own_rows(); ++r) f(at(r), at(places_->position_of(r)));
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
  ModelOptions options_;
  Blas* blas_;
  sinew::Communicator *group_, *head_sharers_, *ring_, *context_;
  Replicated<T> replicated_;
  LayerNorm<T> final_norm_;
  int count_ = 0;
  Pass pass_;
  std::vector<sinew::parallel::AttentionMask> masks_;
  std::optional<TokenPlaces> places_;
  std::optional<sinew::parallel::ContextAttention<T>> attention_;
  std::optional<ScanParts<T>> scan_;
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

/// Elements of T of all activations.
template <class T>
std::size_t activation_elements(const BlockShape& block, const ModelOptions& options) {
  const auto size = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const Shape& shape = block.whole;
  const std::size_t rows = size(block.rows()), own = size(block.own_rows()), width = size(shape.width);
  const std::size_t bent = size(block.part.bent(shape).count());
  // Of a row between layers: input, two norms, the middle, four figures of the norms. Of one inside: the MLP's twice.
  const std::size_t row = own * (4 * width + 4) + rows * 2 * bent;
  std::size_t elements = 0, mixer = 0;
  for (int i = 0; i < shape.layers; ++i) {
    const std::size_t mixes = Block<T>::mixer_elements(block, i);
    mixer = std::max(mixer, mixes);
    switch (options.recompute) {
      case Recompute::None: elements += row + mixes; break;
      case Recompute::Selective: elements += own * (2 * width + 4) + rows * bent + mixes; break;
      case Recompute::Full: elements += own * width; break;
    }
  }
  if (options.recompute != Recompute::None) elements += row + mixer;                 // what blocks share
  elements += own * (2 * width + 2) + rows * size(block.part.vocabulary().count());  // the head
  elements += own * 2 * width + rows * size(Block<T>::widest_row(block));            // the backward pass
  if (shape.dropout > 0) elements += own * width;
  if (block.part.sequence_parallel) elements += (rows + size(block.partial_rows())) * width;  // what is gathered
  if (shape.has_attention())
    elements += sinew::parallel::ContextAttention<T>::room_for(attention_shape(block), block.part.context_rank);
  if (shape.has_scans()) elements += size(ScanParts<T>::room_for(block));
  const Precision& precision = options.precision;
  return elements + Weights<T>::room_for(precision.parameter, precision.gradient, largest_parameter(shape, block.part));
}

}  // namespace

Part ModelRanks::part() const {
  const auto place = [](const sinew::Communicator* group) {
    return group != nullptr ? sinew::parallel::GroupPlace(*group) : sinew::parallel::GroupPlace(sinew::Communicator());
  };
  const auto layers = place(tensor), heads = place(head_sharers), around = place(ring);
  return {layers.rank,
          layers.ranks,
          sequence_parallel,
          decomposed,
          around.rank * heads.ranks + heads.rank,
          around.ranks * heads.ranks,
          heads.ranks};
}

Model::Model(const Shape& shape, const ModelOptions& options, Blas& blas, const ModelRanks& ranks) {
  require_shape(shape);
  if (options.precision.parameter == DType::F64) {
    network_ = std::make_unique<NetworkOf<double>>(shape, options, blas, ranks, alone_);
  } else {
    network_ = std::make_unique<NetworkOf<float>>(shape, options, blas, ranks, alone_);
  }
}

Model::~Model() = default;

TokenLoss Model::forward(Store& store, std::span<const std::uint8_t> sequences, int count, const Pass& pass) {
  return network_->forward(store, sequences, count, pass);
}
void Model::backward(Store& store, double scale) { network_->backward(store, scale); }
std::size_t Model::held_bytes() const noexcept { return network_->held_bytes(); }

std::size_t Model::activation_bytes(const Shape& shape, const Part& part, const ModelOptions& options, int sequences) {
  const BlockShape block{shape, part, sequences};
  if (options.precision.parameter == DType::F64) return activation_elements<double>(block, options) * sizeof(double);
  return activation_elements<float>(block, options) * sizeof(float);
}

}  // namespace gpt
