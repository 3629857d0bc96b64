#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include <sinew/transports/nccl/library/features.hpp>
#include <sinew/transports/nccl/library/library.hpp>

namespace sinew::nccl {

Features features_of(const Api& api) noexcept {
  const bool registration = api.mem_alloc != nullptr && api.mem_free != nullptr && api.comm_register != nullptr &&
                            api.comm_deregister != nullptr;
  const bool windows = api.comm_window_register != nullptr && api.comm_window_deregister != nullptr;
  return {.split = api.comm_split != nullptr,
          .registration = registration,
          .windows = registration && windows,
          .all_to_all = api.all_to_all != nullptr,
          .gather = api.gather != nullptr,
          .scatter = api.scatter != nullptr};
}

Features common_to(const Features& a, const Features& b) noexcept {
  return {.split = a.split && b.split,
          .registration = a.registration && b.registration,
          .windows = a.windows && b.windows,
          .all_to_all = a.all_to_all && b.all_to_all,
          .gather = a.gather && b.gather,
          .scatter = a.scatter && b.scatter};
}

bool orders_itself(int version) noexcept {
  const char* asked = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return version >= kFirstWithLaunchOrder && asked != nullptr && std::string_view(asked) == "1";
}

std::string lack_of(const char* function, int first_version, int version) {
  if (version >= first_version) return fmt::format("NCCL {} without {} on some rank", version_text(version), function);
  return fmt::format("NCCL {} has no {}, which is there from {} on", version_text(version), function,
                     version_text(first_version));
}

}  // namespace sinew::nccl
