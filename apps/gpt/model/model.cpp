#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/dropout_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/recomputation.hpp>

namespace gpt {

using sp::ModulePtr;

namespace {

constexpr double kDeviation = 0.02;

/// The deviation of weights whose output is added to the residual stream.
double narrow(const Shape& shape) { return kDeviation / std::sqrt(2.0 * shape.layers); }

/// Passes rows on. If a fault is planted, the first gradient becomes infinite on its way back.
template <class T>
class FaultModule final : public sp::Module<T> {
 public:
  FaultModule(std::int64_t elements, PlantedFaults* faults) : elements_(elements), faults_(faults) {}

  std::int64_t in_elements() const override { return elements_; }
  std::int64_t out_elements() const override { return elements_; }
  bool needs_input() const override { return false; }
  void declare(sp::ParameterList& /*list*/) override {}
  bool runs_on_devices() const override { return true; }
  void forward(sp::Pass<T>& pass, const T* x, sp::Kept<T>& /*kept*/, T* out) override {
    pass.math().copy(x, out, elements_);
  }
  void input_gradient(sp::Pass<T>& pass, const T* /*x*/, sp::Kept<T>& /*kept*/, const T* dout, T* dx) override {
    if (dx == nullptr) return;
    pass.math().copy(dout, dx, elements_);
    if (elements_ > 0 && std::exchange(faults_->overflows, false))
      pass.math().fill(dx, std::numeric_limits<T>::infinity(), 1);
  }
  void weight_gradient(sp::Pass<T>& /*pass*/, const T* /*x*/, sp::Kept<T>& /*kept*/, const T* /*dout*/) override {}

 private:
  std::int64_t elements_;
  PlantedFaults* faults_;
};

}  // namespace

template <class T>
ModelParts<T>::ModelParts(const Shape& shape, const sp::JobConfig& config, const ExpertsWay& way, std::int64_t samples,
                          const sp::JobGroups& ranks, sp::Blas& blas, const ModelServices& services)
    : shape_(shape),
      config_(config),
      way_(way),
      samples_(samples),
      ranks_(ranks),
      group_(ranks.layers(config, blas)),
      cut_(sp::SequenceCut::zig_zag(shape.context, config.layout.cp)),
      places_(group_, samples, cut_, ranks.context_rank()),
      services_(services),
      attention_(std::make_shared<sp::SharedAttention<T>>()),
      experts_(std::make_shared<sp::SharedExperts<T>>()) {
  if (services.store) queue_ = std::make_shared<sp::ActivationQueue<T>>(sp::ActivationOffload{.store = services.store});
  if (!shape.has_scans()) return;
  const sp::CallGroup context(*ranks.context);
  if (shape.mamba2) {
    state_space_ = std::make_shared<sp::StateSpaceParts<T>>(group_, context, state_space_shape("scan"));
  } else {
    scan_ = std::make_shared<sp::ScanParts<T>>(group_, context, scan_shape("scan"));
  }
}

template <class T>
ModulePtr<T> ModelParts<T>::stage(const StagePart& part) const {
  const auto tokens = part.tokens_are_elsewhere ? sp::TableOwner::OtherStage : sp::TableOwner::Shared;
  Modules modules;
  if (part.embeds) {
    const sp::EmbeddingShape table{
        .name = "tokens", .rows = places_.rows(), .vocabulary = kVocabulary, .width = shape_.width};
    modules.push_back(std::make_unique<sp::EmbeddingModule<T>>(group_, table, kDeviation, tokens));
    modules.push_back(std::make_unique<sp::PositionModule<T>>(group_, "positions", places_, shape_.width, kDeviation));
    add_rounding(modules);
  }
  if (services_.faults != nullptr)
    modules.push_back(std::make_unique<FaultModule<T>>(boundary_elements(), services_.faults));
  for (int number = part.first_block; number < part.last_block; ++number) modules.push_back(block(number));
  if (part.predicts) {
    modules.push_back(norm("final_norm"));
    modules.push_back(std::make_unique<sp::ColumnModule<T>>(
        group_, linear("tokens", shape_.width, kVocabulary),
        sp::LinearOptions{.bias = false, .deviation = kDeviation, .owner = tokens}));
    modules.push_back(std::make_unique<sp::PredictionModule<T>>(
        group_, sp::CrossEntropyShape{.name = "head", .rows = places_.rows(), .vocabulary = kVocabulary}));
  }
  sp::ModuleNames all("activation offload", {});
  auto stage = sp::with_recomputation<T>(sp::sequence<T>(std::move(modules)), {.everywhere = config_.recompute});
  return sp::with_activation_offload<T>(std::move(stage), queue_, all);
}

template <class T>
ModulePtr<T> ModelParts<T>::block(int number) const {
  const std::string name = fmt::format("blocks.{}", number);
  Modules mixer, feedforward, whole;
  if (shape_.has_scan(number)) {
    mixer.push_back(norm(name + ".scan_norm"));
    mixer.push_back(scan(name + ".scan"));
  } else {
    mixer.push_back(norm(name + ".attention_norm"));
    mixer.push_back(attention(name + ".attention"));
  }
  add_dropout(mixer, name + ".mixer");
  feedforward.push_back(norm(name + ".mlp_norm"));
  feedforward.push_back(shape_.has_experts(number) ? experts(name + ".experts", number) : mlp(name + ".mlp"));
  add_dropout(feedforward, name + ".mlp");
  whole.push_back(sp::residual<T>(sp::sequence<T>(std::move(mixer))));
  whole.push_back(sp::residual<T>(sp::sequence<T>(std::move(feedforward))));
  add_rounding(whole);
  return sp::unit<T>(name, sp::sequence<T>(std::move(whole)));
}

template <class T>
ModulePtr<T> ModelParts<T>::norm(const std::string& name) const {
  return std::make_unique<sp::LayerNormModule<T>>(
      group_, sp::LayerNormShape{.name = name, .rows = places_.rows(), .width = shape_.width});
}

template <class T>
sp::AttentionShape ModelParts<T>::attention_shape(const std::string& name) const {
  return {.name = name,
          .width = shape_.width,
          .heads = shape_.heads,
          .key_value_heads = shape_.key_value_heads,
          .sequences = samples_,
          .positions = cut_,
          .sinks = shape_.sinks,
          .out_deviation = narrow(shape_)};
}

template <class T>
ModulePtr<T> ModelParts<T>::attention(const std::string& name) const {
  return std::make_unique<sp::AttentionModule<T>>(group_, ranks_.contexts(), attention_shape(name),
                                                  sp::LinearOptions{.deviation = kDeviation}, attention_);
}

template <class T>
ModulePtr<T> ModelParts<T>::mlp(const std::string& name) const {
  auto up = std::make_unique<sp::ColumnModule<T>>(group_, linear(name + ".up", shape_.width, shape_.inner()));
  sp::PointwiseFunction<T> gelu = sp::gelu<T>();
  if (group_.invariant) gelu = sp::in_equal_runs(std::move(gelu));
  auto bend = std::make_unique<sp::Pointwise<T>>(up->out_elements(), std::move(gelu));
  auto down = std::make_unique<sp::RowModule<T>>(group_, linear(name + ".down", shape_.inner(), shape_.width),
                                                 sp::LinearOptions{.deviation = narrow(shape_)});
  return sp::sequence<T>(ModulePtr<T>(std::move(up)), ModulePtr<T>(std::move(bend)), ModulePtr<T>(std::move(down)));
}

template <class T>
ModulePtr<T> ModelParts<T>::experts(const std::string& name, int block) const {
  const ExpertsShape& of = shape_.experts;
  const auto policy = of.drop_by_position ? sp::DropPolicy::Position : sp::DropPolicy::Probability;
  const sp::ExpertsShape shape{.name = name,
                               .rows = places_.rows(),
                               .width = shape_.width,
                               .inner = shape_.inner(),
                               .experts = of.count,
                               .top_k = of.top_k,
                               .score = of.sigmoid ? sp::RouterScore::Sigmoid : sp::RouterScore::Softmax,
                               .dispatch = way_.kind,
                               .chunks = way_.chunks,
                               .deviation = kDeviation,
                               .last_deviation = narrow(shape_),
                               .groups = of.groups,
                               .chosen_groups = of.chosen,
                               .z = of.z,
                               .balance = of.auxiliary,
                               .capacity = {of.capacity, policy},
                               .determinism = config_.determinism};
  return std::make_unique<sp::ExpertsModule<T>>(
      group_, ranks_.experts, shape,
      sp::ExpertsSurroundings<T>{places_, ranks_.sequences, services_.routers, block / of.every, experts_});
}

template <class T>
sp::ScanShape ModelParts<T>::scan_shape(const std::string& name) const {
  return {.name = name, .width = shape_.width, .sequences = samples_, .positions = cut_};
}

template <class T>
sp::StateSpaceShape ModelParts<T>::state_space_shape(const std::string& name) const {
  return {.name = name,
          .width = shape_.width,
          .head_width = shape_.head_width(),
          .states = kScanStates,
          .sequences = samples_,
          .positions = cut_};
}

template <class T>
ModulePtr<T> ModelParts<T>::scan(const std::string& name) const {
  const sp::ScanOptions options{.deviation = kDeviation, .out_deviation = narrow(shape_)};
  const sp::CallGroup context(*ranks_.context);
  if (shape_.mamba2)
    return std::make_unique<sp::StateSpaceModule<T>>(group_, context, state_space_shape(name), options, state_space_);
  return std::make_unique<sp::ScanModule<T>>(group_, context, scan_shape(name), options, scan_);
}

template <class T>
void ModelParts<T>::add_dropout(Modules& modules, const std::string& name) const {
  if (shape_.dropout > 0)
    modules.push_back(
        std::make_unique<sp::DropoutModule<T>>(places_, shape_.width, config_.seed, name, shape_.dropout));
}

template <class T>
void ModelParts<T>::add_rounding(Modules& modules) const {
  if (config_.precision.output == sinew::DType::BF16)
    modules.push_back(std::make_unique<sp::RoundedModule<T>>(boundary_elements(), config_.precision.output));
}

template <class T>
sp::LinearShape ModelParts<T>::linear(std::string name, std::int64_t inputs, std::int64_t outputs) const {
  return {.name = std::move(name), .rows = places_.rows(), .inputs = inputs, .outputs = outputs};
}

template <class T>
std::size_t ModelParts<T>::shared_bytes() const noexcept {
  std::size_t bytes = attention_->held_bytes();
  bytes += scan_bytes();
  if (experts_->dispatcher) bytes += experts_->dispatcher->held_bytes();
  return bytes;
}

template <class T>
std::size_t ModelParts<T>::planned_shared_bytes() const {
  return attention_->planned_bytes() + scan_bytes() + experts_->planned_bytes;
}

template class ModelParts<float>;
template class ModelParts<double>;

}  // namespace gpt
