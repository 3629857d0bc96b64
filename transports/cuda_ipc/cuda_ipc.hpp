#pragma once

#include <sinew/core/fabric.hpp>

namespace sinew::cuda_ipc {

/// Whole collectives on the memory of CUDA devices, between the ranks of one host.
Module& module() noexcept;

}  // namespace sinew::cuda_ipc
