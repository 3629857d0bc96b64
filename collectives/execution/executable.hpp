#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/collectives/schedule/sized_messages.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/group.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// A program made ready to run on one communicator for one call signature: who follows whom, which endpoint a message
/// takes, which kernel combines, where chunks lie. Immutable; shared by all calls of the plan.
/// Cost:     built once per plan; a run of it allocates nothing in the steady state.
struct SINEW_API Executable {
  Program program;
  const Group* group =
      nullptr;  ///< names ranks in errors, and outlives this object; null: errors show the program's numbers
  bool local_counts = false;  ///< chunks come with each call, and a message's length must be looked at by both sides
  ChunkTable chunks;
  std::vector<Slice> scratch_models;          ///< with local counts
  std::unique_ptr<SizedMessages> sized;       ///< null: messages are not sized
  std::vector<std::uint32_t> waits_for;       ///< per step: number of predecessors
  std::vector<std::uint32_t> follower_first;  ///< per step: first entry of `followers`; one more at the end
  std::vector<std::uint32_t> followers;
  std::vector<std::uint32_t> message_of_step;  ///< per step: its place among the completions of an instance
  std::vector<Endpoint*> endpoint_of_step;     ///< null for Copy and Reduce
  std::uint32_t messages = 0;
  std::uint32_t segments = 1;
  std::uint32_t depth = 1;          ///< instances at a time
  std::uint64_t scratch_bytes = 0;  ///< of one instance; with local counts each call's own
  std::uint32_t element_bytes = 1;
  Reducer reducer;
  Scaler scaler;
  Codec codec = Codec::None;
  std::uint64_t unit = 1;  ///< elements: pieces begin at multiples of it
  CodecKernels coding;

  /// Returns the text by which errors name a rank of the communicator.
  std::string rank_text(int rank) const;

  /// `endpoint(peer)` gives the connection to a rank of the communicator.
  template <class EndpointOf>
  static std::unique_ptr<Executable> make(const CollectiveDesc& desc, Program program, const Segmentation& segmentation,
                                          EndpointOf&& endpoint) {
    auto e = prepare(desc, std::move(program), segmentation);
    for (const Step& s : e->program.steps) {
      e->endpoint_of_step.push_back(s.op == Op::Send || s.op == Op::Recv ? endpoint(s.peer) : nullptr);
    }
    return e;
  }

 private:
  static std::unique_ptr<Executable> prepare(const CollectiveDesc& desc, Program program,
                                             const Segmentation& segmentation);
  void set_segments(const Segmentation& segmentation);
};

}  // namespace sinew
