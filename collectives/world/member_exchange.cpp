#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/member_exchange.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

class Members {
 public:
  Members(CommunicatorState& bootstrap, std::vector<int> ranks, std::string_view what, Deadline deadline)
      : bootstrap_(bootstrap),
        ranks_(std::move(ranks)),
        what_(fmt::format("{} of ranks {}", what, fmt::join(ranks_, ", "))),
        tag_(static_cast<std::uint32_t>(hash_of_group(ranks_, what))),
        deadline_(deadline),
        place_(static_cast<std::size_t>(std::ranges::find(ranks_, bootstrap.group.rank) - ranks_.begin())) {}

  std::vector<Bytes> all_gather(const Bytes& mine) {
    std::vector<Bytes> all(ranks_.size());
    all[place_] = mine;
    if (ranks_.size() == 1) return all;
    if (place_ != 0) {
      send(ranks_[0], mine);
      const Bytes everything = receive(ranks_[0]);
      WireReader reader(everything);
      for (Bytes& bytes : all) bytes = reader.owned_bytes();
      return all;
    }
    for (std::size_t i = 1; i < ranks_.size(); ++i) all[i] = receive(ranks_[i]);
    WireWriter writer;
    for (const Bytes& bytes : all) writer.bytes(bytes);
    const Bytes everything = writer.take();
    for (std::size_t i = 1; i < ranks_.size(); ++i) send(ranks_[i], everything);
    return all;
  }

  int place() const noexcept { return static_cast<int>(place_); }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }

 private:
  /// Two messages: the length of the second one, then this group's name and members and the body.
  void send(int rank, const Bytes& body) {
    const Bytes all = WireWriter().text(what_).rest(body).take();
    const std::uint64_t bytes = all.size();
    finish(Message::send(std::span(&bytes, 1), rank, tag_));
    finish(Message::send(all, rank, tag_));
  }

  Bytes receive(int rank) {
    std::uint64_t bytes = 0;
    finish(Message::recv(std::span(&bytes, 1), rank, tag_));
    Bytes all(bytes);
    finish(Message::recv(all, rank, tag_));
    WireReader reader(all);
    if (const std::string what = reader.text(); what != what_) {
      throw Error(Code::Mismatch,
                  fmt::format("{}: {} is making {} at the same time, which has the same hash: give another name", what_,
                              bootstrap_.group.rank_text(rank), what),
                  rank);
    }
    return reader.rest();
  }

  void finish(const Message& message) {
    CallOptions options{};
    options.label = what_.c_str();
    const Status status = bootstrap_.messages.pass(message, options, deadline_);
    if (status.code() != Code::Cancelled) return status.require();
    throw Error(Code::Timeout, fmt::format("{}: {} has not come", what_, bootstrap_.group.rank_text(message.peer)),
                message.peer);
  }

  CommunicatorState& bootstrap_;
  std::vector<int> ranks_;
  std::string what_;
  std::uint32_t tag_;
  Deadline deadline_;
  std::size_t place_;
};

}  // namespace

std::uint64_t hash_of_group(std::span<const int> members, std::string_view what) noexcept {
  std::uint64_t hash = members.size();
  for (const int rank : members) hash = mix(hash, static_cast<std::uint64_t>(rank) + 1);
  for (const char c : what) hash = mix(hash, static_cast<unsigned char>(c) + std::uint64_t{1});
  return mix(hash, hash >> 32);
}

Exchange member_exchange(CommunicatorState& bootstrap, std::vector<int> members, std::string_view what,
                         Deadline deadline) {
  auto state = std::make_shared<Members>(bootstrap, std::move(members), what, deadline);
  return {state->place(), state->size(), [state](const Bytes& mine) { return state->all_gather(mine); }};
}

}  // namespace sinew
