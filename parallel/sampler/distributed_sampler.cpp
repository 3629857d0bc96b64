#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/sampler/distributed_sampler.hpp>

namespace sinew::parallel {
namespace {

[[noreturn]] void refuse_sampler(const std::string& why) { throw Error(Code::InvalidArgument, "sampler: " + why); }

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options, int rank, int ranks)
    : options_(options),
      rank_(rank),
      ranks_(ranks),
      state_{.seed = options.seed, .samples = options.samples, .shuffled = options.shuffle} {
  require_sound(state_);
  if (options.global_batch < 1 || options.global_batch > kMostSamples)
    refuse_sampler(fmt::format("a global batch of {} samples, expected 1 to 2^62", options.global_batch));
  if (options.last == LastBatch::Drop && options.global_batch > options.samples)
    refuse_sampler(fmt::format("a global batch of {} of {} samples, expected at most all of them with LastBatch::Drop",
                               options.global_batch, options.samples));
  if (ranks < 1 || rank < 0 || rank >= ranks)
    refuse_sampler(fmt::format("rank {} of {} ranks, expected 0 to {}", rank, ranks, ranks - 1));
  make_order();
}

std::optional<SampleBatch> DistributedSampler::next() {
  if (batches_left() == 0) return std::nullopt;
  const std::int64_t here = std::min(options_.global_batch, state_.samples - state_.position);
  const std::int64_t places = options_.last == LastBatch::Pad ? options_.global_batch : here;
  const std::int64_t each = places / ranks_, more = places % ranks_;
  const std::int64_t first = each * rank_ + std::min<std::int64_t>(more, rank_);
  const std::int64_t last = first + each + (rank_ < more ? 1 : 0);
  SampleBatch batch{.of_all = here, .after = state_};
  batch.samples.reserve(static_cast<std::size_t>(last - first));
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t place = p < here ? state_.position + p : (p - here) % state_.samples;
    batch.samples.push_back(order_ ? static_cast<std::int64_t>(order_->at(static_cast<std::uint64_t>(place))) : place);
  }
  batch.padding = std::clamp<std::int64_t>(last - here, 0, last - first);
  state_.position += here;
  batch.after = state_;
  return batch;
}

std::int64_t DistributedSampler::batches_left() const noexcept {
  const std::int64_t left = state_.samples - state_.position;
  const std::int64_t whole = left / options_.global_batch;
  const bool has_rest = left % options_.global_batch != 0;
  return whole + (has_rest && options_.last != LastBatch::Drop ? 1 : 0);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0) refuse_sampler(fmt::format("epoch {}, expected 0 or more", epoch));
  state_.epoch = epoch;
  state_.position = 0;
  make_order();
}

void DistributedSampler::restore(const SamplerState& state) {
  require_sound(state);
  if (state.samples != state_.samples || state.shuffled != state_.shuffled)
    refuse_sampler(fmt::format("the saved one has {} samples{}, this one has {}{}; expected the same order",
                               state.samples, state.shuffled ? ", shuffled" : "", state_.samples,
                               state_.shuffled ? ", shuffled" : ""));
  state_ = state;
  make_order();
}

void DistributedSampler::make_order() {
  order_.reset();
  if (!state_.shuffled) return;
  const KeyedRandom random(state_.seed, fmt::format("order of epoch {}", state_.epoch));
  order_.emplace(random, static_cast<std::uint64_t>(state_.samples));
}

}  // namespace sinew::parallel
