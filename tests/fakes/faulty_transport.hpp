#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/operation.hpp>
#include <sinew/core/transport.hpp>

namespace sinew::test {

/// One promise of the contract that a FaultyTransport breaks.
enum class Fault {
  None,
  CompletesInSend,
  FiresTwice,
  SwapsSends,
  TakesAnyLength,
  ArmsAlways,
};

/// Another transport with a limit on the length of messages, and a fault.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, Fault fault) : inner_(std::move(inner)), fault_(fault) {
    capabilities_ = inner_->capabilities();
    capabilities_.max_message_bytes = std::size_t{16} << 20;
  }

  std::string_view name() const noexcept override { return "faulty"; }
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Address address() const override { return inner_->address(); }
  Reach probe(const Address& peer) override { return inner_->probe(peer); }
  std::unique_ptr<Endpoint> connect(const Address& peer) override {
    return std::make_unique<FaultyEndpoint>(*this, inner_->connect(peer));
  }
  int progress() noexcept override { return inner_->progress() + refused_.fire(); }
  bool active() const noexcept override { return inner_->active() || !refused_.empty(); }
  int wake_descriptor() const noexcept override { return inner_->wake_descriptor(); }
  bool arm() noexcept override { return (inner_->arm() && refused_.empty()) || fault_ == Fault::ArmsAlways; }
  void disarm() noexcept override { inner_->disarm(); }

 private:
  /// Stands for the caller's operation at the inner transport.
  struct Proxy : Completion {
    Proxy(Completion& of, Fault fault) : Completion(fault == Fault::FiresTwice ? fire_twice : stay_silent), real(of) {}
    static void fire_twice(Completion& c) noexcept {
      auto& real = static_cast<Proxy&>(c).real;
      real.bytes = c.bytes;
      real.finish(c.status);
      real.fire(real);
    }
    static void stay_silent(Completion&) noexcept {}

    Completion& real;
    std::vector<std::byte> copy;
  };
  struct Held {
    ConstBuffer from;
    Tag tag;
    std::uint64_t note;
    Completion* done;
  };

  class FaultyEndpoint final : public Endpoint {
   public:
    FaultyEndpoint(FaultyTransport& transport, std::unique_ptr<Endpoint> inner)
        : transport_(transport), inner_(std::move(inner)) {}

    void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override {
      const std::size_t most = transport_.capabilities_.max_message_bytes;
      if (from.bytes > most && transport_.fault_ != Fault::TakesAnyLength) {
        const std::string found = std::to_string(from.bytes);
        return transport_.refused_.add(
            done,
            {Code::InvalidArgument, "a message of " + found + " bytes, expected at most " + std::to_string(most)});
      }
      switch (transport_.fault_) {
        case Fault::CompletesInSend: return complete_at_once(from, tag, note, done);
        case Fault::FiresTwice: return inner_->send(from, tag, note, proxies_.emplace_back(done, Fault::FiresTwice));
        case Fault::SwapsSends: return swap({from, tag, note, &done});
        default: return inner_->send(from, tag, note, done);
      }
    }
    void recv(Sink to, Tag tag, Completion& done) override { inner_->recv(to, tag, done); }
    bool has_unexpected(Tag tag) const noexcept override { return inner_->has_unexpected(tag); }
    bool cancel(Completion& done) override { return inner_->cancel(done); }
    void close(Completion& closed) override { inner_->close(closed); }

   private:
    void complete_at_once(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
      Proxy& proxy = proxies_.emplace_back(done, Fault::CompletesInSend);
      proxy.copy.assign(from.data, from.data + from.bytes);
      inner_->send({proxy.copy.data(), proxy.copy.size()}, tag, note, proxy);
      done.finish({});
    }
    void swap(const Held& now) {
      if (!held_) {
        held_ = now;
        return;
      }
      const Held before = *std::exchange(held_, std::nullopt);
      for (const Held& h : {now, before}) inner_->send(h.from, h.tag, h.note, *h.done);
    }

    FaultyTransport& transport_;
    std::unique_ptr<Endpoint> inner_;
    std::deque<Proxy> proxies_;
    std::optional<Held> held_;
  };

  std::unique_ptr<Transport> inner_;
  Fault fault_;
  Capabilities capabilities_;
  FinishedOperations refused_;
};

}  // namespace sinew::test
