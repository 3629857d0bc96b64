#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/store_seat.hpp>

namespace sinew {

/// The clients of a relay, as the relay's parent sees them: all of them share the relay's connection. It takes the
/// relay's batches apart, and makes batches of the replies. A reply to several clients is in a batch once.
/// It does no I/O.
class SINEW_API RelayClients {
 public:
  /// `handler` outlives this object.
  RelayClients(StoreHandler& handler, RelayIntroduction relay);
  ~RelayClients();
  RelayClients(const RelayClients&) = delete;
  RelayClients& operator=(const RelayClients&) = delete;

  /// Errors: Error{Mismatch} where the bytes are no batch.
  void take(std::span<const std::byte> batch);
  /// All replies since the last call, as few batches as kLongestBatch allows. Empty: there are none.
  std::vector<Bytes> answers();
  bool has_answers() const noexcept { return !replies_.empty(); }
  /// The connection to the relay is gone, and so are its clients.
  void cut(const std::string& reason);
  /// This process does not reach the store any more, and tells the relay why.
  void tell_cut(const Status& why) {
    replies_.push_back({RelayEvent::Cut, FramedStream::frame(encode_status(why)), {}});
  }

 private:
  class Client;
  struct Reply {
    RelayEvent event;
    std::shared_ptr<const Bytes> frame;
    std::vector<std::uint32_t> clients;
  };

  void reply(std::uint32_t client, RelayEvent event, std::shared_ptr<const Bytes> frame);

  StoreHandler& handler_;
  const RelayIntroduction relay_;
  std::map<std::uint32_t, std::unique_ptr<Client>> clients_;
  std::vector<Reply> replies_;
};

}  // namespace sinew
