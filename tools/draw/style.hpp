#pragma once

#include <string>
#include <string_view>

namespace sinew::draw {

/// Colours and letters of all drawings, for light and dark browsers. Classes:
///   paper, ink, faint   what is drawn on; text, and text beside it; with "head" or "small" in another height
///   part, inner         boxes, the second one shade darker; machine parts have further names
///   grid, axis          lines
///   c0 .. c7            series, told apart by the colour-blind (Okabe and Ito); with "curve" a line, with "dashed" too
///   use0 .. use5        utilisation, see use_class()
///   send recv copy reduce, odd   steps; every other segment a shade lighter
std::string_view style_sheet();

inline constexpr int kColours = 8;

/// Series `i`: "c3", and from kColours on "c3 dashed".
std::string series_class(std::size_t i);

/// How full a link is: 0 nothing, 1 is all the time at its full rate.
std::string_view use_class(double utilisation);

struct UseRow {
  std::string_view name;
  std::string_view meaning;
};
/// The legend of use_class(), from empty to full.
inline constexpr UseRow kUses[] = {{"use0", "unused"}, {"use1", "< 25 %"}, {"use2", "< 50 %"},
                                   {"use3", "< 75 %"}, {"use4", "< 90 %"}, {"use5", "90 % and more"}};

}  // namespace sinew::draw
