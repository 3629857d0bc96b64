#pragma once

#include <cstddef>
#include <string>

#include <sinew/tools/info/jobs/job_watch.hpp>

namespace sinew::tools {

/// Where a table appears.
struct TableView {
  std::size_t width = 0;   ///< characters in a line; 0: no limit
  std::size_t height = 0;  ///< lines; 0: no limit
  bool has_colour = false;
};

/// A job as text for people: a line for the job and a line for each rank. If the view is narrow, calls are cut first;
/// then columns are left out, those that say least first. From 40 characters on, who waits for whom can be seen. If
/// the view is low, ranks that wait or that others wait for come before the others, and a line says how many are left
/// out.
std::string job_table(const WatchedJob& job, const TableView& view);

/// "0", "12", "1.2k", "3.4M", "5.6G".
std::string count_text(double count);
/// "0", "12 B", "1.2 KiB", "3.4 MiB".
std::string bytes_text(double bytes);

}  // namespace sinew::tools
