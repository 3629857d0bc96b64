#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// What whole calls took when every way was tried: `sinew-bench tune` writes it, SINEW_TUNE_FILE names it, and
/// selection takes it for a prediction on groups with as many ranks on each host. Times that were measured hold the
/// crossovers between ways, which no curve of a link knows.
struct TunedTimes {
  struct Point {
    double bytes = 0;  ///< as CollectiveDesc::bytes counts
    Seconds seconds = 0;
  };
  struct Way {
    std::string collective;
    std::string algorithm;
    std::string transport;
    std::vector<Point> points;  ///< ascending in bytes
    std::string devices{};      ///< device_kind() of calls on device memory; empty: host memory
  };

  std::string machine;        ///< machine_identity() of rank 0's
  std::vector<int> ranks_on;  ///< of each host, in the order of their first ranks
  std::vector<Way> ways;
  std::string file;  ///< as rank 0 calls it; not written into it

  /// Between two points as their times are on double-logarithmic paper; below the first its time, above the last in
  /// proportion to the bytes. nullopt: this way was not tried on memory of these devices, or of the host.
  SINEW_API std::optional<Seconds> seconds(std::string_view collective, std::string_view algorithm,
                                           std::string_view transport, double bytes,
                                           std::string_view devices = {}) const;
};

/// JSON, with its format's number.
SINEW_API std::string to_text(const TunedTimes& times);
/// Errors: Error{InvalidArgument} that names `file`, what is wrong in it and what was expected.
SINEW_API TunedTimes tuned_times_from(std::string_view text, std::string_view file);

/// What the file says; nullopt where no file is named, or it is of another machine than `machine`: then a warning shows
/// both. Errors: as tuned_times_from, and where the file cannot be read.
SINEW_API std::optional<TunedTimes> load_tuned_times(const std::string& file, const std::string& machine);

}  // namespace sinew
