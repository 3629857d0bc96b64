#pragma once

#include <sinew/parallel/placement/redistribution/redistribute.hpp>

namespace sinew::parallel {

/// Runs the steps of a plan on the data of this rank. The buffers are as `redistribute` takes them.
void run_steps(const Redistribution& plan, ConstBuffer from, Buffer to, Mesh& mesh, const CallOptions& options);

}  // namespace sinew::parallel
