#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew::test {

/// One call with checked data. `count` as in CollectiveDesc, of v-forms about that of a part (v_case.hpp); `offset`
/// misaligns the buffers by so many bytes.
struct CollectiveCase {
  Collective collective = Collective::AllReduce;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  std::uint64_t count = 0;
  bool in_place = false;
  int root = 0;
  std::size_t offset = 0;

  std::string to_string() const;
};

/// Buffers in the memory of a device, and a stream that they are filled on.
struct OnDevice {
  DeviceRuntime& runtime;
  StreamRef stream;
};

/// Makes the call on this rank and returns the number of wrong elements of its output (and of inputs that changed).
/// `where`: null for host memory.
std::uint64_t run_case(Communicator& communicator, const CollectiveCase& c, std::uint32_t salt,
                       const OnDevice* where = nullptr);

/// Cases in which every pair of values of any two parameters appears together at least once: collectives, dtypes,
/// operators, sizes up to `largest_bytes`, in place or not.
std::vector<CollectiveCase> pairwise_cases(int ranks, std::uint64_t largest_bytes);
/// Every combination; the operator does not matter to what does not reduce.
std::vector<CollectiveCase> all_cases(int ranks, std::uint64_t largest_bytes);

}  // namespace sinew::test
