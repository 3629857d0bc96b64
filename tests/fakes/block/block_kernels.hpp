#pragma once

namespace sinew::fake {

/// Lets launches on fake devices find the kernels of parallel/kernels. Their teams are the blocks of CUDA's image
/// (block.hpp), whose threads take turns. This takes about a hundred times as long as add_parallel_kernels().
__attribute__((visibility("default"))) void add_block_kernels();

}  // namespace sinew::fake
