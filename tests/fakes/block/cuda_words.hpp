#pragma once

// The words of CUDA's language that parallel/kernels/block.hpp is written in, for threads that take turns.
#define __device__
#define __shared__ static  // one block runs at a time

struct FakeDim {
  unsigned x;
};
extern FakeDim threadIdx, blockIdx, gridDim;

/// Waits until all threads of the block have come here.
void __syncthreads();
/// The value that the thread of the warp gives whose number differs in these bits. All threads of the warp take part.
unsigned __shfl_xor_sync(unsigned mask, unsigned value, int bits);
