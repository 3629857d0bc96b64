#include "in_a_job.hpp"

#include <cstdlib>
#include <initializer_list>

#include <sinew/collectives/launch/slurm.hpp>

namespace sinew::tools {

bool in_a_job() {
  for (const char* name : {"WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return slurm_step(process_environment()).has_value();
}

}  // namespace sinew::tools
