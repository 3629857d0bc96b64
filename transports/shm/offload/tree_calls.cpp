#include <algorithm>
#include <cstring>
#include <utility>

#include <sinew/transports/shm/offload/tree_calls.hpp>

namespace sinew::shm {
namespace {

bool goes_up(Collective c) noexcept { return c != Collective::Broadcast; }
bool comes_down(Collective c) noexcept { return c != Collective::Reduce; }

template <class AnySlot>
auto* payload_of(AnySlot& slot, std::uint64_t bytes) noexcept {
  return bytes <= kInlineBytes ? slot.line.payload.data() : slot.payload.data();
}

}  // namespace

TreeCalls::TreeCalls(Members& members, const Levels& levels)
    : members_(members), levels_(levels), trees_(static_cast<std::size_t>(members.count())), sources_(trees_.size()) {}

const Tree& TreeCalls::tree_of(const PendingCall& call) {
  const int root = has_root(call.collective) ? call.root : 0;
  std::optional<Tree>& tree = trees_[static_cast<std::size_t>(root)];
  if (!tree) tree = shm::tree_of(members_.rank(), root, levels_);
  return *tree;
}

bool TreeCalls::subtree_is_there(const PendingCall& call) {
  return !goes_up(call.collective) || std::ranges::all_of(tree_of(call).children, [&](int child) {
    return members_.announced(child, call.sequence);
  });
}

int TreeCalls::differing_child(const PendingCall& call) {
  if (!goes_up(call.collective)) return -1;
  for (const int child : tree_of(call).children) {
    if (!agrees(call, members_.line_of(child, call.sequence))) return child;
  }
  return -1;
}

std::uint64_t TreeCalls::done_in_subtree(const PendingCall& call, std::uint64_t own) {
  std::uint64_t least = own;
  if (!goes_up(call.collective)) return least;
  for (const int child : tree_of(call).children)
    least = std::min(least, members_.line_of(child, call.sequence).done_before(call.sequence));
  return least;
}

void TreeCalls::show(const PendingCall& call, Slot& slot) {
  if (call.bytes == 0 || !goes_up(call.collective)) return;
  std::byte* const to = payload_of(slot, call.bytes);
  std::size_t count = 0;
  sources_[count++] = call.in;
  if (call.scales_inputs()) {
    call.scaler(to, call.in, call.bytes);
    sources_[0] = to;
  }
  for (const int child : tree_of(call).children)
    sources_[count++] = payload_of(members_.slot_of(child, call.sequence), call.bytes);
  reduce_all(call, to, sources_.data(), static_cast<int>(count), call.bytes);
}

bool TreeCalls::result_is_there(const PendingCall& call) {
  const int parent = tree_of(call).parent;
  return parent < 0 || !comes_down(call.collective) || members_.passed_on(parent, call.sequence);
}

int TreeCalls::differing_parent(const PendingCall& call) {
  const int parent = tree_of(call).parent;
  const bool waits = parent >= 0 && comes_down(call.collective);
  return waits && !agrees(call, members_.result_of(parent, call.sequence).line) ? parent : -1;
}

void TreeCalls::finish(const PendingCall& call, std::uint64_t own_done) {
  const Tree& tree = tree_of(call);
  if (tree.parent < 0) {
    const bool reduced = goes_up(call.collective);
    if (reduced) take_result(call, payload_of(members_.slot_of(members_.rank(), call.sequence), call.bytes));
    pass_on(call, tree, reduced ? call.out : call.in,
            reduced ? done_in_subtree(call, own_done) : members_.known_done());
  } else if (comes_down(call.collective)) {
    const Slot& slot = members_.result_of(tree.parent, call.sequence);
    const std::byte* const result = payload_of(slot, call.bytes);
    if (call.bytes > 0) std::memcpy(call.out, result, call.bytes);
    pass_on(call, tree, result, slot.line.done_before(call.sequence));
  }
}

/// At the root.
void TreeCalls::take_result(const PendingCall& call, const std::byte* made) const noexcept {
  if (call.bytes == 0) return;
  std::memcpy(call.out, made, call.bytes);
  if (call.scales_result()) call.scaler(call.out, call.out, call.bytes);
}

/// The result lies at `from`; everybody has finished reading all calls up to `all_done`.
void TreeCalls::pass_on(const PendingCall& call, const Tree& tree, const std::byte* from, std::uint64_t all_done) {
  members_.learn_all_done(all_done);
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
