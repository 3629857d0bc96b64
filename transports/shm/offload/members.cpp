#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/shm/memory/direct_read.hpp>
#include <sinew/transports/shm/offload/members.hpp>

namespace sinew::shm {

/// First round. `nonce` lies in ordinary memory at `nonce_at`: whoever reads it there can read all of this process.
struct Members::Card {
  std::uint64_t group_state_offset = 0;
  std::uint64_t salt = 0;
  std::uint64_t nonce = 0;
  std::uint64_t nonce_at = 0;
  std::uint32_t usable = 0;
};

namespace {

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <class Card>
Bytes encode(const Card& card) {
  const auto bytes = std::as_bytes(std::span(&card, 1));
  return {bytes.begin(), bytes.end()};
}

template <class Card>
Card decode(const Bytes& bytes) noexcept {
  Card card;
  if (bytes.size() == sizeof card) std::memcpy(&card, bytes.data(), sizeof card);
  return card;
}

}  // namespace

Members::Members(HostPeers& host, GroupStates& group_states, const OffloadContext& context)
    : host_(host), group_states_(group_states), group_(context.group), rank_(context.group.rank) {
  Card mine;
  const std::uint64_t nonce = random_id();
  std::string problem;
  try {
    group_state_ = group_states.obtain(context.group.world_ranks.size());
    mine = {host.shared_segment().offset_of(group_state_), random_id(), nonce, reinterpret_cast<std::uint64_t>(&nonce),
            1};
  } catch (const std::exception& e) {
    problem = e.what();
  }
  const std::vector<Bytes> cards = context.exchange.all_gather(encode(mine));
  std::string no_direct;
  try {
    if (problem.empty()) {
      meet(cards, context);
      no_direct = try_direct_reads(cards);
    }
  } catch (const std::exception& e) {
    problem = e.what();
  }
  // A first byte of 1: this rank cannot take part; 0: it can, and the rest says why it cannot read in place.
  Bytes outcome = bytes_of(problem.empty() ? no_direct : problem);
  outcome.insert(outcome.begin(), static_cast<std::byte>(problem.empty() ? 0 : 1));
  const std::vector<Bytes> outcomes = context.exchange.all_gather(outcome);
  const auto rank_text = [this](std::size_t r) { return group_.rank_text(static_cast<int>(r)); };
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    const std::string text = text_of(outcomes[r]);
    if (text.starts_with('\1')) {
      if (group_state_) group_states.retire(group_state_, 0, {});
      throw Error(Code::System, fmt::format("shared memory of {}: {}", rank_text(r), text.substr(1)),
                  static_cast<int>(r));
    }
    if (text.size() > 1 && why_not_direct_.empty())
      why_not_direct_ = fmt::format("{}: {}", rank_text(r), text.substr(1));
  }
  if (!direct()) log::debug("shm: ordinary memory is staged: {}", why_not_direct_);
}

Members::~Members() {
  close();
  std::vector<const Word*> readers;
  for (int r = 0; r < count(); ++r) {
    if (r != rank_) readers.push_back(&members_[static_cast<std::size_t>(r)].group_state->done.value);
  }
  group_states_.retire(group_state_, salt_, std::move(readers));
}

void Members::meet(const std::vector<Bytes>& cards, const OffloadContext& context) {
  salt_ = (decode<Card>(cards[0]).salt | 1) << 48;
  group_state_->done.value.store(stamp(0), std::memory_order_relaxed);
  one_process_ = true;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    const auto card = decode<Card>(cards[r]);
    if (!card.usable) throw Error(Code::System, group_.rank_text(static_cast<int>(r)) + " has no shared memory");
    const int world_rank = context.group.world_ranks[r];
    Member m;
    m.segment = host_.memory_of(world_rank);
    m.group_state = reinterpret_cast<const GroupState*>(m.segment + card.group_state_offset);
    m.waker = host_.waker_of(world_rank);
    m.pid = host_.pid_of(world_rank);
    m.same_process = host_.same_process(world_rank);
    one_process_ = one_process_ && m.same_process;
    if (static_cast<int>(r) != rank_) wakers_.push_back(m.waker);
    members_.push_back(m);
  }
}

std::string Members::try_direct_reads(const std::vector<Bytes>& cards) const {
  for (std::size_t r = 0; r < cards.size(); ++r) {
    if (members_[r].same_process) continue;
    const auto card = decode<Card>(cards[r]);
    std::uint64_t seen = 0;
    const int error = read_process(members_[r].pid, reinterpret_cast<std::byte*>(&seen), card.nonce_at, sizeof seen);
    if (error != 0)
      return fmt::format("process_vm_readv from process {}: {}{}", members_[r].pid,
                         std::generic_category().message(error),
                         error == EPERM ? " (see /proc/sys/kernel/yama/ptrace_scope)" : "");
    if (seen != card.nonce)
      return fmt::format("process {} is another one here (separate process-id namespaces)", members_[r].pid);
  }
  return {};
}

Status Members::unread(int rank, int error_number) const {
  if (error_number == EFAULT && closed(rank)) return left_during_call(rank);
  return direct_read_status(error_number, group_.rank_text(rank), rank, (*this)[rank].pid);
}

bool Members::read_by_others() const noexcept {
  if (!one_process_) return false;
  full_fence();
  for (int r = 0; r < count(); ++r) {
    if (r != rank_ && (*this)[r].group_state->reading.value.load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

bool Members::refresh_done(std::uint64_t sequence) noexcept {
  std::uint64_t least = kSequenceMask;
  for (int r = 0; r < count(); ++r) {
    if (r == rank_) continue;
    Member& m = (*this)[r];
    if (m.done < sequence) {
      const std::uint64_t value = m.group_state->done.value.load(std::memory_order_acquire);
      m.done = left(value) ? kClosed : value & kSequenceMask;
      if (m.done < sequence) return false;
    }
    least = std::min(least, m.done);
  }
  done_floor_ = least;
  return true;
}

}  // namespace sinew::shm
