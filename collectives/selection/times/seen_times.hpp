#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// The times of calls on device memory that jobs have seen, for devices of one kind. The cost cache keeps them from job
/// to job. Each time is the shortest of several equal calls, measured on rank 0 while no other call used the devices.
struct SeenTimes {
  /// The calls that share times.
  struct Call {
    std::vector<int> ranks_on;  ///< the number of ranks on each host
    std::string collective;
    std::string algorithm;
    std::string transport;
    friend auto operator<=>(const Call&, const Call&) = default;
  };
  /// One class covers the sizes from a power of two up to the next one. It keeps the first size that was timed.
  struct Point {
    std::uint64_t bytes = 0;
    Seconds seconds = 0;
    int samples = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };
  /// The fewest samples of a class that count.
  static constexpr int kFewest = 5;

  std::string devices;                          ///< device_kind(); empty: there are no times
  std::map<Call, std::map<int, Point>> points;  ///< by class of size, the logarithm of its smallest one

  /// Takes a time of one call. Calls of another size than the one of their class are left out.
  SINEW_API void add(const Call& call, std::uint64_t bytes, Seconds seconds);
  /// The time of a call of this size, from a class with enough samples whose size is at most 1.5 times away.
  SINEW_API std::optional<Seconds> seconds(const Call& call, std::uint64_t bytes) const;
  /// Replaces each class that has enough samples in `later`, which are the times of a later job.
  SINEW_API void replace_by(const SeenTimes& later);

  friend bool operator==(const SeenTimes&, const SeenTimes&) = default;
};

/// JSON.
SINEW_API std::string to_text(const SeenTimes& times);
/// Errors: Error{InvalidArgument} that says what is wrong with the text.
SINEW_API SeenTimes seen_times_from(std::string_view text);

}  // namespace sinew
