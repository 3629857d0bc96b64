#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/base/export.hpp>

namespace sinew::log {

enum class Level : std::uint8_t { Trace, Debug, Info, Warning, Error, Off };

/// Receives every line at or above the level. Called from any thread of the library; must not call back into it.
using Sink = std::function<void(Level, std::string_view line)>;

/// Replaces where lines go (default: stderr through spdlog, "sinew[pid] level: "); an empty sink restores the default.
SINEW_API void set_sink(Sink sink);
/// Default: SINEW_LOG (trace, debug, info, warning, error, off), else warning.
SINEW_API void set_level(Level level) noexcept;
SINEW_API bool enabled(Level level) noexcept;
SINEW_API void write(Level level, std::string_view line);

template <class... A>
void trace(fmt::format_string<A...> f, A&&... a) {
  if (enabled(Level::Trace)) write(Level::Trace, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void debug(fmt::format_string<A...> f, A&&... a) {
  if (enabled(Level::Debug)) write(Level::Debug, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void info(fmt::format_string<A...> f, A&&... a) {
  if (enabled(Level::Info)) write(Level::Info, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void warning(fmt::format_string<A...> f, A&&... a) {
  if (enabled(Level::Warning)) write(Level::Warning, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace sinew::log
