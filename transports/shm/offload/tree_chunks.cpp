#include <algorithm>

#include <sinew/core/host/stream_copy.hpp>
#include <sinew/transports/shm/model/chunking.hpp>
#include <sinew/transports/shm/offload/tree_chunks.hpp>

namespace sinew::shm {
namespace {

const std::byte* shown_at(const GroupState& group_state, std::uint64_t offset) noexcept {
  return reinterpret_cast<const std::byte*>(&group_state) + offset;
}

}  // namespace

TreeChunks::TreeChunks(Members& members, const Levels& levels, ChunkHistory& history)
    : members_(members),
      levels_(levels),
      history_(history),
      stages_(static_cast<std::uint64_t>(members.count())),
      trees_(static_cast<std::size_t>(members.count())),
      sources_(trees_.size()) {}

const Tree& TreeChunks::tree_of(const PendingCall& call) {
  const int root = has_root(call.collective) ? call.root : 0;
  std::optional<Tree>& tree = trees_[static_cast<std::size_t>(root)];
  if (!tree) tree = shm::tree_of(members_.rank(), root, levels_, kLongFanIn);
  return *tree;
}

bool TreeChunks::is_neighbour(const PendingCall& call, int rank) {
  const Tree& tree = tree_of(call);
  return rank == tree.parent || std::ranges::find(tree.children, rank) != tree.children.end();
}

void TreeChunks::begin(const PendingCall& call) {
  call_ = call;
  tree_ = &tree_of(call);
  chunk_bytes_ = tree_chunk_bytes(call.bytes);
  chunks_ = tree_chunks(call.bytes);
  goes_up_ = call.collective != Collective::Broadcast;
  comes_down_ = call.collective != Collective::Reduce;
  up_ = goes_up_ ? 0 : chunks_;
  down_ = comes_down_ ? 0 : chunks_;
  const int root = has_root(call.collective) ? call.root : 0;
  if (history_.root != root) history_.read_by_any = history_.chunks;
  history_.root = root;
}

bool TreeChunks::reached(int rank, LoneWord GroupState::*word, std::uint64_t count) const noexcept {
  return (members_[rank].group_state->*word).value.load(std::memory_order_acquire) >= count;
}

bool TreeChunks::children_reached(LoneWord GroupState::*word, std::uint64_t count) const noexcept {
  return std::ranges::all_of(tree_->children, [&](int child) { return reached(child, word, count); });
}

bool TreeChunks::all_reached(LoneWord GroupState::*word, std::uint64_t count) const noexcept {
  for (int r = 0; r < members_.count(); ++r) {
    if (r != members_.rank() && !reached(r, word, count)) return false;
  }
  return true;
}

/// May this rank write the chunk into its stage of inputs?
bool TreeChunks::stage_is_free(std::uint64_t chunk) const noexcept {
  if (tree_->parent < 0 || chunk < stages_.count()) return true;
  const std::uint64_t before =
      chunk + 1 - stages_.count();  // of the chunks that have been in this stage, the last one's number
  return before <= history_.read_by_any ? all_reached(&GroupState::taken, before)
                                        : reached(tree_->parent, &GroupState::taken, before);
}

/// May this rank write the chunk into its stage of results?
bool TreeChunks::result_is_free(std::uint64_t chunk) const noexcept {
  if (tree_->children.empty() || chunk < stages_.count()) return true;
  const std::uint64_t before = chunk + 1 - stages_.count();
  return before <= history_.read_by_any ? all_reached(&GroupState::pulled, before)
                                        : children_reached(&GroupState::pulled, before);
}

bool TreeChunks::can_go_up() const noexcept {
  if (up_ == chunks_) return false;
  const std::uint64_t chunk = history_.chunks + up_;
  if (!children_reached(&GroupState::staged, chunk + 1)) return false;
  return tree_->parent < 0 ? !comes_down_ || result_is_free(chunk) : stage_is_free(chunk);
}

bool TreeChunks::can_come_down() const noexcept {
  if (down_ == chunks_) return false;
  const std::uint64_t chunk = history_.chunks + down_;
  if (tree_->parent < 0) return !goes_up_ && result_is_free(chunk);
  return reached(tree_->parent, &GroupState::passed, chunk + 1) && result_is_free(chunk);
}

int TreeChunks::step() noexcept {
  int events = 0;
  if (can_come_down()) {
    come_down();
    ++events;
  }
  if (can_go_up()) {
    go_up();
    ++events;
  }
  if (events > 0 && finished()) finish();
  return events;
}

TreeChunks::Part TreeChunks::part_of(std::uint64_t index) const noexcept {
  const std::uint64_t offset = index * chunk_bytes_;
  return {history_.chunks + index, offset, std::min(chunk_bytes_, call_.bytes - offset)};
}

void TreeChunks::go_up() noexcept {
  const auto [chunk, offset, bytes] = part_of(up_);
  GroupState& mine = members_.mine();
  const bool is_root = tree_->parent < 0;
  std::byte* const to = is_root ? call_.out + offset : reinterpret_cast<std::byte*>(&mine) + stages_.input_at(chunk);
  std::size_t count = 0;
  sources_[count++] = call_.in + offset;
  if (call_.scales_inputs()) {
    call_.scaler(to, call_.in + offset, bytes);
    sources_[0] = to;
  }
  for (const int child : tree_->children)
    sources_[count++] = shown_at(*members_[child].group_state, stages_.input_at(chunk));
  reduce_all(call_, to, sources_.data(), static_cast<int>(count), bytes);
  ++up_;
  if (!is_root) say(mine.staged, up_);
  say(mine.taken, up_);
  if (!is_root) return;
  if (call_.scales_result()) call_.scaler(to, to, bytes);
  if (!comes_down_) return;
  vector_copy(reinterpret_cast<std::byte*>(&mine) + stages_.result_at(chunk), to, bytes);
  say(mine.passed, ++down_);
}

void TreeChunks::come_down() noexcept {
  const auto [chunk, offset, bytes] = part_of(down_);
  GroupState& mine = members_.mine();
  const bool is_root = tree_->parent < 0;
  const std::byte* from =
      is_root ? call_.in + offset : shown_at(*members_[tree_->parent].group_state, stages_.result_at(chunk));
  ++down_;
  if (!tree_->children.empty()) {
    std::byte* const shown = reinterpret_cast<std::byte*>(&mine) + stages_.result_at(chunk);
    vector_copy(shown, from, bytes);
    say(mine.passed, down_);
    from = shown;
  }
  if (is_root) return;
  vector_copy(call_.out + offset, from, bytes);
  say(mine.pulled, down_);
}

void TreeChunks::say(LoneWord& word, std::uint64_t count) noexcept {
  word.value.store(history_.chunks + count, std::memory_order_release);
  if (tree_->parent >= 0) members_[tree_->parent].waker.notify();
  for (const int child : tree_->children) members_[child].waker.notify();
}

/// Sets all words of this rank to the number of chunks so far, also those words that the call did not use. So the next
/// call counts on from the same number on all ranks.
void TreeChunks::finish() noexcept {
  history_.chunks += chunks_;
  GroupState& mine = members_.mine();
  for (LoneWord* word : {&mine.staged, &mine.taken, &mine.passed, &mine.pulled})
    word->value.store(history_.chunks, std::memory_order_release);
  members_.notify_all();
}

}  // namespace sinew::shm
