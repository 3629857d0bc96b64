#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/relay_clients.hpp>

namespace sinew {

class RelayClients::Client final : public StoreSeat {
 public:
  Client(RelayClients& of, std::uint32_t number) : of_(of), number_(number) {}

  void send(std::shared_ptr<const Bytes> frame) override { of_.reply(number_, RelayEvent::Message, std::move(frame)); }
  void close_after_flush() override { of_.reply(number_, RelayEvent::Ended, FramedStream::frame({})); }

 private:
  RelayClients& of_;
  const std::uint32_t number_;
};

RelayClients::RelayClients(StoreHandler& handler, RelayIntroduction relay)
    : handler_(handler), relay_(std::move(relay)) {}

RelayClients::~RelayClients() = default;

void RelayClients::take(std::span<const std::byte> batch) {
  for (WireReader reader(batch); reader.left() > 0;) {
    const auto number = reader.value<std::uint32_t>();
    const auto event = reader.value<RelayEvent>();
    const Bytes bytes = reader.owned_bytes();
    const auto at = clients_.find(number);
    switch (event) {
      case RelayEvent::Message: {
        std::unique_ptr<Client>& client = at != clients_.end() ? at->second : clients_[number];
        if (!client) client = std::make_unique<Client>(*this, number);
        if (!client->parked) {
          handler_.handle(*client, bytes);
          break;
        }
        handler_.forget(*client, kSecondRequest);
        client->close_after_flush();
        clients_.erase(number);
        break;
      }
      case RelayEvent::Ended:
        if (at == clients_.end()) break;
        handler_.forget(*at->second, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
        clients_.erase(at);
        break;
      default:
        throw Error(Code::Mismatch, fmt::format("a relay's batch has an event with number {}, expected at most {}",
                                                static_cast<int>(event), static_cast<int>(RelayEvent::Ended)));
    }
  }
}

void RelayClients::reply(std::uint32_t client, RelayEvent event, std::shared_ptr<const Bytes> frame) {
  const bool is_same = !replies_.empty() && replies_.back().event == event && replies_.back().frame == frame;
  if (!is_same) replies_.push_back({event, std::move(frame), {}});
  replies_.back().clients.push_back(client);
}

std::vector<Bytes> RelayClients::answers() {
  std::vector<Bytes> batches;
  WireWriter batch;
  for (const Reply& r : std::exchange(replies_, {})) {
    if (batch.size() > 0 && batch.size() + r.frame->size() > kLongestBatch) batches.push_back(batch.take());
    batch.value(static_cast<std::uint32_t>(r.clients.size()));
    for (const std::uint32_t client : r.clients) batch.value(client);
    batch.value(r.event).bytes(std::span(*r.frame).subspan(FramedStream::kHeaderBytes));
  }
  if (batch.size() > 0) batches.push_back(batch.take());
  return batches;
}

void RelayClients::cut(const std::string& reason) {
  const std::string how = fmt::format("{}, which leads to the store, is gone ({})", relay_.name(),
                                      reason.empty() ? "it has ended" : reason);
  for (auto& [number, client] : std::exchange(clients_, {})) handler_.forget(*client, how);
  replies_.clear();
}

}  // namespace sinew
