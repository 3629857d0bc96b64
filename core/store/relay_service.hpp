#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/store/store_seat.hpp>

namespace sinew {

/// Collects the requests of a relay's clients, and passes them to its parent in batches. It gives each reply to
/// the client that it is for. So a parent gets few messages, however many clients there are.
/// - All clients of a group come to an all-gather. When all that are known have come, the batch goes out.
/// - A batch with clients that have just come or gone waits for further ones, but not longer than kPause.
/// - Other requests go out at once.
/// - Requests that are too long for one batch together go out in several.
/// A client that sends a second request before it has the answer to the first one is disconnected.
/// It does no I/O.
class SINEW_API RelayService final : public StoreHandler {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(10);

  /// `now`: the time, which a simulation may choose. `longest_batch`: see kLongestBatch.
  explicit RelayService(std::function<Clock::time_point()> now = &Clock::now, std::size_t longest_batch = kLongestBatch)
      : now_(std::move(now)), longest_batch_(longest_batch) {}

  /// Where batches go. Until the first call they wait here.
  void lead_to(std::function<void(Bytes batch)> parent) { parent_ = std::move(parent); }
  void handle(StoreSeat& from, const Bytes& request) override;
  void forget(StoreSeat& gone, const std::string& how) override;
  /// Sends the batch if it is due.
  Deadline expire() override;
  /// Takes a batch of replies. It may say that the parent is cut off from the store, and then this relay is, too.
  /// Errors: Error{Mismatch} where the bytes are no batch.
  void take(std::span<const std::byte> batch);
  /// The store cannot be reached any more: the clients that wait, and all later requests, get this. A client whose
  /// Hello has no answer gets Unavailable, because it may be of a later start and then looks for another way.
  void cut(const Status& why);
  /// The reason why the store cannot be reached any more. Nullopt while it can be reached.
  const std::optional<Status>& cut_by() const noexcept { return cut_; }

 private:
  struct Client {
    std::uint32_t number = 0;
    std::string group;  ///< empty: it has not said Hello
    bool waits = false;
    bool greets = false;  ///< it waits for the answer to Hello
  };
  struct Group {
    int clients = 0;
    int waiting = 0;
  };

  void hold(std::uint32_t client, RelayEvent event, std::span<const std::byte> bytes);
  void note_waiting(Client& client, bool waits);
  bool is_due() const;

  std::function<Clock::time_point()> now_;
  const std::size_t longest_batch_;
  std::function<void(Bytes batch)> parent_;
  std::map<StoreSeat*, Client> clients_;
  std::map<std::uint32_t, StoreSeat*> seats_;  // by number
  std::map<std::string, Group> groups_;
  std::uint32_t next_number_ = 0;
  std::optional<Status> cut_;

  std::vector<Bytes> full_;                 // batches that go out before batch_
  WireWriter batch_;                        // the events that wait
  std::optional<Clock::time_point> since_;  // when the first of them came; nullopt: there are none
  std::set<std::string> gathering_;         // groups with all-gathers among them
  bool waits_for_more_ = false;             // clients have come or gone
  bool is_urgent_ = false;
};

}  // namespace sinew
