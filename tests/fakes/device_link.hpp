#pragma once

#include <cstring>
#include <deque>
#include <utility>

#include <sinew/core/transport.hpp>

#include "fakes/fake_device.hpp"

namespace sinew::fake {

/// A rank's connection to itself over a transport that takes device memory. A message goes from buffer to buffer when
/// both are here.
/// It knows what the way of a long message needs: no notes, and no messages that are shorter than their receives.
class DeviceLink final : public Endpoint {
 public:
  int progress() {
    int events = 0;
    for (auto r = receives_.begin(); r != receives_.end();) {
      auto s = sends_.begin();
      while (s != sends_.end() && s->tag != r->tag) ++s;
      if (s == sends_.end()) {
        ++r;
        continue;
      }
      std::memcpy(bytes_of(r->to.data, r->to.bytes), bytes_of(s->from.data, s->from.bytes), s->from.bytes);
      Completion& sent = *s->done;
      Completion& received = *r->done;
      sends_.erase(s);
      r = receives_.erase(r);
      received.bytes = sent.bytes;
      sent.finish({});
      received.finish({});
      events += 2;
    }
    for (Completion* c : std::exchange(cancelled_, {})) c->finish({Code::Cancelled, "it was cancelled"});
    return events;
  }

  void send(ConstBuffer from, Tag tag, std::uint64_t, Completion& done) override {
    done.bytes = from.bytes;
    sends_.push_back({from, tag, &done});
  }
  void recv(Sink to, Tag tag, Completion& done) override { receives_.push_back({to.into, tag, &done}); }
  bool has_unexpected(Tag) const noexcept override { return false; }
  bool cancel(Completion& done) override {
    const auto is_it = [&](const auto& m) { return m.done == &done; };
    if (std::erase_if(sends_, is_it) + std::erase_if(receives_, is_it) == 0) return false;
    cancelled_.push_back(&done);
    return true;
  }
  void close(Completion& closed) override { cancelled_.push_back(&closed); }

 private:
  struct Sent {
    ConstBuffer from;
    Tag tag;
    Completion* done;
  };
  struct Received {
    Buffer to;
    Tag tag;
    Completion* done;
  };
  std::deque<Sent> sends_;
  std::deque<Received> receives_;
  std::deque<Completion*> cancelled_;
};

}  // namespace sinew::fake
