#include <fmt/format.h>

#include <sinew/core/system/file_text.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew {

std::string stat_of_process(pid_t process) {
  const std::string text = file_text(fmt::format("/proc/{}/stat", process)).value_or("");
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? std::string() : text.substr(name_end + 1);
}

char state_of_process(pid_t process) {
  const std::string stat = stat_of_process(process);
  const std::size_t first = stat.find_first_not_of(' ');
  return first == std::string::npos ? '\0' : stat[first];
}

}  // namespace sinew
