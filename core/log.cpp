#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/log.hpp>

namespace sinew::log {
namespace {

Level level_from_environment() {
  const char* text = std::getenv("SINEW_LOG");
  if (text == nullptr) return Level::Warning;
  const auto level = spdlog::level::from_str(text);
  switch (level) {
    case spdlog::level::trace: return Level::Trace;
    case spdlog::level::debug: return Level::Debug;
    case spdlog::level::info: return Level::Info;
    case spdlog::level::warn: return Level::Warning;
    case spdlog::level::err: return Level::Error;
    default: return std::string_view(text) == "off" ? Level::Off : Level::Warning;
  }
}

std::atomic<Level>& threshold() {
  static std::atomic<Level> level{level_from_environment()};
  return level;
}

struct Output {
  Sink sink;
  std::shared_ptr<spdlog::logger> fallback = [] {
    auto logger = std::make_shared<spdlog::logger>("sinew", std::make_shared<spdlog::sinks::stderr_sink_st>());
    logger->set_level(spdlog::level::trace);
    logger->set_pattern("sinew[%P] %l: %v");
    return logger;
  }();
};

Output& output() {
  static auto* o = new Output;  // outlives static destructors that may still log
  return *o;
}

}  // namespace

void set_sink(Sink sink) {
  const ProcessLock lock(OfProcess::Log);
  output().sink = std::move(sink);
}

void set_level(Level level) noexcept { threshold().store(level, std::memory_order_relaxed); }

bool enabled(Level level) noexcept { return level >= threshold().load(std::memory_order_relaxed); }

void write(Level level, std::string_view text) {
  std::string line(text);  // what came from outside shall not look like a line of its own
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; }, ' ');
  const ProcessLock lock(OfProcess::Log);
  if (output().sink) {
    output().sink(level, line);
  } else {
    output().fallback->log(static_cast<spdlog::level::level_enum>(level),
                           spdlog::string_view_t(line.data(), line.size()));
  }
}

}  // namespace sinew::log
