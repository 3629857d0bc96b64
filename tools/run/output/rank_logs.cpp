#include "rank_logs.hpp"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew::run {

std::string RankLogs::path_of(Source source) const {
  return fmt::format("{}/{}/{}.log", options_.folder, source.first,
                     source.second == Stream::Output ? "stdout" : "stderr");
}

void RankLogs::open(int rank) {
  if (options_.folder.empty()) return;
  try {
    std::filesystem::create_directories(fmt::format("{}/{}", options_.folder, rank));
    for (const Stream stream : {Stream::Output, Stream::Errors}) {
      const Source source{rank, stream};
      files_.emplace(source, RotatedFile(path_of(source), options_.rotation));
    }
  } catch (const std::filesystem::filesystem_error& e) {
    throw Error(Code::InvalidArgument,
                fmt::format("--log-dir: cannot make {}: {}; expected a folder that can be written and has room",
                            e.path1().string(), e.code().message()));
  } catch (const Error& e) {
    throw Error(Code::InvalidArgument,
                fmt::format("--log-dir: {}; expected a folder that can be written and has room", e.what()));
  }
}

bool RankLogs::take(Source source, std::string_view bytes) {
  if (const auto file = files_.find(source); file != files_.end()) {
    try {
      file->second.write(bytes);
    } catch (const Error& e) {
      files_.erase(file);
      fail(source, e.what());
    }
  }
  return prints(source);
}

void RankLogs::fail(Source source, std::string_view why) {
  failed_.insert(source);
  const std::string reason(why.substr(why.rfind(": ") + 2));  // the path comes before it
  if (!said_.insert(reason).second) return;
  warn_(fmt::format("--log-dir: {}; what ranks print there is printed here instead", why));
}

void RankLogs::close(int rank) {
  for (const Stream stream : {Stream::Output, Stream::Errors}) files_.erase({rank, stream});
}

bool RankLogs::prints(Source source) const noexcept {
  return options_.folder.empty() || failed_.contains(source) || contains(options_.printed, source.first);
}

}  // namespace sinew::run
