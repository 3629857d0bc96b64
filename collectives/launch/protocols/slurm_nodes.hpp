#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// More nodes than this in one job are taken for a mistake in the list.
inline constexpr std::size_t kMostNodes = 1 << 16;

/// "gpu[01-03,07],login2,a[1-2]b[08-10]" -> gpu01, gpu02, gpu03, gpu07, login2, a1b08, ...: in Slurm's order, the last
/// bracket fastest. The first number of a range says how wide all of it are.
/// Errors: Error{InvalidArgument}: "`variable`=`text`: ", what is wrong with it, and the form expected.
SINEW_API std::vector<std::string> expand_nodes(std::string_view variable, std::string_view text);

/// "4(x3),2" -> 4, 4, 4, 2. Errors: as above.
SINEW_API std::vector<int> expand_counts(std::string_view variable, std::string_view text);

}  // namespace sinew
