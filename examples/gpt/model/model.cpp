#include "model.hpp"

#include <optional>

#include <sinew/parallel/common/group_place.hpp>

#include "../layers/sample_sums.hpp"
#include "../parameters.hpp"
#include "stage.hpp"

namespace gpt {

using sinew::DType;
using sinew::parallel::TokenLoss;

/// Stages of a model in what it computes in.
class Network {
 public:
  virtual ~Network() = default;
  virtual TokenLoss forward(Store& store, const StageCall& call, std::span<const std::uint8_t> sequences, int count,
                            const Pass& pass, sinew::ConstBuffer in, sinew::Buffer out) = 0;
  virtual void backward(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout,
                        sinew::Buffer din) = 0;
  virtual void backward_input(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout,
                              sinew::Buffer din) = 0;
  virtual void backward_weights(const StageCall& call) = 0;
  virtual sinew::parallel::ExactSum* exact_losses() = 0;
  virtual sinew::Buffer head_gradients(std::int64_t elements) = 0;
  virtual void add_head_gradients(Store& store) = 0;
  virtual std::size_t held_bytes() const noexcept = 0;
};

namespace {

/// Of this rank, in leaf blocks of positions that all ranks have alike.
sinew::parallel::LeafRows rows_of_sample(const Shape& shape, const Part& part) {
  const std::int64_t leaf = shape.context / sinew::parallel::leaves_of(shape.context);
  return {part.positions(shape).tokens(part.context_rank), leaf, true};
}

template <class T>
class NetworkOf final : public Network {
 public:
  NetworkOf(const Shape& shape, const ModelOptions& options, Blas& blas, const ModelRanks& ranks,
            const std::vector<StagePart>& stages, sinew::Communicator& alone, Routers& routers) {
    if (const Part part = ranks.part(); part.invariant)
      sums_.emplace(ranks.context != nullptr ? *ranks.context : alone, options.samples, rows_of_sample(shape, part),
                    kTokens);
    for (const StagePart& part : stages)
      stages_.push_back(
          std::make_unique<Stage<T>>(shape, part, options, blas, ranks, alone, routers, sums_ ? &*sums_ : nullptr));
  }

  TokenLoss forward(Store& store, const StageCall& call, std::span<const std::uint8_t> sequences, int count,
                    const Pass& pass, sinew::ConstBuffer in, sinew::Buffer out) override {
    return stage(call).forward(store, call.slot, sequences, count, pass, reinterpret_cast<const T*>(in.data),
                               reinterpret_cast<T*>(out.data));
  }
  void backward(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout,
                sinew::Buffer din) override {
    stage(call).backward(store, call.slot, scale, reinterpret_cast<const T*>(dout.data),
                         reinterpret_cast<T*>(din.data));
  }
  void backward_input(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout,
                      sinew::Buffer din) override {
    stage(call).backward_input(store, call.slot, scale, reinterpret_cast<const T*>(dout.data),
                               reinterpret_cast<T*>(din.data));
  }
  void backward_weights(const StageCall& call) override { stage(call).backward_weights(call.slot); }
  sinew::parallel::ExactSum* exact_losses() override { return sums_ ? &sums_->losses() : nullptr; }
  sinew::Buffer head_gradients(std::int64_t elements) override {
    std::vector<T>& all = sums_->of_head(elements);
    return {reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof(T)};
  }
  void add_head_gradients(Store& store) override { sums_->add_of_head(store); }
  std::size_t held_bytes() const noexcept override {
    std::size_t held = sums_ ? sums_->held_bytes() : 0;
    for (const auto& stage : stages_) held += stage->held_bytes();
    return held;
  }

 private:
  Stage<T>& stage(const StageCall& call) { return *stages_[static_cast<std::size_t>(call.stage)]; }

  std::optional<SampleSums<T>> sums_;
  std::vector<std::unique_ptr<Stage<T>>> stages_;
};

}  // namespace

Part ModelRanks::part() const {
  const auto place = [](const sinew::Communicator* group) {
    return group != nullptr ? sinew::parallel::GroupPlace(*group) : sinew::parallel::GroupPlace(sinew::Communicator());
  };
  const auto layers = place(tensor), heads = place(head_sharers), around = place(ring);
  const auto spread = place(experts.experts.experts), inside = place(experts.experts.tensor);
  return {layers.rank,
          layers.ranks,
          sequence_parallel,
          decomposed,
          around.rank * heads.ranks + heads.rank,
          around.ranks * heads.ranks,
          heads.ranks,
          spread.rank,
          spread.ranks,
          inside.rank,
          inside.ranks,
          invariant};
}

Model::Model(const Shape& shape, const ModelOptions& options, Blas& blas, const ModelRanks& ranks,
             std::vector<StagePart> stages)
    : routers_(shape) {
  require_shape(shape);
  if (stages.empty()) stages.push_back(whole_model(shape));
  if (options.precision.parameter == DType::F64) {
    network_ = std::make_unique<NetworkOf<double>>(shape, options, blas, ranks, stages, alone_, routers_);
  } else {
    network_ = std::make_unique<NetworkOf<float>>(shape, options, blas, ranks, stages, alone_, routers_);
  }
}

Model::~Model() = default;

TokenLoss Model::forward(Store& store, std::span<const std::uint8_t> sequences, int count, const Pass& pass) {
  return network_->forward(store, {}, sequences, count, pass, {}, {});
}
void Model::backward(Store& store, double scale) { network_->backward(store, {}, scale, {}, {}); }
TokenLoss Model::forward(Store& store, const StageCall& call, std::span<const std::uint8_t> sequences, int count,
                         const Pass& pass, sinew::ConstBuffer in, sinew::Buffer out) {
  return network_->forward(store, call, sequences, count, pass, in, out);
}
void Model::backward(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout, sinew::Buffer din) {
  network_->backward(store, call, scale, dout, din);
}
void Model::backward_input(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout,
                           sinew::Buffer din) {
  network_->backward_input(store, call, scale, dout, din);
}
void Model::backward_weights(const StageCall& call) { network_->backward_weights(call); }
sinew::parallel::ExactSum* Model::exact_losses() { return network_->exact_losses(); }
sinew::Buffer Model::head_gradients(std::int64_t elements) { return network_->head_gradients(elements); }
void Model::add_head_gradients(Store& store) { network_->add_head_gradients(store); }
std::size_t Model::held_bytes() const noexcept { return network_->held_bytes(); }

std::size_t Model::activation_bytes(const Shape& shape, const Part& part, const ModelOptions& options, int sequences,
                                    std::vector<StagePart> stages) {
  if (stages.empty()) stages.push_back(whole_model(shape));
  const BlockShape block{shape, part, sequences};
  std::size_t bytes = 0;
  for (const StagePart& stage : stages)
    bytes += options.precision.parameter == DType::F64 ? Stage<double>::held_for(block, stage, options)
                                                       : Stage<float>::held_for(block, stage, options);
  return bytes;
}

std::size_t Model::boundary_bytes(const Shape& shape, const Part& part, const ModelOptions& options, int sequences) {
  const auto elements = BlockShape{shape, part, sequences}.own_rows() * shape.width;
  return static_cast<std::size_t>(elements) *
         (options.precision.parameter == DType::F64 ? sizeof(double) : sizeof(float));
}

}  // namespace gpt
