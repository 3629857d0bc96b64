#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/trace/call_log.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {

constexpr std::int64_t kMs = 1'000'000;

inline Fingerprint sum_of(std::uint64_t count) {
  return fingerprint_of({.collective = Collective::AllReduce, .dtype = DType::F32, .count = count});
}

/// A rank's log with calls that a test makes up, on the World's communicator.
class WrittenLog {
 public:
  WrittenLog(const std::string& folder, LogOwner owner)
      : path_(fmt::format("{}/sinew-{}-rank-{}.calls", folder, owner.generation, owner.rank)),
        owner_(std::move(owner)),
        log_(std::make_unique<CallLog>(path_, owner_)) {
    struct {
      CommunicatorCell cell;
      std::int32_t ranks[64];
    } group{{0, 0, static_cast<std::uint32_t>(owner_.rank)}, {}};
    for (int r = 0; r < owner_.ranks; ++r) group.ranks[r] = r;
    const std::size_t bytes = sizeof group.cell + static_cast<std::size_t>(owner_.ranks) * sizeof(std::int32_t);
    world_ = log_->define(CellKind::Communicator, std::as_bytes(std::span(&group, 1)).first(bytes));
    const std::string site = "train.cpp:12";
    site_ = log_->define(CellKind::Site, std::as_bytes(std::span(site)));
  }

  std::uint32_t plan(double predicted_s, std::uint64_t bytes, const std::string& algorithm,
                     const std::string& transport) {
    const PlanCell cell{bytes, predicted_s};
    std::string text(reinterpret_cast<const char*>(&cell), sizeof cell);
    text += algorithm;
    text += '\0';
    text += transport;
    return log_->define(CellKind::Plan, std::as_bytes(std::span(text)));
  }

  LogEntry enter(std::uint32_t sequence, std::int64_t entered, Fingerprint fingerprint = sum_of(4), int peer = -1) {
    return log_->enter([&](CallCell& cell) {
      cell.communicator = world_;
      cell.fingerprint = fingerprint;
      cell.extent = fingerprint >> 32 & 0x7fffffff;
      cell.entered = entered + owner_.ahead_ns;
      cell.sequence = sequence;
      cell.peer = peer;
      cell.site = site_;
    });
  }
  /// The whole of a call. Times are of rank 0's clock.
  void call(std::uint32_t sequence, std::int64_t entered, std::int64_t completed, std::uint32_t plan = 0,
            Code outcome = Code::Ok, Fingerprint fingerprint = sum_of(4), int peer = -1) {
    const LogEntry place = enter(sequence, entered, fingerprint, peer);
    if (place.cell == nullptr) return;
    place.cell->plan = plan;
    place.cell->outcome = static_cast<std::uint32_t>(outcome);
    log_->complete(place, completed + owner_.ahead_ns);
  }
  /// The rank ends its World.
  void close() { log_.reset(); }

  const std::string& path() const { return path_; }
  CallLog& log() { return *log_; }

 private:
  std::string path_;
  LogOwner owner_;
  std::unique_ptr<CallLog> log_;
  std::uint32_t world_ = 0;
  std::uint32_t site_ = 0;
};

}  // namespace sinew::test
