#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/simulator/forecast.hpp>

namespace sinew::tools {

// What pictures and traces of a time line share.

inline constexpr std::size_t kOps = 4;

/// "send", "recv", "copy", "reduce". These are also classes of draw::style_sheet().
std::string_view word_of(Op op) noexcept;

/// "rank 0 sends to 1, segment 2, step 3: 1.5 us to 4 us, 2.5 us".
std::string describe(const Forecast::Span& span);

/// The track of each span, from 0 on, among the spans of its rank and operation. Spans of a track do not overlap.
/// Shape: `spans` are in the order of in_time().
std::vector<std::uint32_t> tracks_of(const std::vector<Forecast::Span>& spans);

/// Sorted by start. Spans that start together have the same order each time.
std::vector<Forecast::Span> in_time(std::vector<Forecast::Span> spans);

}  // namespace sinew::tools
