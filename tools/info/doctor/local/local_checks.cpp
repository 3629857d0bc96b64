#include "local_checks.hpp"

#include "kernel_checks.hpp"
#include "memory_checks.hpp"
#include "process_checks.hpp"

namespace sinew::doctor {

std::vector<Finding> check_host(const HostLimits& host, const JobShape& job, const std::optional<std::string>& tried) {
  std::vector<Finding> found{check_memory(host, job),
                             check_tasks(host, job),
                             check_descriptors(host, job),
                             check_cores(host, job),
                             check_direct_reads(host, tried),
                             check_huge_pages(host),
                             check_congestion_control(host, job)};
  for (Finding& f : check_mappings(host)) found.push_back(std::move(f));
  return found;
}

}  // namespace sinew::doctor
