#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>
#include <sinew/parallel/expert/router_states.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/modules/activation_offload.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/experts_module.hpp>
#include <sinew/parallel/modules/layers/scan_module.hpp>
#include <sinew/parallel/modules/layers/state_space_module.hpp>
#include <sinew/parallel/modules/layers/token_places.hpp>
#include <sinew/parallel/modules/models/job_groups.hpp>
#include <sinew/parallel/modules/module.hpp>

#include "../shape.hpp"

namespace gpt {

/// The way of tokens to their experts. Nothing that is computed depends on it.
struct ExpertsWay {
  sp::DispatchKind kind = sp::DispatchKind::AllToAll;
  int chunks = 1;
};

/// A stage of a pipeline: blocks that follow each other, with what is before the first and behind the last one.
struct StagePart {
  std::int32_t number = 0;
  int first_block = 0, last_block = 0;
  bool embeds = true, predicts = true;
  /// The token embeddings, which the head uses too, belong to a stage on another rank.
  bool tokens_are_elsewhere = false;
};

/// Planted faults, for tests of loss scaling.
struct PlantedFaults {
  bool overflows = false;  ///< one gradient of this rank becomes infinite in the next backward pass
};

/// Whatever the modules of a running model use beside ranks. A model that only plans has none of it.
struct ModelServices {
  sp::RouterStates* routers = nullptr;
  PlantedFaults* faults = nullptr;
  std::shared_ptr<sp::OffloadStore> store{};  ///< of activations between both passes; null: memory
};

/// The modules of a GPT as one rank has them: token and position embeddings, blocks of causal attention and MLP behind
/// layer norms, a last norm, and a head that shares the token embeddings. Some blocks may have a selective scan in the
/// place of attention, or experts in the place of the MLP.
/// Lifetime: the modules end before ranks, blas and services.
/// Source:   Radford et al., Language models are unsupervised multitask learners (GPT-2).
template <class T>
class ModelParts {
 public:
  /// samples: of a pass.
  ModelParts(const Shape& shape, const sp::JobConfig& config, const ExpertsWay& way, std::int64_t samples,
             const sp::JobGroups& ranks, sp::Blas& blas, const ModelServices& services);

  sp::ModulePtr<T> stage(const StagePart& part) const;

  const sp::TokenPlaces& places() const noexcept { return places_; }
  /// Elements that one stage hands to the next.
  std::int64_t boundary_elements() const { return places_.own_rows() * shape_.width; }
  /// Bytes that all modules use together.
  std::size_t shared_bytes() const noexcept;
  /// The same in advance.
  std::size_t planned_shared_bytes() const;

 private:
  using Modules = std::vector<sp::ModulePtr<T>>;
  sp::ModulePtr<T> block(int number) const;
  sp::ModulePtr<T> norm(const std::string& name) const;
  sp::ModulePtr<T> attention(const std::string& name) const;
  sp::ModulePtr<T> scan(const std::string& name) const;
  sp::ModulePtr<T> mlp(const std::string& name) const;
  sp::ModulePtr<T> experts(const std::string& name, int block) const;
  void add_dropout(Modules& modules, const std::string& name) const;
  void add_rounding(Modules& modules) const;
  sp::LinearShape linear(std::string name, std::int64_t inputs, std::int64_t outputs) const;
  sp::AttentionShape attention_shape(const std::string& name) const;
  sp::ScanShape scan_shape(const std::string& name) const;
  sp::StateSpaceShape state_space_shape(const std::string& name) const;
  std::size_t scan_bytes() const noexcept {
    return scan_ ? scan_->held_bytes() : state_space_ ? state_space_->held_bytes() : 0;
  }

  Shape shape_;
  sp::JobConfig config_;
  ExpertsWay way_;
  std::int64_t samples_;
  sp::JobGroups ranks_;
  sp::LayerGroup group_;
  sp::SequenceCut cut_;
  sp::TokenPlaces places_;
  ModelServices services_;
  std::shared_ptr<sp::SharedAttention<T>> attention_;
  std::shared_ptr<sp::ScanParts<T>> scan_;
  std::shared_ptr<sp::StateSpaceParts<T>> state_space_;
  std::shared_ptr<sp::SharedExperts<T>> experts_;
  std::shared_ptr<sp::ActivationQueue<T>> queue_;  // null: activations stay in memory
};

extern template class ModelParts<float>;
extern template class ModelParts<double>;

}  // namespace gpt
