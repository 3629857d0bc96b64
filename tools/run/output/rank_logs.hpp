#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "rank_set.hpp"
#include "rotated_file.hpp"
#include "stream.hpp"

namespace sinew::run {

/// Where the output of ranks goes beside, or instead of, this process's standard streams.
struct LogOptions {
  std::string folder;  ///< of one start of the job; rank 3's are folder/3/stdout.log and stderr.log. Empty: no files
  Rotation rotation;
  RankSet printed;  ///< these are printed, too
};

/// The log files of ranks of this host. If a file cannot be written any more, on a full disk for example, then a
/// warning says so. The rank goes on, and what would have gone to the file is printed.
class RankLogs {
 public:
  /// `warn` gets the reason when a file cannot be written any more, once for all ranks with the same reason.
  RankLogs(LogOptions options, std::function<void(const std::string& why)> warn)
      : options_(std::move(options)), warn_(std::move(warn)) {}

  /// Makes the rank's folder and files. Errors: Error{InvalidArgument} naming what cannot be made.
  void open(int rank);
  /// Writes it to the source's file. Returns true where it is to be printed, too.
  bool take(Source source, std::string_view bytes);
  /// The rank has ended: closes its files.
  void close(int rank);
  bool prints(Source source) const noexcept;

 private:
  std::string path_of(Source source) const;
  void fail(Source source, std::string_view why);

  LogOptions options_;
  std::function<void(const std::string& why)> warn_;
  std::map<Source, RotatedFile> files_;
  std::set<Source> failed_;
  std::set<std::string, std::less<>> said_;
};

}  // namespace sinew::run
