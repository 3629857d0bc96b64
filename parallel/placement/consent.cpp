#include <array>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/placement/consent.hpp>

namespace sinew::parallel {

void require_consent(const std::string& asked, const std::string& fault, Mesh& mesh, const CallOptions& options) {
  std::vector<std::string> groups = mesh.groups();
  std::erase_if(groups, [&](const std::string& axes) { return mesh.size(axes) == 1; });
  std::optional<Error> difference;
  for (const std::string& axes : groups) {
    try {
      require_equal_on_all(mesh.along(axes), "redistribute along " + axes, asked, options);
    } catch (const Error& e) {
      if (e.code() != Code::InvalidArgument) throw;
      difference = e;
    }
  }
  const bool stops = difference || !fault.empty();
  std::array<std::int32_t, 1> stopping{stops ? mesh.rank() : -1};
  take_largest(std::span<std::int32_t>(stopping), groups, mesh, options);
  if (!fault.empty()) throw Error(Code::InvalidArgument, fault);
  if (difference) throw *difference;
  if (stopping[0] >= 0)
    throw Error(Code::InvalidArgument,
                fmt::format("redistribute of {}: rank {} of the mesh has refused it, and says why", asked, stopping[0]),
                stopping[0]);
}

}  // namespace sinew::parallel
