#include <algorithm>
#include <iterator>
#include <utility>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/modules/activation_offload.hpp>
#include <sinew/parallel/modules/compose.hpp>

namespace sinew::parallel {
namespace {

template <class T, class F>
void for_each_kept_array(Kept<T>& kept, const F& f) {
  for (PooledArray<T>& array : kept.arrays) f(array);
  for (Kept<T>& part : kept.parts) for_each_kept_array(part, f);
}

template <class T>
Buffer bytes_of_array(const PooledArray<T>& array) {
  return {reinterpret_cast<std::byte*>(array.data()), array.size() * sizeof(T)};
}

}  // namespace

template <class T>
class ActivationQueue<T>::Moved {
 public:
  Moved(std::shared_ptr<ActivationQueue> queue, const Pass<T>* pass) : pass_(pass), queue_(std::move(queue)) {
    at_ = queue_->moved_.insert(queue_->moved_.end(), this);
  }
  ~Moved() { queue_->give_up(*this); }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

 private:
  friend class ActivationQueue;
  const Pass<T>* pass_;  // which is only compared
  std::shared_ptr<ActivationQueue> queue_;
  typename std::list<Moved*>::iterator at_;
  std::deque<Entry> entries_{};  // they do not change their place
};

template <class T>
ActivationQueue<T>::ActivationQueue(const ActivationOffload& policy)
    : store_(policy.store), write_bytes_(policy.write_bytes), read_ahead_bytes_(policy.read_ahead_bytes) {}

/// The copy of the oldest write has ended.
template <class T>
void ActivationQueue<T>::end_write(Entry& entry) {
  store_->wait(entry.slot);
  std::erase(writing_, &entry);
  in_flight_ -= entry.bytes();
  entry.array = {};
  entry.where = Where::Stored;
}

template <class T>
void ActivationQueue<T>::settle() {
  while (!writing_.empty() && (in_flight_ > write_bytes_ || store_->done(writing_.front()->slot)))
    end_write(*writing_.front());
}

template <class T>
std::shared_ptr<typename ActivationQueue<T>::Moved> ActivationQueue<T>::move_out(const Pass<T>& pass, Kept<T>& kept) {
  auto moved = std::make_shared<Moved>(this->shared_from_this(), &pass);
  std::size_t number = 0;
  for_each_kept_array(kept, [&](PooledArray<T>& array) {
    const std::size_t own = number++;
    if (array.size() == 0) return;
    Entry& entry = moved->entries_.emplace_back();
    entry.number = own;
    entry.elements = static_cast<std::int64_t>(array.size());
    entry.varying = array.varying();
    entry.array = std::move(array);
    entry.slot = store_->write(bytes_of_array(entry.array));
    entry.where = Where::Writing;
    writing_.push_back(&entry);
    in_flight_ += entry.bytes();
    settle();
  });
  return moved;
}

/// The array is still in memory. So what the store has of it is not needed.
template <class T>
void ActivationQueue<T>::cancel(Entry& entry) noexcept {
  if (entry.where == Where::Writing) {
    std::erase(writing_, &entry);
    in_flight_ -= entry.bytes();
  }
  if (entry.slot != 0) store_->release(std::exchange(entry.slot, 0));
  entry.where = Where::Here;
}

template <class T>
void ActivationQueue<T>::give_up(Moved& moved) noexcept {
  for (Entry& entry : moved.entries_) {
    cancel(entry);
    if (entry.is_ahead) ahead_ -= entry.bytes();
  }
  moved_.erase(moved.at_);
}

template <class T>
void ActivationQueue<T>::begin_read(Pass<T>& pass, Entry& entry) {
  if (entry.where == Where::Writing) cancel(entry);
  if (entry.where != Where::Stored) return;
  entry.array = pass.take(entry.elements, entry.varying);
  store_->read(entry.slot, bytes_of_array(entry.array));
  entry.where = Where::Reading;
}

/// Returns whether all of it is in memory or on its way.
template <class T>
bool ActivationQueue<T>::read_ahead_of(Pass<T>& pass, Moved& moved) {
  for (Entry& entry : moved.entries_) {
    if (entry.is_ahead) continue;
    if (ahead_ + entry.bytes() > read_ahead_bytes_) return false;
    begin_read(pass, entry);
    entry.is_ahead = true;
    ahead_ += entry.bytes();
  }
  return true;
}

template <class T>
void ActivationQueue<T>::read_ahead(Pass<T>& pass, const Moved& moved) {
  for (auto at = moved.at_; at != moved_.begin();) {
    --at;
    if ((*at)->pass_ == moved.pass_ && !read_ahead_of(pass, **at)) return;
  }
  const auto other = std::ranges::find_if(moved_, [&](const Moved* m) { return m->pass_ != moved.pass_; });
  if (other == moved_.end() || !guesses_) return;
  guess_ = (*other)->pass_;
  for (auto at = moved_.rbegin(); at != moved_.rend(); ++at) {
    if ((*at)->pass_ == guess_ && !read_ahead_of(pass, **at)) return;
  }
}

/// If another microbatch comes than was guessed, the arrays of the guess make room, and no more guesses are made.
template <class T>
void ActivationQueue<T>::judge_guess(const Moved& moved) {
  if (moved.pass_ == now_) return;
  now_ = moved.pass_;
  const Pass<T>* const guess = std::exchange(guess_, nullptr);
  if (guess == nullptr || guess == now_) return;
  guesses_ = false;
  for (Moved* m : moved_) {
    for (Entry& entry : m->entries_) {
      if (m->pass_ != guess || !entry.is_ahead) continue;
      entry.is_ahead = false;
      ahead_ -= entry.bytes();
      if (entry.where != Where::Reading) continue;  // it never was in the store
      store_->wait(entry.slot);
      entry.array = {};
      entry.where = Where::Stored;
    }
  }
}

template <class T>
void ActivationQueue<T>::bring_back(Pass<T>& pass, Moved& moved, Kept<T>& kept) {
  judge_guess(moved);
  for (Entry& entry : moved.entries_) {
    begin_read(pass, entry);
    if (std::exchange(entry.is_ahead, false)) ahead_ -= entry.bytes();
  }
  read_ahead(pass, moved);
  settle();
  auto entry = moved.entries_.begin();
  std::size_t number = 0;
  for_each_kept_array(kept, [&](PooledArray<T>& array) {
    const std::size_t own = number++;
    if (entry == moved.entries_.end() || entry->number != own) return;
    if (entry->where == Where::Reading) store_->wait(entry->slot);
    array = std::move(entry->array);
    ++entry;
  });
}

template <class T>
void Offloaded<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  kept.parts.resize(1);
  module_->forward(pass, x, kept.parts[0], out);
  if (!pass.keeps) return;
  kept.arrays.push_back(pass.take(module_->needs_input() ? this->in_elements() : 0));
  std::copy_n(x, kept.arrays[0].size(), kept.arrays[0].data());
  kept.other = queue_->move_out(pass, kept);
}

/// Returns the module's input.
template <class T>
const T* Offloaded<T>::bring_back(Pass<T>& pass, Kept<T>& kept) {
  queue_->bring_back(pass, *static_cast<typename ActivationQueue<T>::Moved*>(kept.other.get()), kept);
  kept.other.reset();
  return kept.arrays[0].data();
}

template <class T>
void Offloaded<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  const T* const x = bring_back(pass, kept);
  module_->input_gradient(pass, x, kept.parts[0], dout, dx);
}

template <class T>
void Offloaded<T>::weight_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout) {
  module_->weight_gradient(pass, kept.arrays[0].data(), kept.parts[0], dout);
  kept.arrays.clear();
  kept.parts.clear();
}

template <class T>
void Offloaded<T>::backward(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  const T* const x = bring_back(pass, kept);
  module_->backward(pass, x, kept.parts[0], dout, dx);
  kept.arrays.clear();
  kept.parts.clear();
}

namespace {

template <class T>
void wrap_offloaded(ModulePtr<T>& module, const std::shared_ptr<ActivationQueue<T>>& queue) {
  if (module->kept_bytes() > 0 || module->in_elements() > 0)
    module = std::make_unique<Offloaded<T>>(std::move(module), queue);
}

template <class T>
void offload_below(ModulePtr<T>& module, const std::shared_ptr<ActivationQueue<T>>& queue, ModuleNames& names,
                   bool is_within) {
  const bool is_unit = dynamic_cast<Unit<T>*>(module.get()) != nullptr;
  const bool is_chosen = names.empty() ? is_unit : names.find(module->name()).has_value();
  module->for_each_part([&](ModulePtr<T>& part) { offload_below<T>(part, queue, names, is_within || is_chosen); });
  if (!is_chosen || is_within) return;
  if (is_unit) {
    module->for_each_part([&](ModulePtr<T>& part) { wrap_offloaded<T>(part, queue); });
  } else {
    wrap_offloaded<T>(module, queue);
  }
}

}  // namespace

template <class T>
ModulePtr<T> with_activation_offload(ModulePtr<T> module, const std::shared_ptr<ActivationQueue<T>>& queue,
                                     ModuleNames& names) {
  if (queue != nullptr) offload_below<T>(module, queue, names, false);
  return module;
}

template class ActivationQueue<float>;
template class ActivationQueue<double>;
template class Offloaded<float>;
template class Offloaded<double>;
template ModulePtr<float> with_activation_offload(ModulePtr<float>, const std::shared_ptr<ActivationQueue<float>>&,
                                                  ModuleNames&);
template ModulePtr<double> with_activation_offload(ModulePtr<double>, const std::shared_ptr<ActivationQueue<double>>&,
                                                   ModuleNames&);

}  // namespace sinew::parallel
