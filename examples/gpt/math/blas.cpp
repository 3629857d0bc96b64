#include "blas.hpp"

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/host_blas.hpp>

namespace gpt {

std::unique_ptr<Blas> make_blas(std::string_view name, int threads) {
  using sinew::parallel::HostBlas;
  if (name == "host") return std::make_unique<HostBlas>(sinew::parallel::HostBlasOptions{.threads = threads});
  if (name == "cublas") return make_cublas();
  throw sinew::Error(sinew::Code::InvalidArgument, fmt::format("blas '{}': expected host or cublas", name));
}

}  // namespace gpt
