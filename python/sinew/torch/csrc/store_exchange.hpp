#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew::torch_backend {

/// The meeting of the ranks of a process group in a key-value store of torch.
///
/// The store may still hold the keys of earlier meetings: of processes that were restarted, or of an earlier process
/// group of the same name. So every rank writes a fresh random number under "hello/RANK", with its world size and what
/// it offers. Rank 0 decides by all offers, and answers each number under "answer/NUMBER" with the name of the meeting,
/// which is random, too, its own world size and the decision. All later keys begin with this name. Rank 0 reads the
/// numbers again while ranks are missing in the first round, because it may have found that of a dead process.
///
/// In a round of the exchange each rank writes its bytes under a key of its own, and rank 0 puts all of them under one.
/// Cost:   about 4 requests to the store per rank and round, and 6 more; leave() deletes the keys.
/// Thread: one.
class StoreExchange {
 public:
  StoreExchange(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout);

  /// Rank 0 decides, by what each rank offers, in their order.
  using Decide = std::function<Bytes(const std::vector<Bytes>& offers)>;

  /// Finds the other ranks and returns what rank 0 has decided. Whoever can read the store can read it.
  /// Errors: Error{Timeout} that names the ranks that did not come; what `decide` throws, on rank 0; Mismatch on other
  ///         ranks whose world size is not rank 0's.
  Bytes meet(const Bytes& offer, const Decide& decide);
  /// The rounds of this meeting. Lifetime: that of this object.
  /// Errors: Error{Timeout} that names the ranks that did not come; Aborted with what another rank told.
  Exchange exchange();
  /// Deletes what the meeting has left in the store. Call it after the last round, on all ranks. Rank 0 returns when no
  /// other rank of it uses the store any more, because the process of rank 0 mostly keeps the store.
  void leave();
  /// Ends the others' waits with this text.
  void tell_failure(std::string_view text) noexcept;

 private:
  using Keys = std::vector<std::string>;

  std::string round_key(std::uint64_t round) const { return meeting_ + "/" + std::to_string(round); }
  std::string round_key(std::uint64_t round, int rank) const { return round_key(round) + "/" + std::to_string(rank); }
  std::string failure_key() const { return meeting_ + "/failure"; }

  Keys hello_keys() const;
  void invite(const Bytes& offer, const Decide& decide);
  /// Answers the numbers that were not answered yet.
  void answer_hellos(const std::vector<std::vector<std::uint8_t>>& hellos);
  void find_meeting(const Bytes& offer);
  std::vector<Bytes> all_gather(const Bytes& mine);
  std::vector<Bytes> gather(const Bytes& mine);

  bool has(const std::string& key) { return store_->check({key}); }
  std::vector<std::vector<std::uint8_t>> get_all(const Keys& keys);
  /// Waits for the keys for a moment and says whether all of them are there. `since`: when the wait for them began.
  /// Errors: those of check_slowly().
  bool wait_a_moment(const Keys& keys, Clock::time_point since);
  /// Now and then it runs Python's signal handlers, and throws if another rank has told a failure.
  void check_slowly();
  void require_no_failure();
  bool time_is_up() const { return Clock::now() >= last_; }
  [[noreturn]] void give_up(const std::vector<int>& missing);
  /// Names the ranks that were started with another world size; empty: there is none.
  std::string other_world_sizes();
  /// The ranks whose key, which `key_of` gives, is not there.
  template <class KeyOf>
  std::vector<int> missing(KeyOf&& key_of);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point begun_ = Clock::now();
  const Clock::time_point last_;  ///< when this rank gives up
  Clock::time_point next_slow_check_{};
  std::string meeting_;  ///< empty: not known yet
  Bytes decision_;
  bool greeted_ = false;               ///< there is a "hello" of this rank in the store
  std::string number_;                 ///< the number in it
  std::vector<std::string> answered_;  ///< rank 0: the number of each rank that it has answered
  std::uint64_t rounds_ = 0;
};

}  // namespace sinew::torch_backend
