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

/// "send", "recv", "copy", "reduce"; classes of draw::style_sheet(), too.
std::string_view word_of(Op op) noexcept;

/// "rank 0 sends to 1, segment 2, step 3: 1.5 us to 4 us, 2.5 us".
std::string describe(const Forecast::Span& span);

/// For each span a track among those of its rank and operation, from 0 on, so that none of a track overlap.
/// Shape: ordered as by in_time().
std::vector<std::uint32_t> tracks_of(const std::vector<Forecast::Span>& spans);

/// By start, the rest in an order that is the same every time.
std::vector<Forecast::Span> in_time(std::vector<Forecast::Span> spans);

}  // namespace sinew::tools
