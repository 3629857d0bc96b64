#pragma once

#include <cstdint>
#include <map>

#include <sinew/core/base/export.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/core/operation.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/block_pool.hpp>

namespace sinew {

/// A rank's connection to itself. A message of up to 64 KiB is kept until it is received, and its send ends at once.
/// The send of a longer message ends when the message has been received.
/// Thread: one at a time.
class SINEW_API SelfLink final : public ProgressSource, public Endpoint, MatcherWire {
 public:
  explicit SelfLink(std::uint8_t generation) noexcept : matcher_(*this, pool_, finished_, generation) {}

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override;
  void recv(Sink to, Tag tag, Completion& done) override { matcher_.recv(to, tag, done); }
  bool has_unexpected(Tag tag) const noexcept override { return matcher_.has_unexpected(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& closed) override;

  int progress() noexcept override { return finished_.fire(); }
  bool active() const noexcept override { return !finished_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override { return finished_.empty(); }
  void disarm() noexcept override {}

 private:
  /// A long message that has not been received.
  struct Waiting {
    ConstBuffer from;
    Completion* done;
  };

  void grant(std::uint64_t id, Completion& receive) override;
  void refuse(std::uint64_t id, Code why, std::uint64_t expected) override;
  void return_credit(std::size_t) override {}

  BlockPool pool_;
  FinishedOperations finished_;
  Matcher matcher_;
  std::uint32_t last_ = 0;
  std::map<std::uint64_t, Waiting> waiting_;
};

}  // namespace sinew
