#pragma once

#include <string>

/// Figures for people: three digits and a unit.
namespace sinew::doctor {

/// "1.5 GiB".
std::string bytes_text(double bytes);
/// "118 MB/s".
std::string rate_text(double bytes_per_s);
/// "52.1 us".
std::string time_text(double seconds);

}  // namespace sinew::doctor
