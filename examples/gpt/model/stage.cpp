#include "stage.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "../layers/attention.hpp"
#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {

using sinew::DType;
using sinew::parallel::Precision;
using sinew::parallel::Recompute;
using sinew::parallel::TokenLoss;

namespace {

constexpr int kRoot = 0;
constexpr std::int64_t kIgnored = -100;  // a target that counts for nothing

std::size_t largest_parameter(const Shape& shape, const Part& part) {
  std::int64_t most = 0;
  for (const ParameterInfo& p : parameters(shape, part)) most = std::max(most, p.elements());
  return static_cast<std::size_t>(most);
}

/// Elements that the mixer of any of these blocks keeps.
template <class T>
std::size_t largest_mixer(const BlockShape& shape, const StagePart& blocks) {
  std::size_t most = 0;
  for (int i = blocks.first_block; i < blocks.last_block; ++i)
    most = std::max(most, Block<T>::mixer_elements(shape, i));
  return most;
}

}  // namespace

template <class T>
Stage<T>::Stage(const Shape& shape, const StagePart& blocks, const ModelOptions& options, Blas& blas,
                const ModelRanks& ranks, sinew::Communicator& alone)
    : shape_(shape),
      blocks_of_(blocks),
      part_(ranks.part()),
      options_(options),
      blas_(&blas),
      group_(ranks.tensor != nullptr ? ranks.tensor : &alone),
      head_sharers_(ranks.head_sharers != nullptr ? ranks.head_sharers : &alone),
      ring_(ranks.ring != nullptr ? ranks.ring : &alone),
      context_(ranks.context != nullptr ? ranks.context : &alone),
      replicated_(part_.sequence_parallel ? group_ : nullptr),
      final_norm_{kFinalWeight, kFinalBias, shape.width, replicated_} {}

template <class T>
TokenLoss Stage<T>::forward(Store& store, int slot, std::span<const std::uint8_t> sequences, int count,
                            const Pass& pass, const T* in, T* out) {
  if (count != count_) lay_out(count);
  StageSlot<T>& s = slots_[at(slot)];
  s.pass = pass;
  split(s, sequences);
  open(slot);
  store.before_forward(kRoot);
  if (blocks_of_.embeds) {
    embed(store, s);
  } else {
    std::copy_n(in, d_.size(), s.kept.front().in.data());
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int unit = blocks_of_.first_block + static_cast<int>(i) + 1;
    store.before_forward(unit);
    T* to = i + 1 < blocks_.size() ? s.kept[i + 1].in.data() : blocks_of_.predicts ? s.last.data() : out;
    blocks_[i]->forward(store, *weights_, s.kept[i], scratch_, to);
    hand_on({to, d_.size()});
    store.after_forward(unit);
  }
  const TokenLoss loss = blocks_of_.predicts ? predict(store, s) : TokenLoss{};
  store.after_forward(kRoot);
  return loss;
}

template <class T>
void Stage<T>::backward(Store& store, int slot, double scale, const T* dout, T* din) {
  StageSlot<T>& s = open(slot);
  store.before_backward(kRoot);
  if (blocks_of_.predicts) {
    predict_backward(store, s, scale);
  } else {
    std::copy_n(dout, d_.size(), d_.data());
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const int unit = blocks_of_.first_block + static_cast<int>(i) + 1;
    store.before_backward(unit);
    blocks_[i]->backward(store, *weights_, s.kept[i], scratch_, d_.data());
    store.after_backward(unit);
  }
  if (blocks_of_.embeds) {
    embed_backward(store, s);
  } else {
    std::copy_n(d_.data(), d_.size(), din);
  }
  store.after_backward(kRoot);
}

template <class T>
void Stage<T>::backward_input(Store& store, int slot, double scale, const T* dout, T* din) {
  weights_->later = &slots_[at(slot)].later;
  backward(store, slot, scale, dout, din);
  weights_->later = nullptr;
}

/// Elements of what a micro-batch's gradients are made of that are deferred.
template <class T>
std::int64_t Stage<T>::deferred_for(const BlockShape& shape, const StagePart& blocks) {
  if (!blocks.defers) return 0;
  std::int64_t elements = blocks.predicts ? shape.rows() * shape.part.vocabulary().count() : 0;
  for (int i = blocks.first_block; i < blocks.last_block; ++i) elements += Block<T>::deferred_elements(shape, i);
  return elements;
}

template <class T>
TokenLoss Stage<T>::predict(Store& store, StageSlot<T>& s) {
  final_norm_.forward(store, *weights_, own_rows(), s.last.data(), s.mean.data(), s.factor.data(), s.normed.data());
  head_->forward(store, *weights_, s.normed.data(), scratch_.gathered.data(), s.logits.data());
  return loss_->forward(s.logits.data(), s.targets);
}

template <class T>
void Stage<T>::predict_backward(Store& store, StageSlot<T>& s, double scale) {
  loss_->backward(s.logits.data(), s.targets, scale);
  head_->backward(store, *weights_, s.normed.data(), s.logits.data(), scratch_.gathered.data(), scratch_.other.data(),
                  scratch_.rows.data());
  std::ranges::fill(d_, T{0});
  final_norm_.backward(store, *weights_, own_rows(), s.last.data(), s.mean.data(), s.factor.data(),
                       scratch_.rows.data(), d_.data());
}

template <class T>
std::size_t Stage<T>::held_bytes() const noexcept {
  if (!memory_) return 0;
  return memory_->bytes() + (attention_ ? attention_->held_bytes() : 0) + (scan_ ? scan_->held_bytes() : 0);
}

template <class T>
void Stage<T>::lay_out(int count) {
  weights_.reset();
  slots_.clear();
  blocks_.clear();  // they use what follows
  count_ = count;
  const BlockShape shape = block_shape();
  places_.emplace(shape);
  if (shape_.has_attention()) attention_.emplace(*head_sharers_, *ring_, *blas_, attention_shape(shape));
  if (shape_.has_scans()) scan_.emplace(shape, *context_);
  for (int i = blocks_of_.first_block; i < blocks_of_.last_block; ++i)
    blocks_.push_back(std::make_unique<Block<T>>(
        shape, i, options_.recompute,
        BlockSurroundings<T>{*group_, *blas_, attention_ ? &*attention_ : nullptr, scan_ ? &*scan_ : nullptr, masks_,
                             *places_, pass_, options_.seed}));
  if (blocks_of_.predicts) {
    head_.emplace(*group_, *blas_, shape.linear("head", shape_.width, kVocabulary), kTokens, -1);
    loss_.emplace(*group_, "tp",
                  sinew::parallel::CrossEntropyShape{"head", shape.rows(), kVocabulary, {}, 0, kIgnored});
  }
  if (blocks_of_.embeds)
    tokens_.emplace(*group_, "tp",
                    sinew::parallel::EmbeddingShape{
                        "tokens", shape.rows(), kVocabulary, shape_.width, {}, part_.sequence_parallel, {}});
  take_memory(shape);
}

template <class T>
void Stage<T>::take_memory(const BlockShape& shape) {
  memory_ = std::make_unique<Activations>();
  const std::size_t n = at(shape.rows()), own = at(shape.own_rows()), width = at(shape_.width);
  const BlockActivations<T> shared = options_.recompute == Recompute::None
                                         ? BlockActivations<T>{}
                                         : Block<T>::all(*memory_, shape, largest_mixer<T>(shape, blocks_of_));
  for (int i = 0; i < blocks_of_.micro_batches; ++i) {
    StageSlot<T>& slot = slots_.emplace_back();
    for (const auto& block : blocks_) slot.kept.push_back(block->kept(*memory_, shared));
    slot.later = Deferral<T>(memory_->take<T>(at(deferred_for(shape, blocks_of_))));
    if (!blocks_of_.predicts) continue;
    slot.last = memory_->take<T>(own * width);
    slot.normed = memory_->take<T>(own * width);
    slot.mean = memory_->take<T>(own);
    slot.factor = memory_->take<T>(own);
    slot.logits = memory_->take<T>(n * at(part_.vocabulary().count()));
  }
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

template <class T>
std::size_t Stage<T>::held_for(const BlockShape& block, const StagePart& blocks, const ModelOptions& options) {
  const Shape& shape = block.whole;
  const std::size_t rows = at(block.rows()), own = at(block.own_rows()), width = at(shape.width);
  const std::size_t bent = at(block.part.bent(shape).count());
  // Of a row between layers: input, two norms, the middle, four figures of the norms. Of one inside: the MLP's twice.
  const std::size_t row = own * (4 * width + 4) + rows * 2 * bent;
  std::size_t slot = at(deferred_for(block, blocks));
  for (int i = blocks.first_block; i < blocks.last_block; ++i) {
    switch (options.recompute) {
      case Recompute::None: slot += row + Block<T>::mixer_elements(block, i); break;
      case Recompute::Selective:
        slot += own * (2 * width + 4) + rows * bent + Block<T>::mixer_elements(block, i);
        break;
      case Recompute::Full: slot += own * width; break;
    }
  }
  if (blocks.predicts) slot += own * (2 * width + 2) + rows * at(block.part.vocabulary().count());
  std::size_t elements = at(blocks.micro_batches) * slot;
  if (options.recompute != Recompute::None) elements += row + largest_mixer<T>(block, blocks);  // what blocks share
  elements += own * 2 * width + rows * at(Block<T>::widest_row(block));                         // the backward pass
  if (shape.dropout > 0) elements += own * width;
  if (block.part.sequence_parallel) elements += (rows + at(block.partial_rows())) * width;  // what is gathered
  if (shape.has_attention())
    elements += sinew::parallel::ContextAttention<T>::room_for(attention_shape(block), block.part.context_rank);
  if (shape.has_scans()) elements += at(ScanParts<T>::room_for(block));
  const Precision& precision = options.precision;
  return elements + Weights<T>::room_for(precision.parameter, precision.gradient, largest_parameter(shape, block.part));
}

/// What blocks look at is that of this slot.
template <class T>
StageSlot<T>& Stage<T>::open(int slot) {
  StageSlot<T>& s = slots_[at(slot)];
  pass_ = s.pass;
  masks_ = s.masks;
  return s;
}

/// Of this rank's positions the bytes that are seen and those that are to be predicted from them; where documents end.
template <class T>
void Stage<T>::split(StageSlot<T>& slot, std::span<const std::uint8_t> sequences) const {
  const std::size_t length = at(shape_.context);
  slot.seen.clear();
  slot.targets.clear();
  slot.masks.clear();
  for (std::size_t s = 0; s < at(count_); ++s) {
    const auto one = sequences.subspan(s * (length + 1), length + 1);
    const auto ends = [&](std::size_t position) { return int{one[position]} == shape_.document_end; };
    for (const std::int64_t p : places_->positions()) {
      slot.seen.push_back(one[at(p)]);
      slot.targets.push_back(ends(at(p)) ? kIgnored : std::int64_t{one[at(p) + 1]});
    }
    std::vector<std::int64_t> starts;
    for (std::size_t p = 1; p < length; ++p) {
      if (ends(p - 1)) starts.push_back(static_cast<std::int64_t>(p));
    }
    slot.masks.emplace_back(true, std::move(starts));
  }
}

/// What goes from unit to unit is rounded to the type that is asked for.
template <class T>
void Stage<T>::hand_on(std::span<T> values) const {
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
template <class T>
template <class F>
void Stage<T>::for_each_position(const F& f) const {
  for (std::int64_t r = 0; r < own_rows(); ++r) f(at(r), at(places_->position_of(r)));
}

template <class T>
void Stage<T>::embed(Store& store, StageSlot<T>& slot) {
  const std::size_t width = at(shape_.width);
  T* out = slot.kept.front().in.data();
  T* whole = part_.sequence_parallel ? scratch_.other.data() : out;
  tokens_->forward(slot.seen, weights_->matrix(store, kTokens), whole, out);
  const T* positions = weights_->matrix(store, kPositions);
  for_each_position(
      [&](std::size_t row, std::size_t position) { add(out + row * width, positions + position * width, width); });
  hand_on(slot.kept.front().in);
}

template <class T>
void Stage<T>::embed_backward(Store& store, StageSlot<T>& slot) {
  const std::size_t width = at(shape_.width);
  std::vector<T> of_positions(at(shape_.context) * width);
  for_each_position([&](std::size_t row, std::size_t position) {
    add(of_positions.data() + position * width, d_.data() + row * width, width);
  });
  replicated_.sum(of_positions);
  replicated_.report(store, *weights_, kPositions, of_positions);
  weights_->add_gradient(store, kTokens, at(part_.vocabulary().count()) * width, [&](T* to, T beta) {
    tokens_->backward(slot.seen, d_.data(), scratch_.gathered.data(), beta, to);
  });
  store.gradient_ready(kTokens);
}

template class Stage<float>;
template class Stage<double>;

}  // namespace gpt
