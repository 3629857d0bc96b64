#include <algorithm>
#include <cstring>

#include <sinew/transports/shm/offload.hpp>

// Way::Tree: an announcement carries what a rank's subtree has made; the root's result comes back along the same edges.
namespace sinew::shm {
namespace {

bool goes_up(Collective c) noexcept { return c != Collective::Broadcast; }
bool comes_down(Collective c) noexcept { return c != Collective::Reduce; }

template <class AnySlot>
auto* payload_of(AnySlot& slot, std::uint64_t bytes) noexcept {
  return bytes <= kInlineBytes ? slot.line.payload.data() : slot.payload.data();
}

}  // namespace

const Tree& ShmOffload::tree_of(const PendingCall& call) {
  std::optional<Tree>& tree = trees_[static_cast<std::size_t>(has_root(call.collective) ? call.root : 0)];
  if (!tree) tree = shm::tree_of(members_.rank(), has_root(call.collective) ? call.root : 0, domains_);
  return *tree;
}

/// May the call be announced, as far as its subtree goes?
bool ShmOffload::subtree_is_there(const PendingCall& call) {
  return !goes_up(call.collective) || std::ranges::all_of(tree_of(call).children, [&](int child) {
    return members_.announced(child, call.sequence);
  });
}

/// false: somebody in it calls something else; everything ends at the next progress.
bool ShmOffload::subtree_agrees(const PendingCall& call) {
  if (!goes_up(call.collective)) return true;
  for (const int child : tree_of(call).children) {
    if (agrees(call, members_.line_of(child, call.sequence))) continue;
    abort(mismatch(call, child));
    return false;
  }
  return true;
}

/// The last call that this rank, and for a call that goes up its whole subtree, has finished reading.
std::uint64_t ShmOffload::done_in_subtree(const PendingCall& call) {
  std::uint64_t least = head_ - 1;
  if (!goes_up(call.collective)) return least;
  for (const int child : tree_of(call).children)
    least = std::min(least, members_.line_of(child, call.sequence).done_before(call.sequence));
  return least;
}

/// What the subtree has made, into this rank's own announcement.
void ShmOffload::show_subtree(const PendingCall& call, Slot& slot) {
  if (call.bytes == 0 || !goes_up(call.collective)) return;
  std::byte* const to = payload_of(slot, call.bytes);
  std::size_t count = 0;
  shown_[count++] = call.in;
  if (call.scales_inputs()) {
    call.scaler(to, call.in, call.bytes);
    shown_[0] = to;
  }
  for (const int child : tree_of(call).children)
    shown_[count++] = payload_of(members_.slot_of(child, call.sequence), call.bytes);
  reduce_all(call, to, shown_.data(), static_cast<int>(count), call.bytes);
}

/// Has what this rank waits for come down?
bool ShmOffload::result_is_there(const PendingCall& call) {
  const int parent = tree_of(call).parent;
  return parent < 0 || !comes_down(call.collective) || members_.passed_on(parent, call.sequence);
}

int ShmOffload::advance_tree(PendingCall& call) {
  if (!result_is_there(call)) return 0;
  const Tree& tree = tree_of(call);
  if (tree.parent < 0) {
    const bool reduced = goes_up(call.collective);
    if (reduced) take_result(call, payload_of(members_.slot_of(members_.rank(), call.sequence), call.bytes));
    pass_on(call, reduced ? call.out : call.in, reduced ? done_in_subtree(call) : members_.known_done());
  } else if (comes_down(call.collective)) {
    const Slot& slot = members_.result_of(tree.parent, call.sequence);
    if (!agrees(call, slot.line)) {
      abort(mismatch(call, tree.parent));
      fail_all();
      return 1;
    }
    const std::byte* const result = payload_of(slot, call.bytes);
    if (call.bytes > 0) std::memcpy(call.out, result, call.bytes);
    pass_on(call, result, slot.line.done_before(call.sequence));
  }
  finish_reading(call);
  return 1;
}

/// At the root.
void ShmOffload::take_result(const PendingCall& call, const std::byte* made) const noexcept {
  if (call.bytes == 0) return;
  std::memcpy(call.out, made, call.bytes);
  if (call.scales_result()) call.scaler(call.out, call.out, call.bytes);
}

/// The result lies at `from`; everybody has finished reading all calls up to `all_done`.
void ShmOffload::pass_on(const PendingCall& call, const std::byte* from, std::uint64_t all_done) {
  members_.learn_all_done(all_done);
  const Tree& tree = tree_of(call);
  if (!comes_down(call.collective) || tree.children.empty()) return;
  Slot& slot = members_.mine().results[call.sequence % kRing];
  if (call.bytes > 0) std::memcpy(payload_of(slot, call.bytes), from, call.bytes);
  slot.line.fingerprint = call.fingerprint;
  slot.line.history = call.history;
  slot.line.done = static_cast<std::uint32_t>(all_done);
  slot.line.stamp.store(members_.stamp(call.sequence), std::memory_order_release);
  for (const int child : tree.children) members_[child].waker.notify();
}

}  // namespace sinew::shm
