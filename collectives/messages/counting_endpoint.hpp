#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <sinew/core/transport.hpp>

namespace sinew {

/// Another endpoint, and an account of what it was given to send.
/// Thread: `sent` is written by the thread that drives this rank, and by no other; it outlives the endpoint.
class CountingEndpoint final : public Endpoint {
 public:
  CountingEndpoint(std::unique_ptr<Endpoint> carrier, std::uint64_t& sent) noexcept
      : carrier_(std::move(carrier)), sent_(sent) {}

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override {
    sent_ += from.bytes;
    carrier_->send(from, tag, note, done);
  }
  void recv(Sink to, Tag tag, Completion& done) override { carrier_->recv(to, tag, done); }
  bool has_unexpected(Tag tag) const noexcept override { return carrier_->has_unexpected(tag); }
  bool cancel(Completion& done) override { return carrier_->cancel(done); }
  void close(Completion& closed) override { carrier_->close(closed); }

 private:
  std::unique_ptr<Endpoint> carrier_;
  std::uint64_t& sent_;
};

}  // namespace sinew
