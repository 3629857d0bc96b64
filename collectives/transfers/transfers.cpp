#include <algorithm>
#include <utility>

#include <sinew/collectives/transfers/transfers.hpp>

namespace sinew {

Transfers::Transfers(DeviceRuntime* runtime, int device, std::unique_ptr<PeerMemory> path, Connect connect)
    : runtime_(runtime), device_(device), path_(std::move(path)), connect_(std::move(connect)) {
  if (runtime_ == nullptr) return;
  send_pool_.emplace(*runtime_, device_);
  receive_pool_.emplace(*runtime_, device_);
}

Transfers::~Transfers() {
  active_.clear();
  posted_.clear();
  for (const TransferMeans& m : {sending_, receiving_}) {
    if (m.stream.device >= 0) runtime_->release(m.stream);
  }
}

/// Returns empty means if this rank has no device. The stream is made when it is first needed.
TransferMeans Transfers::means(std::optional<PiecePool>& pool) {
  if (runtime_ == nullptr) return {};
  return {runtime_, runtime_->make_stream(device_), &*pool, path_.get(), connect_};
}

template <class F>
void Transfers::for_each(F&& visit) const {
  for (const auto& t : posted_) visit(*t);
  for (const auto& t : active_) visit(*t);
}

void Transfers::send(const TransferRoute& route, std::uint32_t tag, ConstBuffer from, StreamRef after,
                     Completion& done) {
  if (sending_.runtime == nullptr) sending_ = means(send_pool_);
  auto made = std::make_unique<OutgoingTransfer>(sending_, counts_, route, ++numbers_, from, after, done);
  OutgoingTransfer& transfer = *made;
  outgoing_.push_back(&transfer);
  active_.push_back(std::move(made));
  try {
    transfer.announce(tag);
  } catch (...) {
    transfer.forget_operation();
    transfer.end({Code::Cancelled, "the send could not be started"});
    throw;
  }
}

void Transfers::recv(const TransferRoute& route, std::uint32_t tag, Buffer to, StreamRef after, bool lands,
                     Completion& done) {
  if (receiving_.runtime == nullptr && to.place.kind == MemoryKind::Device) receiving_ = means(receive_pool_);
  auto made = std::make_unique<IncomingTransfer>(receiving_, counts_, route, to, after, lands, done);
  IncomingTransfer& transfer = *made;
  transfer.first().list = this;
  transfer.first().place = posted_.size();
  transfer.first().fire = &Transfers::first_came;
  posted_.push_back(std::move(made));
  try {
    transfer.post(tag);
  } catch (...) {
    posted_.pop_back();
    throw;
  }
}

void Transfers::first_came(Completion& completion) noexcept {
  auto& first = static_cast<IncomingTransfer::First&>(completion);
  auto& all = *static_cast<Transfers*>(first.list);
  std::unique_ptr<IncomingTransfer> transfer = std::exchange(all.posted_[first.place], nullptr);
  if (first.place + 1 != all.posted_.size()) {
    all.posted_[first.place] = std::move(all.posted_.back());
    all.posted_[first.place]->first().place = first.place;
  }
  all.posted_.pop_back();
  if (transfer->take_first()) {
    transfer->finish_first();
  } else {
    all.active_.push_back(std::move(transfer));
  }
}

Transfers::Cancelled Transfers::cancel(const Completion& done) noexcept {
  for (const auto& t : posted_) {
    if (t->is_of(done)) return t->cancel() ? Cancelled::Done : Cancelled::TooLate;
  }
  for (OutgoingTransfer* t : outgoing_) {
    if (t->is_of(done)) return t->cancel() ? Cancelled::Done : Cancelled::TooLate;
  }
  const bool is_active = std::ranges::any_of(active_, [&](const auto& t) { return t->is_of(done); });
  return is_active ? Cancelled::TooLate : Cancelled::Unknown;
}

void Transfers::end(const void* owner, const Status& reason) noexcept {
  for (const auto& t : posted_) {
    // A receive whose plain message is on its way ends when that has come. Nothing is copied to the device then.
    if (t->route().owner == owner && !t->cancel()) t->end(reason);
  }
  for (const auto& t : active_) {
    if (t->route().owner == owner) t->end(reason);
  }
}

bool Transfers::has_cards(const void* owner) const noexcept {
  return std::ranges::any_of(outgoing_,
                             [owner](const auto* t) { return !t->is_closing() && t->route().owner == owner; });
}

void Transfers::forget_owner(const void* owner) noexcept {
  for_each([owner](DeviceTransfer& t) {
    if (t.route().owner == owner) t.forget_owner();
  });
}

std::string Transfers::describe(const void* owner, int peer) const {
  std::string text;
  for_each([&](const DeviceTransfer& t) {
    if (text.empty() && t.is_open() && t.route().owner == owner && t.route().peer == peer) text = t.describe();
  });
  return text;
}

int Transfers::progress() noexcept {
  int steps = 0;
  for (std::size_t i = 0; i < active_.size();) {
    if (!active_[i]->advance()) {
      ++i;
      continue;
    }
    const auto over = std::move(active_[i]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase(outgoing_, over.get());
    ++steps;
  }
  return steps;
}

bool Transfers::arm() noexcept {
  return std::ranges::all_of(active_, [](const auto& t) { return !t->is_closing() && t->waits_for_peer(); });
}

}  // namespace sinew
