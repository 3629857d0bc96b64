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

bool has_experts(const Shape& shape, const StagePart& blocks) noexcept {
  for (int i = blocks.first_block; i < blocks.last_block; ++i) {
    if (shape.has_experts(i)) return true;
  }
  return false;
}

bool has_mlp(const Shape& shape, const StagePart& blocks) noexcept {
  for (int i = blocks.first_block; i < blocks.last_block; ++i) {
    if (!shape.has_experts(i)) return true;
  }
  return false;
}

}  // namespace

template <class T>
Stage<T>::Stage(const Shape& shape, const StagePart& blocks, const ModelOptions& options, Blas& blas,
                const ModelRanks& ranks, sinew::Communicator& alone, Routers& routers, SampleSums<T>* sums)
    : shape_(shape),
      blocks_of_(blocks),
      part_(ranks.part()),
      options_(options),
      blas_(&blas),
      group_(ranks.tensor != nullptr ? ranks.tensor : &alone),
      head_sharers_(ranks.head_sharers != nullptr ? ranks.head_sharers : &alone),
      ring_(ranks.ring != nullptr ? ranks.ring : &alone),
      context_(ranks.context != nullptr ? ranks.context : &alone),
      experts_ranks_(ranks.experts),
      sums_(sums),
      replicated_(part_.sequence_parallel ? group_ : nullptr),
      final_norm_{kFinalWeight, kFinalBias, shape.width, replicated_} {
  if (experts_ranks_.experts.experts == nullptr) experts_ranks_.experts.experts = &alone;
  if (experts_ranks_.sequences == nullptr) experts_ranks_.sequences = &alone;
  if (experts_ranks_.routers == nullptr) experts_ranks_.routers = &routers;
}

template <class T>
TokenLoss Stage<T>::forward(Store& store, int slot, std::span<const std::uint8_t> sequences, int count,
                            const Pass& pass, const T* in, T* out) {
  if (count != count_) lay_out(count);
  StageSlot<T>& s = at_.slots[at(slot)];
  s.pass = pass;
  split(s, sequences);
  open(slot);
  store.before_forward(kRoot);
  if (blocks_of_.embeds) {
    embed(store, s);
  } else {
    std::copy_n(in, at_.d.size(), s.kept.front().in.data());
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int unit = blocks_of_.first_block + static_cast<int>(i) + 1;
    store.before_forward(unit);
    T* to = i + 1 < blocks_.size() ? s.kept[i + 1].in.data() : blocks_of_.predicts ? s.last.data() : out;
    blocks_[i]->forward(store, *weights_, s.kept[i], at_.scratch, to);
    hand_on({to, at_.d.size()});
    store.after_forward(unit);
  }
  const TokenLoss loss = blocks_of_.predicts ? predict(store, s) : TokenLoss{};
  store.after_forward(kRoot);
  return loss;
}

template <class T>
void Stage<T>::backward(Store& store, int slot, double scale, const T* dout, T* din) {
  StageSlot<T>& s = open(slot);
  loss_scale_ = scale;
  store.before_backward(kRoot);
  if (blocks_of_.predicts) {
    predict_backward(store, s, scale);
  } else {
    std::copy_n(dout, at_.d.size(), at_.d.data());
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const int unit = blocks_of_.first_block + static_cast<int>(i) + 1;
    store.before_backward(unit);
    blocks_[i]->backward(store, *weights_, s.kept[i], at_.scratch, at_.d.data());
    store.after_backward(unit);
  }
  if (blocks_of_.embeds) {
    embed_backward(store, s);
  } else {
    std::copy_n(at_.d.data(), at_.d.size(), din);
  }
  store.after_backward(kRoot);
}

template <class T>
void Stage<T>::backward_input(Store& store, int slot, double scale, const T* dout, T* din) {
  weights_->later = &at_.slots[at(slot)].later;
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
  head_->forward(store, *weights_, s.normed.data(), at_.scratch.gathered.data(), s.logits.data());
  const TokenLoss loss = loss_->forward(s.logits.data(), s.targets);
  if (sums_ != nullptr) {
    for (const double of_row : loss_->losses()) sums_->losses().add(of_row);
  }
  return loss;
}

template <class T>
void Stage<T>::predict_backward(Store& store, StageSlot<T>& s, double scale) {
  loss_->backward(s.logits.data(), s.targets, scale);
  head_->backward(store, *weights_, s.normed.data(), s.logits.data(), at_.scratch.gathered.data(),
                  at_.scratch.other.data(), at_.scratch.rows.data());
  std::ranges::fill(at_.d, T{0});
  final_norm_.backward(store, *weights_, own_rows(), s.last.data(), s.mean.data(), s.factor.data(),
                       at_.scratch.rows.data(), at_.d.data());
}

template <class T>
std::size_t Stage<T>::held_bytes() const noexcept {
  if (!memory_) return 0;
  std::size_t bytes = memory_->bytes();
  if (attention_) bytes += attention_->held_bytes();
  if (scan_) bytes += scan_->held_bytes();
  if (!experts_) return bytes;
  std::vector<const ExpertsRows<T>*> counted;  // blocks may share them
  for (const StageSlot<T>& slot : at_.slots) {
    for (const BlockActivations<T>& kept : slot.kept) {
      if (!kept.experts || std::ranges::find(counted, kept.experts->rows.get()) != counted.end()) continue;
      counted.push_back(kept.experts->rows.get());
      bytes += counted.back()->most * sizeof(T);
    }
  }
  return bytes + experts_->held_bytes();
}

template <class T>
void Stage<T>::lay_out(int count) {
  weights_.reset();
  at_ = {};
  blocks_.clear();  // they use what follows
  count_ = count;
  const BlockShape shape = block_shape();
  places_.emplace(shape);
  if (shape_.has_attention()) attention_.emplace(*head_sharers_, *ring_, *blas_, attention_shape(shape));
  if (shape_.has_scans()) scan_.emplace(shape, *context_);
  if (has_experts(shape_, blocks_of_))
    experts_.emplace(shape, experts_ranks_, options_.experts, *places_, options_.determinism);
  for (int i = blocks_of_.first_block; i < blocks_of_.last_block; ++i)
    blocks_.push_back(std::make_unique<Block<T>>(
        shape, i, options_.recompute,
        BlockSurroundings<T>{*group_, *blas_, attention_ ? &*attention_ : nullptr, scan_ ? &*scan_ : nullptr,
                             experts_ ? &*experts_ : nullptr, masks_, *places_, pass_, loss_scale_, options_.seed}));
  if (blocks_of_.predicts) {
    head_.emplace(*group_, *blas_, shape.linear("head", shape_.width, kVocabulary), kTokens, -1);
    loss_.emplace(sinew::parallel::CallGroup(*group_), "tp",
                  sinew::parallel::CrossEntropyShape{"head",
                                                     shape.rows(),
                                                     kVocabulary,
                                                     {},
                                                     0,
                                                     kIgnored,
                                                     part_.invariant ? sinew::parallel::leaves_of(kVocabulary) : 0});
  }
  if (blocks_of_.embeds)
    tokens_.emplace(sinew::parallel::CallGroup(*group_), "tp",
                    sinew::parallel::EmbeddingShape{
                        "tokens", shape.rows(), kVocabulary, shape_.width, {}, part_.sequence_parallel, {}});
  memory_ = std::make_unique<Activations>();
  at_ = take(*memory_, shape, blocks_of_, options_);
  weights_.emplace(options_.precision.parameter, options_.precision.gradient, at_.room);
  weights_->by_sample = sums_;
}

template <class T>
StageMemory<T> Stage<T>::take(Activations& memory, const BlockShape& shape, const StagePart& blocks,
                              const ModelOptions& options) {
  StageMemory<T> m;
  const std::size_t n = at(shape.rows()), own = at(shape.own_rows()), width = at(shape.whole.width);
  const BlockActivations<T> shared =
      options.recompute == Recompute::None
          ? BlockActivations<T>{}
          : Block<T>::all(memory, shape, largest_mixer<T>(shape, blocks), has_mlp(shape.whole, blocks),
                          options.recompute == Recompute::Full && has_experts(shape.whole, blocks));
  for (int i = 0; i < blocks.micro_batches; ++i) {
    StageSlot<T>& slot = m.slots.emplace_back();
    for (int block = blocks.first_block; block < blocks.last_block; ++block)
      slot.kept.push_back(Block<T>::kept(memory, shape, block, options.recompute, shared));
    slot.later = Deferral<T>(memory.take<T>(at(deferred_for(shape, blocks))));
    if (!blocks.predicts) continue;
    slot.last = memory.take<T>(own * width);
    slot.normed = memory.take<T>(own * width);
    slot.mean = memory.take<T>(own);
    slot.factor = memory.take<T>(own);
    slot.logits = memory.take<T>(n * at(shape.part.vocabulary().count()));
  }
  m.d = memory.take<T>(own * width);
  m.scratch = {.rows = memory.take<T>(own * width), .wide = memory.take<T>(n * at(Block<T>::widest_row(shape)))};
  if (shape.whole.dropout > 0) m.scratch.dropped = memory.take<T>(own * width);
  if (shape.part.sequence_parallel) {
    m.scratch.gathered = memory.take<T>(n * width);
    m.scratch.other = memory.take<T>(at(shape.partial_rows()) * width);
  }
  const Precision& precision = options.precision;
  m.room = memory.take<T>(
      Weights<T>::room_for(precision.parameter, precision.gradient, largest_parameter(shape.whole, shape.part)));
  return m;
}

template <class T>
std::size_t Stage<T>::held_for(const BlockShape& shape, const StagePart& blocks, const ModelOptions& options) {
  Activations account(Activations::Kind::AccountOnly);
  static_cast<void>(take(account, shape, blocks, options));
  std::size_t elements = 0;
  if (shape.whole.has_attention())
    elements += sinew::parallel::ContextAttention<T>::room_for(attention_shape(shape), shape.part.context_rank);
  if (shape.whole.has_scans()) elements += at(ScanParts<T>::room_for(shape));
  if (has_experts(shape.whole, blocks)) elements += Experts<T>::scratch_for(shape);
  return account.bytes() + elements * sizeof(T);
}

/// What blocks look at is that of this slot.
template <class T>
StageSlot<T>& Stage<T>::open(int slot) {
  StageSlot<T>& s = at_.slots[at(slot)];
  pass_ = s.pass;
  masks_ = s.masks;
  if (sums_ != nullptr) sums_->open(s.pass.first_sample, count_);
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
  T* whole = part_.sequence_parallel ? at_.scratch.other.data() : out;
  tokens_->forward(slot.seen, weights_->matrix(store, kTokens), whole, out);
  if (part_.invariant) {  // -0 of a table that is whole would be +0 as a sum over ranks
    for (T& x : slot.kept.front().in) x += T{0};
  }
  const T* positions = weights_->matrix(store, kPositions);
  for_each_position(
      [&](std::size_t row, std::size_t position) { add(out + row * width, positions + position * width, width); });
  hand_on(slot.kept.front().in);
}

template <class T>
void Stage<T>::embed_backward_by_sample(Store& store, StageSlot<T>& slot) {
  const std::int64_t width = shape_.width, rows = sums_->of_sample().rows;
  std::vector<T> room;
  const T* d = replicated_.whole(at_.d.data(), sums_->pass_rows(), width, room);
  sums_->add(store, kPositions, shape_.context * width, [&](std::int64_t first, T* to) {
    std::fill_n(to, shape_.context * width, T{0});
    for (std::int64_t r = first; r < first + rows; ++r)
      std::copy_n(d + r * width, width, to + places_->positions()[at(r - first)] * width);
  });
  const sinew::parallel::Rows mine = part_.vocabulary();
  const auto gradient = [&](std::int64_t first, T* to) {
    const auto seen = std::span(slot.seen).subspan(at(first), at(rows));
    for (std::int64_t token = mine.first; token < mine.last; ++token, to += width) {
      std::vector<std::int64_t> some;
      for (std::int64_t r = 0; r < rows; ++r) {
        if (seen[at(r)] == token) some.push_back(r);
      }
      sinew::parallel::sum_some_leaf_rows(d + first * width, sums_->of_sample(), some, width, width, to);
    }
  };
  sums_->add(store, kTokens, mine.count() * width, gradient, true);
}

template <class T>
void Stage<T>::embed_backward(Store& store, StageSlot<T>& slot) {
  if (sums_ != nullptr) return embed_backward_by_sample(store, slot);
  const std::size_t width = at(shape_.width);
  std::vector<T> of_positions(at(shape_.context) * width);
  for_each_position([&](std::size_t row, std::size_t position) {
    add(of_positions.data() + position * width, at_.d.data() + row * width, width);
  });
  replicated_.sum(of_positions);
  replicated_.report(store, *weights_, kPositions, of_positions);
  weights_->add_gradient(store, kTokens, at(part_.vocabulary().count()) * width, [&](T* to, T beta) {
    tokens_->backward(slot.seen, at_.d.data(), at_.scratch.gathered.data(), beta, to);
  });
  store.gradient_ready(kTokens);
}

template class Stage<float>;
template class Stage<double>;

}  // namespace gpt
