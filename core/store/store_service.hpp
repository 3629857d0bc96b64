#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/core/store/server_search.hpp>
#include <sinew/core/store/store_seat.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {

/// What a StoreServer does with requests: answers them, or parks them until what they wait for is there, can no longer
/// come, or is too late. No descriptors of its own.
class SINEW_API StoreService final : public StoreHandler {
 public:
  /// After this time a notice is given of an exchange that still waits (StoreServerOptions::notice).
  static constexpr Duration kLate = SearchNotice::kAfter;

  struct Options {
    int ranks = 0;            ///< how many the job has, 0 if that is not known before they come
    bool meets_once = false;  ///< once all ranks of a group have come, ranks that come later are refused
    std::function<void(const std::string& missing)> notice{};
  };
  /// `elastic`: the limits of an elastic job.
  explicit StoreService(Options options, std::optional<ElasticLimits> elastic = {}) : options_(std::move(options)) {
    if (elastic) membership_.emplace(*elastic);
  }

  void handle(StoreSeat& from, const Bytes& request) override;
  /// Whoever waits for the rank of this client is told that it left, or how it was cut off. A second call does nothing.
  void forget(StoreSeat& gone, const std::string& how = {}) override;
  /// Answers Timeout where a deadline has passed; returns the next one.
  Deadline expire() override;
  /// For all rounds, now and later: `rank` will not come, because `why`.
  void lose(int rank, const std::string& why);
  /// The members of an elastic job. Null: the job is not elastic. form_rounds() is called after a change.
  ElasticMembers* membership() noexcept { return membership_ ? &*membership_ : nullptr; }
  /// Answers the members of the next round if it can be formed.
  void form_rounds();
  /// No round is formed any more, because `why`.
  void end_rounds(const std::string& why);
  /// Returns true if a rank of another process has left or was refused, and connected ranks have not been told. After
  /// a refusal this counts ranks that have not come yet, too.
  bool has_untold_ranks() const;
  /// Errors: Unavailable if all ranks of a group have met here, so that newcomers are of a later start.
  void require_unmet() const;
  void ask_for_refused(std::function<std::string()> refused) { refused_ = std::move(refused); }

 private:
  void dispatch(StoreSeat& from, const Bytes& request);
  void hello(StoreSeat& from, const StoreIdentity& identity);
  void park(StoreSeat& from, ParkedRequest request, std::uint32_t milliseconds);
  void gather(StoreSeat& from, ParkedRequest request, std::uint32_t milliseconds, std::span<const std::byte> mine);
  void next_round(StoreSeat& from, std::span<const std::byte> request, std::uint32_t milliseconds);
  ElasticMembers& members();
  void leave_round(ElasticMembers::Id member);
  void turn_away(const StoreIdentity& id, const Status& why, bool needs_answer = false);
  /// A group that all have left needs no memory of who did: a store outlives many Worlds.
  void forget_group_without_ranks(const StoreIdentity& id);
  void deliver(const Gathering& round);
  /// Answers those who wait for keys that are all there now.
  void wake();
  void answer_if_there(StoreSeat& waiter);
  void fail_rounds(const std::function<std::optional<Status>(const StoreSeat&, const Gathering&)>& verdict);
  /// Why a round of a group will not be complete; nullopt: it may be.
  std::optional<Status> end_of(const Gathering& round, const std::string& group) const;
  /// Who of a group is known not to come any more.
  Status roll_call(const StoreIdentity& of) const;
  Status late(const StoreSeat& waiter) const;
  std::string strangers(const StoreSeat& waiter) const;
  /// Gives the notice of each exchange that is late. Returns when the next one will be.
  Deadline tell_who_is_late();
  std::string who_is_there(const std::string& group) const;
  [[noreturn]] static void refuse_of_later_start(const std::string& met_on);
  void answer(StoreSeat& to, const std::shared_ptr<const Bytes>& reply);
  /// The clients that wait, for calls that answer some of them.
  std::vector<StoreSeat*> waiting() const;

  struct Departure {
    std::uint64_t number;  // the first to leave is why others do
    Status why;
    bool is_here;  // the rank was in the process of this store
  };

  /// Of who has left a group and is counted by `counts(rank)`: the first one's reason.
  std::optional<Status> first_departure(const std::string& group, const std::function<bool(int)>& counts) const;

  const Options options_;
  std::function<std::string()> refused_;
  StoreTable table_;
  std::set<std::pair<Clock::time_point, StoreSeat*>> parked_;     // by the deadlines of their requests
  Clock::time_point next_notice_ = Clock::time_point::max();      // no exchange is late before
  std::map<std::pair<std::string, int>, StoreIdentity> present_;  // by group and rank
  std::map<std::string, std::map<int, Departure>> left_;          // by group, then by rank
  std::map<std::string, std::string> met_;  // groups all of whose ranks have come: from which hosts
  std::uint64_t departures_ = 0;
  std::map<int, std::string> lost_;
  std::optional<ElasticMembers> membership_;
  ElasticMembers::Id next_member_ = 0;
  std::optional<Status> rounds_end_;
};

}  // namespace sinew
