#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/modules/module_names.hpp>
#include <sinew/parallel/offload/offload_store.hpp>

namespace sinew::parallel {

/// A policy by which modules keep their activations in a store between their forward and their backward pass, such as a
/// FileStore.
/// Losses and gradients do not change. The inputs of these modules go to the store, too.
/// Source: Rajbhandari et al., ZeRO-Infinity, arXiv 2104.07857.
struct ActivationOffload {
  /// Null: no activations are moved.
  std::shared_ptr<OffloadStore> store{};
  /// Names of modules and units, as ModuleNames has them. None: the inside of every Unit that keeps anything or has an
  /// input.
  std::vector<std::string> modules{};
  /// Arrays on their way to the store. A forward pass waits while there are more of them.
  /// Units: bytes
  std::size_t write_bytes = std::size_t{64} << 20;
  /// Arrays that are brought back before the backward pass of their module begins. The modules of one microbatch are
  /// brought back in the reverse order of their forward passes. Then comes the oldest other microbatch, until that was
  /// once not the next one.
  /// Units: bytes
  std::size_t read_ahead_bytes = std::size_t{64} << 20;

  ModuleNames names() const { return {"activation offload", modules}; }
};

/// The activations of a model that are in a store or on their way. All Offloaded modules of a model share one queue.
/// Thread: the World's.
/// Errors: as the store's wait(). A write that fails is reported by a later forward or backward pass.
template <class T>
class SINEW_API ActivationQueue : public std::enable_shared_from_this<ActivationQueue<T>> {
 public:
  explicit ActivationQueue(const ActivationOffload& policy);

  /// The arrays of one forward pass of one module. Their room in the store is free at the end of its life.
  class Moved;

  /// Begins to move all arrays of `kept` and its parts to the store. Gives those back whose copies have ended.
  std::shared_ptr<Moved> move_out(const Pass<T>& pass, Kept<T>& kept);
  /// Brings the arrays back to where they were in `kept`, and begins to read those that come next.
  void bring_back(Pass<T>& pass, Moved& moved, Kept<T>& kept);

 private:
  enum class Where : std::uint8_t { Writing, Stored, Reading, Here };
  struct Entry {
    std::size_t number = 0;                  // among all arrays of the Kept
    std::int64_t elements = 0, varying = 0;  // as ArrayPool::take() takes them
    PooledArray<T> array{};
    OffloadStore::Slot slot = 0;  // 0: none
    Where where = Where::Here;
    bool is_ahead = false;  // it counts in ahead_

    std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements) * sizeof(T); }
  };

  void settle();
  void end_write(Entry& entry);
  void begin_read(Pass<T>& pass, Entry& entry);
  void cancel(Entry& entry) noexcept;
  void give_up(Moved& moved) noexcept;
  void read_ahead(Pass<T>& pass, const Moved& moved);
  void judge_guess(const Moved& moved);
  bool read_ahead_of(Pass<T>& pass, Moved& moved);

  std::shared_ptr<OffloadStore> store_;
  std::size_t write_bytes_, read_ahead_bytes_;
  std::list<Moved*> moved_;     // in the order of forward passes
  std::deque<Entry*> writing_;  // in the order of their writes
  std::size_t in_flight_ = 0;   // bytes of writing_
  std::size_t ahead_ = 0;       // bytes of arrays whose module has not asked for them
  // The microbatches that are brought back now, and next as it seems. They are only compared.
  const Pass<T>*now_ = nullptr, *guess_ = nullptr;
  bool guesses_ = true;
};

/// A module whose input and kept arrays are in a store between its forward and its backward pass. Nobody else needs to
/// keep its input. The arrays are in memory from the first half of the backward pass to the end of the second one.
/// Cost: a copy of the input.
template <class T>
class SINEW_API Offloaded final : public Wrapper<T> {
 public:
  Offloaded(ModulePtr<T> module, std::shared_ptr<ActivationQueue<T>> queue)
      : Wrapper<T>(std::move(module)), queue_(std::move(queue)) {}

  ArrayCounts kept_arrays() const override { return {}; }
  ArrayCounts forward_arrays(bool keeps) const override {
    return most_of(module_->forward_arrays(keeps), keeps ? stored_arrays() : ArrayCounts());
  }
  ArrayCounts backward_arrays() const override { return input_array() + module_->backward_arrays(); }
  ArrayCounts deferred_arrays() const override { return stored_arrays() + module_->deferred_arrays(); }
  ArrayCounts first_half_arrays() const override { return input_array() + module_->first_half_arrays(); }
  ArrayCounts second_half_arrays() const override { return input_array() + module_->second_half_arrays(); }
  /// Bytes that a forward pass leaves in the store.
  std::size_t stored_bytes() const { return static_cast<std::size_t>(stored_arrays().elements()) * sizeof(T); }
  bool needs_input() const override { return false; }
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;
  void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;

 private:
  const T* bring_back(Pass<T>& pass, Kept<T>& kept);
  ArrayCounts input_array() const { return {module_->needs_input() ? this->in_elements() : 0}; }
  ArrayCounts stored_arrays() const { return input_array() + module_->kept_arrays(); }

  using Wrapper<T>::module_;
  std::shared_ptr<ActivationQueue<T>> queue_;
};

/// Wraps the modules that the policy names, before their parameters are declared. names: of the policy. The caller
/// requires afterwards that all of them were found. queue: null if the policy has no store; then nothing changes.
template <class T>
SINEW_API ModulePtr<T> with_activation_offload(ModulePtr<T> module, const std::shared_ptr<ActivationQueue<T>>& queue,
                                               ModuleNames& names);

extern template class ActivationQueue<float>;
extern template class ActivationQueue<double>;
extern template class Offloaded<float>;
extern template class Offloaded<double>;
extern template ModulePtr<float> with_activation_offload(ModulePtr<float>,
                                                         const std::shared_ptr<ActivationQueue<float>>&, ModuleNames&);
extern template ModulePtr<double> with_activation_offload(ModulePtr<double>,
                                                          const std::shared_ptr<ActivationQueue<double>>&,
                                                          ModuleNames&);

}  // namespace sinew::parallel
