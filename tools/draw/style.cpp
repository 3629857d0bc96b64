#include "style.hpp"

#include <fmt/format.h>

namespace sinew::draw {

std::string_view style_sheet() {
  return "text{font:12px "
         "system-ui,sans-serif}text[class]{stroke:none}.head{font-size:16px;font-weight:600}.small{font-size:10px}\n"
         ".paper{fill:#fff}.ink{fill:#1f2328}.faint{fill:#59636e}\n"
         ".part{fill:#f6f8fa;stroke:#8c959f}.inner{fill:#eaeef2;stroke:#afb8c1}\n"
         ".core{fill:#d0d7de;stroke:#8c959f}.off{fill:none;stroke-dasharray:2}\n"
         ".gpu{fill:#d2ecdf;stroke:#009e73}.nic{fill:#d5e6f5;stroke:#0072b2}.nvswitch{fill:#e3f3ec;stroke:#009e73}\n"
         ".grid{stroke:#d8dee4}.axis{stroke:#59636e}\n"
         ".c0{fill:#0072b2;stroke:#0072b2}.c1{fill:#d55e00;stroke:#d55e00}.c2{fill:#009e73;stroke:#009e73}\n"
         ".c3{fill:#b8558f;stroke:#b8558f}.c4{fill:#c98a00;stroke:#c98a00}.c5{fill:#4aa3d8;stroke:#4aa3d8}\n"
         ".c6{fill:#6b5bbd;stroke:#6b5bbd}.c7{fill:#7a7a7a;stroke:#7a7a7a}\n"
         ".curve{fill:none;stroke-width:2}.dashed.curve{stroke-dasharray:6 3}.thin{stroke-width:.5}\n"
         ".use0{fill:#afb8c1;stroke:#afb8c1}.use1{fill:#7fb8de;stroke:#7fb8de}.use2{fill:#2f7fc1;stroke:#2f7fc1}\n"
         ".use3{fill:#e0a100;stroke:#e0a100}.use4{fill:#e06c1f;stroke:#e06c1f}.use5{fill:#c01f2e;stroke:#c01f2e}\n"
         ".link{stroke-width:2.5}\n"
         ".send{fill:#0072b2}.recv{fill:#009e73}.copy{fill:#8c959f}.reduce{fill:#d55e00}.odd{opacity:.6}\n"
         "@media(prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.faint{fill:#9198a1}\n"
         ".part{fill:#161b22;stroke:#656c76}.inner{fill:#21262d;stroke:#565d66}.core{fill:#3d444d;stroke:#656c76}\n"
         ".off{fill:none}.gpu{fill:#12382c}.nic{fill:#0f2f4a}.nvswitch{fill:#102a22}\n"
         ".grid{stroke:#2a313a}.axis{stroke:#9198a1}}\n";
}

std::string series_class(std::size_t i) { return fmt::format("c{}{}", i % kColours, i < kColours ? "" : " dashed"); }

std::string_view use_class(double utilisation) {
  if (utilisation <= 0) return kUses[0].name;
  constexpr double kBelow[] = {0.25, 0.5, 0.75, 0.9};
  std::size_t row = 1;
  for (const double limit : kBelow) row += utilisation >= limit ? 1 : 0;
  return kUses[row].name;
}

}  // namespace sinew::draw
