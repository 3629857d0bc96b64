#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/relay_service.hpp>

namespace sinew {
namespace {

/// The answer to a Hello. A client with this answer looks for a store again.
Status unavailable(const Status& why) { return {Code::Unavailable, std::string(why.message()), why.rank()}; }

}  // namespace

void RelayService::handle(StoreSeat& from, const Bytes& request) {
  WireReader reader(request);
  const auto op = reader.left() > 0 ? reader.value<StoreOp>() : StoreOp::Set;
  const bool greets = op == StoreOp::Hello;
  if (cut_) return from.send(framed_reply(greets ? unavailable(*cut_) : *cut_));
  const auto [at, is_new] = clients_.try_emplace(&from);
  Client& client = at->second;
  if (is_new) {
    client.number = next_number_++;
    seats_.emplace(client.number, &from);
  }
  if (client.waits) {
    forget(from, kSecondRequest);
    return from.close_after_flush();
  }
  if (greets && client.group.empty()) try {
      static_cast<void>(reader.value<std::uint32_t>());
      from.identity = StoreIdentity::decode(reader.bytes());
      client.group = from.identity->group;
      ++groups_[client.group].clients;
    } catch (const Error&) {  // the server of the store says what is wrong with it
    }
  note_waiting(client, true);
  client.greets = greets;
  if (greets) {
    waits_for_more_ = true;
  } else if (op == StoreOp::AllGather) {
    gathering_.insert(client.group);
  } else {
    is_urgent_ = true;
  }
  hold(client.number, RelayEvent::Message, request);
}

void RelayService::forget(StoreSeat& gone, const std::string& how) {
  const auto at = clients_.find(&gone);
  if (at == clients_.end()) return;
  Client& client = at->second;
  note_waiting(client, false);
  if (!client.group.empty()) {
    const auto group = groups_.find(client.group);
    if (--group->second.clients == 0) groups_.erase(group);
  }
  hold(client.number, RelayEvent::Ended, std::as_bytes(std::span(how)));
  waits_for_more_ = true;
  seats_.erase(client.number);
  clients_.erase(at);
}

void RelayService::hold(std::uint32_t client, RelayEvent event, std::span<const std::byte> bytes) {
  if (!since_) since_ = now_();
  if (batch_.size() > 0 && batch_.size() + bytes.size() > longest_batch_) {
    full_.push_back(batch_.take());
    is_urgent_ = true;
  }
  batch_.value(client).value(event).bytes(bytes);
}

void RelayService::note_waiting(Client& client, bool waits) {
  if (std::exchange(client.waits, waits) == waits || client.group.empty()) return;
  groups_[client.group].waiting += waits ? 1 : -1;
}

bool RelayService::is_due() const {
  if (is_urgent_ || now_() >= *since_ + kPause) return true;
  if (waits_for_more_) return false;
  return std::ranges::all_of(gathering_, [this](const std::string& name) {
    const auto group = groups_.find(name);
    return group == groups_.end() || group->second.waiting == group->second.clients;
  });
}

Deadline RelayService::expire() {
  if (!since_ || !parent_ || cut_) return Deadline::never();
  if (!is_due()) return Deadline(*since_ + kPause);
  since_.reset();
  gathering_.clear();
  waits_for_more_ = false;
  is_urgent_ = false;
  for (Bytes& batch : std::exchange(full_, {})) parent_(std::move(batch));
  parent_(batch_.take());
  return Deadline::never();
}

void RelayService::take(std::span<const std::byte> batch) {
  for (WireReader reader(batch); reader.left() > 0;) {
    std::vector<StoreSeat*> to;
    for (auto left = reader.value<std::uint32_t>(); left > 0; --left) {
      const auto at = seats_.find(reader.value<std::uint32_t>());
      if (at != seats_.end()) to.push_back(at->second);  // else the client has gone meanwhile
    }
    const auto event = reader.value<RelayEvent>();
    if (event == RelayEvent::Cut) return cut(decode_status(reader.bytes()));
    const auto reply = FramedStream::frame(reader.bytes());
    for (StoreSeat* seat : to) {
      note_waiting(clients_.at(seat), false);
      event == RelayEvent::Message ? seat->send(reply) : seat->close_after_flush();
    }
  }
}

void RelayService::cut(const Status& why) {
  if (cut_) return;
  cut_ = why;
  const auto reply = framed_reply(why);
  const auto reply_to_hello = framed_reply(unavailable(why));
  for (auto& [seat, client] : clients_) {
    if (std::exchange(client.waits, false)) seat->send(client.greets ? reply_to_hello : reply);
  }
}

}  // namespace sinew
