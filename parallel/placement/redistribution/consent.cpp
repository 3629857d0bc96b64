#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/placement/redistribution/consent.hpp>

namespace sinew::parallel {

void require_consent(const std::string& asked, const std::string& fault, Mesh& mesh, const CallOptions& options,
                     std::string_view call) {
  std::vector<std::string> groups = mesh.groups();
  std::erase_if(groups, [&](const std::string& axes) { return mesh.size(axes) == 1; });
  std::optional<Difference> difference;
  int differs = 0;
  for (const std::string& axes : groups) {
    auto found = difference_on(mesh.along(axes), fmt::format("{} along {}", call, axes), asked, options,
                               mesh.shape().group_of(mesh.rank(), axes));
    if (!found) continue;
    differs += found->suspect ? 1 : 0;
    if (!difference || found->suspect) difference = std::move(found);
  }
  const int stopping = who_stops(mesh, groups, !fault.empty(), differs, options);
  if (!fault.empty()) throw Error(Code::InvalidArgument, fault);
  if (difference) throw Error(Code::InvalidArgument, difference->text, stopping);
  if (stopping >= 0)
    throw Error(Code::InvalidArgument,
                fmt::format("{} of {}: {} has refused it, and says why", call, asked, mesh.rank_text(stopping)),
                stopping);
}

}  // namespace sinew::parallel
